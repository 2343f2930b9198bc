"""Profiles and lanes of users who share a daemon that is root: nobody's program is given another's profile, no code of
another's runs in its name, and no lane keeps anybody's keys.
"""

from __future__ import annotations

import base64
import os
import pickle
import shutil

import pytest
from nbtest import daemons, proc
from nbtest.town import BOB, MALLORY, TRUSTED, as_user
from storekit import open_store

from nbcache.protocol import profiles, requests, sources, spool
from nbcache.protocol.profiles import Head, Profile, Unit
from nbcache.store import layout

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="needs root: becomes other users"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]
NAME = "ab" * 16
COLD = {"NBTEST_COLD": "600", "NBCACHE_LOG": "info", "NBCACHE_READONLY": "0"}
RAN = "code of Mallory's runs here"
FORGING = """
import glob, os, sys
from nbcache.daemon import job_side
from nbcache.store import entry
store = job_side.HandingStore({store!r}, job_side.rule(), writable=True)
for path in glob.glob({copies!r} + "/*"):
    with open(path, "rb") as file:
        found = entry.parse(file.read())
    sections = {{name: found.section(name) for name in found.section_sizes}}
    said = job_side._current.link.ask({{"claim": found.header.key}})
    done = store.publish(found.header._replace(build="forged"), sections)
    print("forgery:", said["ok"], done.ok, done.reason, file=sys.stderr)
"""
HOLDING = """
import os, sys, time
from nbcache.daemon import job_side
print("holding:", [job_side._current.link.ask({{"claim": key}})["ok"] for key in {keys!r}], file=sys.stderr)
while not os.path.exists({gate!r}):
    time.sleep(0.02)
"""


class Payload:
    """A pickle that says that it was opened."""

    def __reduce__(self):
        code = f"import sys\nfrom nbcache.store import layout\nprint({RAN!r}, layout.READER.uid, file=sys.stderr)"
        return exec, (code,)


def asked_for(town, name="good"):
    """How Bob's program asks for its function."""
    main = town.write("bob", name)
    (found,) = (each for each in town.recorded(main) if each.function == f"{name}:f")
    return found._replace(path=(str(town.place / "bob"),))


def lane(like, of, key, owner="mallory", name=NAME):
    """Ask for a profile from the environment of a request."""
    return like._replace(
        key=key, kind=requests.PROFILE, function="profile:main.py", signature="", source=name,
        types={"uid": of, "package": "", "lane": 0}, path=(str(like.path[0]).replace("bob", owner),), components=(),
    )  # fmt: skip


def leave(town, uid, *units, name=NAME, mode=0o644, of=()):
    """Have a user leave a profile."""

    def write():
        os.umask(0o022)
        assert profiles.write(str(town.store), name, Profile(Head("main.py", {}, "", 1.0), units), *of)
        os.chmod(f"{town.store}/{layout.PROFILES}/{uid}/{name}.jsonl", mode)

    as_user(uid, write)


def unit(function, key, value=None):
    types = {"version": 1, "args": ["int64"], "returns": None}
    return Unit("dispatcher", function, "(int64)", types, (), value, key, 5.0)


def ask(town, uid, *wanted):
    return as_user(uid, lambda: [spool.submit(str(town.store), each) for each in wanted])


def answered(daemon, paths):
    daemons.wait_for(lambda: not any(map(os.path.exists, paths)), lambda: daemon.log)


def forget_entries(town):
    for shard in (town.store / "v1/objects").iterdir():
        shutil.rmtree(shard)


@pytest.mark.long
def test_bob_s_cold_start_is_his_own_whatever_mallory_leaves_of_his_program(town):
    store, mine = town.store, f"{town.store}/{layout.PROFILES}"
    main = town.write("bob", "good")
    with town.daemon("--workers", "2") as daemon:
        forged = unit("good:f", "5a" * 32, pickle.dumps(Payload()))
        town.run(BOB, main, **COLD, NBCACHE_ON_MISS="compile")
        [his] = profiles.heads(str(store), open_store(store, trusted_uids={BOB}).trust)
        assert his.uid == BOB
        # A profile of his program's name in her own place, and links to it under other names of his.
        leave(town, MALLORY, forged, name=his.name)

        def links():
            os.symlink(f"{mine}/{MALLORY}", f"{mine}/{BOB}-0123abcd")
            os.mkdir(f"{mine}/{BOB}-0123abce")
            os.link(f"{mine}/{MALLORY}/{his.name}.jsonl", f"{mine}/{BOB}-0123abce/{his.name}.jsonl")

        as_user(MALLORY, links)
        forget_entries(town)
        ended = town.run(BOB, main, **COLD)
        assert "asked for the" in ended.stderr
        daemon.says("functions of profile:")
        daemon.settle()
        assert RAN not in daemon.log + ended.stderr
        # Who asks for hers has it opened in a job of his own, and no other one. With two names it is nobody's.
        as_user(MALLORY, lambda: os.unlink(f"{mine}/{BOB}-0123abce/{his.name}.jsonl"))
        [path] = ask(town, MALLORY, lane(asked_for(town), MALLORY, layout.reserved("hers"), name=his.name))
        answered(daemon, [path])
        daemon.says(RAN)
        lines = [line for line in town.audited() if line["event"] == "published"]
        assert lines
        assert all(line["built"] not in {0, BOB, MALLORY} for line in lines)
        assert daemon.stop() == 0


def test_nobody_has_a_profile_opened_that_he_may_not_read(town):
    like = asked_for(town)
    with town.daemon("--workers", "1") as daemon:
        leave(town, BOB, unit("secret:f", "5a" * 32, base64.b64encode(b"secret")), mode=0o600)
        [hers] = ask(town, MALLORY, lane(like, BOB, layout.reserved("hers")))
        answered(daemon, [hers])
        daemon.says("could not build profile:main.py: there is no such profile that may be used")
        assert "functions of profile" not in daemon.log
        [his] = ask(town, BOB, lane(like, BOB, layout.reserved("his"), "bob"))
        answered(daemon, [his])
        daemon.says("functions of profile:main.py")
        assert daemon.stop() == 0


def test_what_a_lane_of_mallory_s_hands_in_is_nobody_s_code_but_hers(town):
    """Her lane claims Bob's keys, once he has them and once they were evicted, and forges all of them."""
    like = asked_for(town)
    copies = town.place / "copies"
    copies.mkdir()
    with town.daemon("--workers", "2") as daemon:
        answered(daemon, ask(town, BOB, like))
        path = town.entry()
        before = path.read_bytes()
        (copies / "one").write_bytes(before)
        town.write("mallory", "forged", FORGING.format(store=str(town.store), copies=str(copies)))
        leave(town, MALLORY, unit("forged:f", "5a" * 32))
        for turn, ran in enumerate(("while it is there", "once it was evicted"), 1):
            answered(daemon, ask(town, MALLORY, lane(like, MALLORY, layout.reserved(ran))))
            daemons.wait_for(lambda turn=turn: daemon.log.count("forgery:") >= turn, lambda: daemon.log)
            daemon.settle()
            if turn == 1:
                assert path.read_bytes() == before
                assert proc.run(["-m", "nbcache", "gc", "--max-size", "1"], town.store).status == 0
                assert not path.exists()
        found = open_store(town.store, trusted_uids=TRUSTED)
        assert [each.header.build for each in found.find(like.key, uid=MALLORY)] == ["forged"]
        assert [*found.find(like.key, uid=BOB)] == []
        answered(daemon, ask(town, BOB, like))
        daemon.settle()
        assert town.parsed(path).extra["asked"] == BOB
        assert town.parsed(path).build != "forged"
        assert daemon.stop() == 0


@pytest.mark.long
def test_a_lane_of_mallory_s_holds_what_bob_asks_for_no_longer_than_a_job_does(town):
    """It claims what he will ask for, and his next lane; what he waits for already it may not claim."""
    like, gate = asked_for(town), town.place / "mallory" / "gate"
    other = asked_for(town, "other")
    his = lane(like, BOB, layout.reserved("his"), "bob")
    keys = [like.key, other.key, his.key]
    with town.daemon("--workers", "3") as daemon:
        town.write("mallory", "held", HOLDING.format(keys=keys, gate=str(gate)))
        town.write("mallory", "again", HOLDING.format(keys=keys, gate=str(gate) + "2"))
        leave(town, MALLORY, unit("held:f", "5a" * 32))
        leave(town, BOB, unit("good:f", "5b" * 32))
        # A lane of hers under the key of one of his.
        ask(town, MALLORY, lane(like, MALLORY, his.key))
        daemon.says("holding: [True, True, None]")
        # His lane goes on beside hers, and what she holds is compiled after her job.
        answered(daemon, ask(town, BOB, his))
        paths = ask(town, BOB, like)
        daemons.wait_for(lambda: daemon.heartbeat().get("queue") == 1)
        leave(town, MALLORY, unit("again:f", "5a" * 32))
        ask(town, MALLORY, lane(like, MALLORY, layout.reserved("hers")))
        daemon.says("holding: [None, False, None]")
        assert all(map(os.path.exists, paths))
        gate.touch()
        answered(daemon, paths)
        assert town.parsed(town.entry()).extra["asked"] == BOB
        (gate.parent / "gate2").touch()
        assert daemon.stop() == 0


@pytest.mark.long
def test_a_lane_under_the_key_of_a_function_is_none(town):
    """It went on for as long as it brought something, and what Bob asked for under that key waited behind it."""
    like = asked_for(town)
    with town.daemon("--workers", "1") as daemon:
        leave(town, MALLORY, unit("held:f", "5a" * 32))
        town.write("mallory", "held", HOLDING.format(keys=[], gate=str(town.place / "never")))
        answered(daemon, ask(town, MALLORY, lane(like, MALLORY, like.key)))
        daemon.says("its field key must be a reserved key")
        answered(daemon, ask(town, BOB, like))
        assert town.parsed(town.entry()).extra["asked"] == BOB
        assert daemon.stop() == 0


@pytest.mark.long
def test_who_asks_for_what_is_last_in_another_s_backlog_has_a_place_of_his_own(town):
    """Bob waited for all that Mallory had asked for before she asked for something under his key."""
    like = asked_for(town)
    gates = [town.place / "mallory" / f"gate{number}" for number in range(3)]
    for number, gate in enumerate(gates):
        town.write("mallory", f"slow{number}", HOLDING.format(keys=[], gate=str(gate)).replace("print", "0 and print"))
    hers = [
        like._replace(
            key=key, function=f"slow{number}:f", path=(str(town.place / "mallory"),)
        )
        for number, key in enumerate(("5a" * 32, "5b" * 32, like.key))
    ]  # fmt: skip
    with town.daemon("--workers", "1") as daemon:
        for number, each in enumerate(hers, 1):
            ask(town, MALLORY, each)
            daemons.wait_for(lambda number=number: len(daemons.spool(town.store)) == number)
            daemons.wait_for(
                lambda number=number: sum(map(int, map(daemon.heartbeat().get, ("busy", "queue")))) == number
            )
        paths = ask(town, BOB, like)
        daemons.wait_for(lambda: daemon.heartbeat().get("queue") == 3)
        gates[0].touch()
        answered(daemon, paths)
        assert town.parsed(town.entry()).extra["asked"] == BOB
        for gate in gates[1:]:
            gate.touch()
        daemon.settle()
        assert daemon.stop() == 0


@pytest.mark.long
def test_what_a_profile_is_built_for_when_a_file_is_saved_runs_in_its_owners_name(town):
    """Mallory's profile says that it is Bob's, that he asks, and that it is about a file of his."""
    like, bobs = asked_for(town), town.place / "bob" / "good.py"
    his, hers = unit("good:f", "5b" * 32), unit("held:f", "5a" * 32, pickle.dumps(Payload()))
    bob_asks = lane(like, BOB, layout.reserved("his"), "bob")
    with town.daemon("--watch", "--workers", "1") as daemon:
        leave(town, MALLORY, hers, of=[sources.line(bob_asks, [str(bobs)], 1, 1.0)])
        leave(town, BOB, his, name="cd" * 16, mode=0o600, of=[sources.line(bob_asks, [str(bobs)], 1, 1.0)])
        bobs.write_text(f"{bobs.read_text()}# saved\n")
        daemons.wait_for(lambda: daemon.log.count(" ready: ") == 2, lambda: daemon.log)
        daemon.settle()
        published = [line for line in town.audited() if line["event"] == "published"]
        # Numba's runtime is built by whoever comes first, in his own name.
        own = {(line["function"], line["asked"]) for line in published if line["function"] != "numba.core.runtime:nrt"}
        assert own == {("good:f", BOB)}
        assert f"{RAN} {MALLORY}" in daemon.log
        assert f"{RAN} {BOB}" not in daemon.log
        assert all(line["built"] not in {0, BOB, MALLORY} for line in published)
        assert daemon.stop() == 0
