"""Users who may ask one daemon, and who want one another's programs to run their code: real uids, real processes."""

from __future__ import annotations

import json
import os

import pytest
from nbtest import daemons, proc
from nbtest.town import BOB, CAROL, FILLING, MALLORY, TRUSTED, crash_with
from storekit import SECTIONS, header, key, open_store

from nbcache.daemon import housekeeping
from nbcache.daemon.audit import Audit
from nbcache.daemon.publisher import Publisher, Ticket
from nbcache.protocol import requests
from nbcache.store import entry, first_askers, layout, quarantine

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="needs root: becomes other users"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


# -- marks, without a daemon's processes -----------------------------------------------------------


@pytest.fixture
def store(place):
    found = open_store(place / "store", trusted_uids=TRUSTED)
    first_askers.begin(found.path)
    return found


@pytest.fixture
def published(store):
    """An entry that a daemon built for Bob, on trial."""
    path = store.publish(header(extra={"asked": BOB}), SECTIONS).path
    (found,) = store.find(key())
    assert found.path == path
    return found


def judged(store, place, again=None):
    """What a daemon does about marks: whether it removed anything, and its audit log."""
    before = {info.path for info in store.scan()}
    housekeeping.have_rebuilt(store, Audit(str(place)), ([] if again is None else again).append)
    lines = [json.loads(line) for log in place.glob("audit*.jsonl") for line in log.read_text().splitlines()]
    return before != {info.path for info in store.scan()}, lines


def test_one_user_s_word_removes_nothing_of_another_s(store, published, place):
    crash_with(store.path, published.digest, key(), MALLORY)
    assert judged(store, place) == (False, [])
    # She passes it over herself, and has another one built, for herself.
    assert [store.holds(key(), uid) for uid in (BOB, MALLORY, CAROL)] == [True, False, True]


@pytest.mark.parametrize("how", ["proven", "pinned"])
def test_what_is_proven_or_published_by_name_stays_whatever_is_said(store, published, place, how):
    if how == "proven":
        quarantine.approve(published.path, published.digest)
    else:
        store.names.write("name", b"{}", [key()])
    for uid in (BOB, MALLORY, CAROL):
        crash_with(store.path, published.digest, key(), uid)
    assert judged(store, place) == (False, [])


def test_the_word_of_several_has_it_built_again_in_the_first_one_s_name(store, published, place):
    request = requests.read(_line(key()))
    os.unlink(published.path)
    store.publish(header(extra={"asked": BOB}), {**SECTIONS, "request": request.line()})
    (found,) = store.find(key())
    for uid in (MALLORY, CAROL):
        crash_with(store.path, found.digest, key(), uid, deaths=1)
    again = []
    removed, lines = judged(store, place, again)
    assert removed
    assert [line["event"] for line in lines] == ["quarantined", "removed", "rebuilding"]
    assert {(line["asked"], *line["caused"]) for line in lines} == {(BOB, MALLORY, CAROL)}
    assert [(each.key, each.uid) for each in again] == [(key(), BOB)]
    assert first_askers.first(store.path, key(), store.trust) == BOB


@pytest.mark.parametrize("uid", [0, BOB])
def test_root_s_word_and_one_s_own_suffice(store, published, place, uid):
    crash_with(store.path, published.digest, key(), uid)
    removed, lines = judged(store, place)
    assert removed
    assert [line["event"] for line in lines] == ["quarantined", "removed"]


@pytest.mark.parametrize("uid", [BOB, MALLORY])
def test_what_one_s_own_programs_crashed_with_is_replaced_if_it_is_one_s_own(store, published, uid):
    crash_with(store.path, published.digest, key(), uid)
    data = entry.encode(header(build="again"), SECTIONS)
    assert Publisher(lambda: store).take(Ticket(key(), asked=uid), lambda _most: data).reason == "published"
    assert [found.header.build for found in store.find(key())] == ["again" if uid == BOB else "b" * 16]
    assert store.holds(key(), uid)


def _line(of):
    return requests.Request(
        key=of, kind="dispatcher", function="m:f", signature="", types={}, source="0" * 32, value=None, modules=(),
        path=(), interpreter="", settings={}, toolchain="", components=(), created=0.0, host="", pid=1,
    ).line()  # fmt: skip


def test_nobody_s_keys_push_out_another_s(store):
    kept = [f"{number:08x}{'0' * 56}" for number in range(20)]
    for each in kept:
        first_askers.remember(store.path, each, BOB)
    for number in range(2000):
        first_askers.remember(store.path, f"{number % 20:08x}{number:056x}", MALLORY)
    assert {first_askers.first(store.path, each, store.trust) for each in kept} == {BOB}
    assert os.path.getsize(f"{store.path}/{layout.ASKERS}/{MALLORY}-1") <= 2_700_000
    # Of her own, the oldest go first.
    assert first_askers.first(store.path, f"{19:08x}{1999:056x}", store.trust) == MALLORY
    assert first_askers.first(store.path, f"{19:08x}{19:056x}", store.trust) is None


# -- a daemon's processes --------------------------------------------------------------------------


def answered(daemon, paths):
    daemons.wait_for(lambda: not any(map(os.path.exists, paths)), lambda: daemon.log)


def test_forged_crashes_and_a_request_that_waits(town):
    """The first attack: Bob's entry is removed by what Mallory says, and hers takes its key."""
    with town.daemon("--workers", "1") as daemon:
        main = town.write("bob", "good")
        town.run(BOB, main)
        path = town.entry()
        digest, of = entry.parse(path.read_bytes()).digest, town.parsed(path).key
        before = path.read_bytes()
        town.keep_house()
        # The worst case: nobody is known to have used it well.
        path.chmod(0o644)
        asked = town.recorded(main)
        crash_with(town.store, digest, of, MALLORY)
        answered(daemon, town.claim(asked))
        town.keep_house()
        assert path.read_bytes() == before
        # With somebody else's word it is removed, and built again for Bob; not by Mallory's job, which waits.
        crash_with(town.store, digest, of, CAROL)
        paths = town.claim(asked)
        daemons.wait_for(lambda: path.exists() and path.read_bytes() != before, lambda: daemon.log)
        answered(daemon, paths)
        daemon.settle()
        assert town.parsed(path).extra["asked"] == BOB
        assert town.parsed(path).build != "forged"
        town.run(BOB, main)
        caused = [(line["event"], line["asked"], line["caused"]) for line in town.audited() if "caused" in line]
        assert caused == [(event, BOB, [MALLORY, CAROL]) for event in ("quarantined", "removed", "rebuilding")]
        assert daemon.stop() == 0


@pytest.mark.long
def test_a_job_that_fills_the_store_costs_nobody_else_an_entry(town):
    """The second attack: what Mallory's jobs hand in makes room for itself at Bob's expense, and takes his key."""
    with town.daemon("--workers", "1", NBCACHE_MAX_SIZE="8MB") as daemon:
        main = town.write("bob", "good")
        town.run(BOB, main)
        path = town.entry()
        before = path.read_bytes()
        town.run(MALLORY, town.write("mallory", "big", FILLING.format(store=str(town.store))))
        daemons.wait_for(lambda: any(line["event"] == "evicted" for line in town.audited()), lambda: daemon.log)
        assert {line["asked"] for line in town.audited() if line["event"] == "evicted"} == {MALLORY}
        assert path.read_bytes() == before
        # Whoever removes it, its key remembers Bob: nobody else gets Mallory's.
        asked = town.recorded(main)
        (town.place / "copy").write_bytes(before)
        assert proc.run(["-m", "nbcache", "gc", "--max-size", "1"], town.store).status == 0
        assert not path.exists()
        paths = town.claim(asked)
        answered(daemon, paths)
        daemon.settle()
        assert "forgery: True published" in daemon.log
        assert not path.exists()
        of = town.parsed(town.place / "copy").key
        found = open_store(town.store, trusted_uids=TRUSTED)
        assert [each.header.build for each in found.find(of, uid=MALLORY)] == ["forged"]
        assert [*found.find(of, uid=BOB)] == []
        town.run(BOB, main)
        daemon.says("built good:f")
        assert town.parsed(path).extra["asked"] == BOB
        assert town.parsed(path).build != "forged"
        again = town.run(BOB, main, NBCACHE_LOG="debug")
        assert "hit: good:f" in again.stderr
        assert daemon.stop() == 0


@pytest.mark.long
@pytest.mark.parametrize("how", ["evicted", "set aside"])
def test_who_asks_for_another_s_key_finds_what_is_built_for_him(town, how):
    with town.daemon("--workers", "1") as daemon:
        main = town.write("bob", "good")
        town.run(BOB, main)
        daemon.settle()
        path = town.entry()
        of = town.parsed(path).key
        if how == "evicted":
            assert proc.run(["-m", "nbcache", "gc", "--max-size", "1"], town.store).status == 0
        else:
            town.keep_house()
            path.chmod(0o644)
            crash_with(town.store, entry.parse(path.read_bytes()).digest, of, MALLORY)
        theirs = town.write("mallory", "good")
        town.run(MALLORY, theirs)
        daemon.says("built good:f")
        daemon.settle()
        again = town.run(MALLORY, theirs, NBCACHE_LOG="debug")
        assert "hit: good:f" in again.stderr
        found = open_store(town.store, trusted_uids=TRUSTED)
        assert {each.header.extra["asked"] for each in found.find(layout.room(of, MALLORY))} == {MALLORY}
        assert {each.header.extra["asked"] for each in found.find(of)} == (set() if how == "evicted" else {BOB})
        assert daemon.stop() == 0


@pytest.mark.long
def test_a_job_hands_in_64_mebibytes_unless_more_is_allowed(town):
    does = FILLING.replace("range(12)", "range(9)").replace("1 << 20", "8 << 20").format(store=str(town.store))
    with town.daemon("--workers", "1") as daemon:
        town.run(MALLORY, town.write("mallory", "big", does))
        daemon.says("the job handed in too much")
        daemon.settle()
        assert sum(info.size for info in open_store(town.store).scan()) < 65 << 20
        assert daemon.stop() == 0
        refused = daemon.log.count("the job handed in too much")
    with town.daemon("--workers", "1", "--job-result", "100MiB") as daemon:
        town.run(MALLORY, town.write("mallory", "bigger", does))
        daemon.settle()
        assert daemon.log.count("the job handed in too much") == refused
        assert daemon.stop() == 0
