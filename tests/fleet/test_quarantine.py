"""Entries whose code crashes: few processes die, the others pass them over, and they are built again."""

from __future__ import annotations

import json
import os
import re
import signal
import time

import pytest
from nbtest import daemons, proc, usage
from nbtest.spoiling import spoil

from nbcache.config import Settings
from nbcache.file_trust import Trust
from nbcache.store import entry, first_calls, quarantine
from nbcache.store.directory import Store

LIB = "from numba import njit\n@njit\ndef g(x):\n    return x * 3\n@njit\ndef f(x):\n    return x + 41\n"
MAIN = "import lib\nprint(lib.g(1), lib.f(1))\n"
EXPECTED = "3 42\n"


@pytest.fixture
def main(place):
    (place / "lib.py").write_text(LIB)
    (place / "main.py").write_text(MAIN)
    return place / "main.py"


def fleet(main, store, count, **extra):
    """Run so many processes, one after the other; return how many died. The others say what they should."""
    outcomes = [proc.run([main], store, extra) for _ in range(count)]
    died = [outcome for outcome in outcomes if outcome.status == -signal.SIGILL]
    well = [outcome for outcome in outcomes if outcome not in died]
    assert {outcome.stdout for outcome in well} <= {EXPECTED}, [outcome.stderr for outcome in well]
    assert {outcome.status for outcome in well} <= {0}
    return len(died)


def doctor(store):
    return proc.run(["-m", "nbcache", "doctor"], store).stdout


@pytest.mark.parametrize("count", [6, pytest.param(50, marks=[pytest.mark.long, pytest.mark.timeout(600)])])
def test_two_die_and_the_next_one_builds_it_again(main, place, count):
    store = place / "store"
    assert fleet(main, store, 2) == 0
    spoil(store, "lib:f")
    assert fleet(main, store, 2) == 2
    assert re.search(r"2 programs crashed when they first used lib:f: skipped", doctor(store))
    listed = proc.run(["-m", "nbcache", "quarantine", "--json"], store)
    assert [(each["function"], each["crashes"], each["state"]) for each in json.loads(listed.stdout)] == [
        ("lib:f", 2, "skipped")
    ]
    before = usage.read(store)
    assert fleet(main, store, count - 2) == 0
    seen = usage.read(store).since(before)
    assert dict(seen.misses) == {"quarantined": 1}
    assert sum(seen.builds_in("lib").values()) == 1
    assert "lib:f: built again" in doctor(store)
    assert "quarantined" in proc.run(["-m", "nbcache", "stats"], store).stdout
    proc.run(["-m", "nbcache", "quarantine", "--clear"], store)
    assert "no entry is suspected" in proc.run(["-m", "nbcache", "quarantine"], store).stdout
    proc.verify(store)


def at_once(main, store, count, **extra):
    """Run so many processes that begin at one moment; return how many died. The others say what they should."""
    gate = main.with_name("gate")
    gate.unlink(missing_ok=True)
    # By default nobody waits for longer than a second in all until another one is through, or dead: where cores are
    # dumped, or many wait for a processor, that takes longer, and a third one would die.
    text = (
        "from nbcache.client import trials\ntrials.PATIENCE_SECONDS = 600.0\n"
        f"import os, time, lib\nprint('ready', flush=True)\nwhile not os.path.exists({str(gate)!r}):\n    time.sleep(0.01)\n"
    )
    gated = main.with_name("gated.py")
    gated.write_text(text + MAIN)
    processes = [proc.start([gated], store, extra) for _ in range(count)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    gate.touch()
    outcomes = [proc.finish(process) for process in processes]
    died = [outcome for outcome in outcomes if outcome.status == -signal.SIGILL]
    well = [outcome for outcome in outcomes if outcome not in died]
    assert {(outcome.status, outcome.stdout) for outcome in well} <= {(0, EXPECTED)}, [each.stderr for each in well]
    return len(died)


@pytest.mark.long
@pytest.mark.parametrize("count", [6, pytest.param(50, marks=pytest.mark.timeout(900))])
def test_two_die_of_all_that_begin_at_once(main, place, count):
    store = place / "store"
    assert at_once(main, store, 2) == 0
    spoil(store, "lib:f")
    before = usage.read(store)
    # On a machine that is busy with so many, the others wait as long as it takes.
    patient = {"NBCACHE_ON_MISS": "wait", "NBCACHE_WAIT_SECONDS": "300", "NBCACHE_WAIT_BUDGET": "3600"}
    assert at_once(main, store, count, **patient) == 2
    assert "2 programs crashed when they first used lib:f" in doctor(store)
    # One of the others built it, and all of these used that.
    assert list(usage.read(store).since(before).builds_in("lib").values()) == [1]
    assert at_once(main, store, 4) == 0
    assert "lib:f: built again" in doctor(store)
    proc.verify(store)


@pytest.mark.long
def test_a_daemon_builds_it_again_for_those_who_can_not(main, place):
    store = place / "store"
    with daemons.daemon(store) as daemon:
        assert fleet(main, store, 2) == 0
        spoil(store, "lib:f")
        # They can't write entries; they tell what they crashed with all the same.
        assert fleet(main, store, 2, NBCACHE_READONLY="1") == 2
        daemons.wait_for(
            lambda: "built lib:f" in daemon.log.partition("programs crashed with it")[2], lambda: daemon.log
        )
        # It was called by who built it, and so is on trial no more.
        built = [path for path in (store / "v1/objects").glob("??/*.nbo") if said(path) == "lib:f"]
        assert [path.stat().st_mode & quarantine.PROVEN for path in built] == [quarantine.PROVEN]
        before = usage.read(store)
        assert fleet(main, store, 2, NBCACHE_READONLY="1") == 0
        assert not usage.read(store).since(before).misses
        assert (
            daemon.log.count("removed the entry of lib:f because 2 programs crashed with it; a daemon builds it again")
            == 1
        )
        assert daemon.stop() == 0
    assert "built again" in doctor(store)


ABORTING = (
    "import ctypes\nfrom numba import njit\nabort = ctypes.CDLL(None).abort\nabort.argtypes, abort.restype = [], None\n"
    "@njit\ndef f(x):\n    if x == 1:\n        abort()\n    return x + 41\n"
)
"""A function that dies of the argument 1, whoever compiled it."""


@pytest.mark.long
def test_what_crashes_again_when_a_daemon_tries_it_is_not_handed_out(place):
    store = place / "store"
    (place / "lib.py").write_text(ABORTING)
    (place / "main.py").write_text("import sys, lib\nprint(lib.f(int(sys.argv[1])))\n")
    with daemons.daemon(store) as daemon:
        # Not the daemon's: one that a process has called and got through is proven, and blamed for nothing any more.
        assert proc.run([place / "main.py", "2"], store, {"NBCACHE_ON_MISS": "compile"}).stdout == "43\n"
        for _ in range(2):
            assert proc.run([place / "main.py", "1"], store, {"NBCACHE_READONLY": "1"}).status == -signal.SIGABRT
        refused = (
            "could not build lib:f (int64): built again, it crashed as well (SIGABRT), called with made-up arguments"
        )
        daemons.wait_for(lambda: refused in daemon.log, lambda: daemon.log)
        assert not [path for path in (store / "v1/objects").glob("??/*.nbo") if said(path) == "lib:f"]
        assert proc.run([place / "main.py", "2"], store).stdout == "43\n"
        assert daemon.stop() == 0


@pytest.mark.long
def test_what_a_process_used_well_is_proven_and_leaves_nothing(main, place):
    store = place / "store"
    assert fleet(main, store, 2) == 0
    modes = {path.stat().st_mode & 0o777 for path in (store / "v1/objects").glob("??/*.nbo") if "lib" in said(path)}
    assert modes == {0o744}
    assert not list((store / "v1/trials").glob("*/*"))
    # From then on nothing is noted at all.
    (store / "v1/trials" / str(os.geteuid())).rmdir()
    assert fleet(main, store, 1) == 0
    assert not list((store / "v1/trials").iterdir())
    proc.verify(store)


@pytest.mark.long
def test_a_daemon_approves_of_what_others_used_well(main, place):
    store = place / "store"

    def proven():
        return [path for path in (store / "v1/objects").glob("??/*.nbo") if path.stat().st_mode & 0o100]

    assert fleet(main, store, 1) == 0
    found = [entry.parse(path.read_bytes()) for path in (store / "v1/objects").glob("??/*.nbo")]
    assert not proven()
    quarantine.vouch(str(store), [(each.digest, each.header.key) for each in found])
    with daemons.daemon(store):
        daemons.wait_for(lambda: {"lib:f", "lib:g"} <= set(map(said, proven())))


def said(path):
    return entry.parse(path.read_bytes()).header.function


@pytest.mark.long
@pytest.mark.parametrize(
    "end",
    [
        "os.kill(os.getpid(), 9)", "os._exit(0)", "os.kill(os.getpid(), 15)", "os.kill(os.getpid(), 11)", "os.abort()",
        "os.execv(sys.executable, [sys.executable, '-c', ''])",
    ],
)  # fmt: skip
def test_who_ends_between_calls_blames_nothing(main, place, end):
    store = place / "store"
    main.write_text(f"import os, sys\n{MAIN}sys.stdout.flush()\n{end}\n")
    assert [proc.run([main], store).stdout for _ in range(4)] == [EXPECTED] * 4
    quarantine.settle(str(store), Trust())
    assert quarantine.read(str(store), Trust()) == {}
    assert not list((store / "v1/trials").glob("*/calls-*"))


LONG = """
import ctypes, os
from numba import njit
pause = ctypes.CDLL(None).usleep
pause.argtypes, pause.restype = [ctypes.c_uint32], None
@njit
def f(n):
    for _ in range(n):
        pause(100_000)
    return n
print(f(0), flush=True)
"""
"""In its first call it does nothing."""


@pytest.mark.long
def test_whose_first_call_goes_on_is_blamed_for_no_kill(place):
    store, program = place / "store", place / "main.py"
    program.write_text(LONG)
    assert proc.run([program], store).stdout == "0\n"
    program.write_text(LONG.replace("print(f(0), flush=True)", "print('now', flush=True)\nprint(f(10_000))"))
    for _ in range(2):
        process = proc.start([program], store)
        assert process.stdout.readline() == "now\n"
        daemons.wait_for(lambda: inside(store))
        time.sleep(first_calls.SOON_SECONDS + 2.0)
        process.kill()
        proc.finish(process)
        quarantine.settle(str(store), Trust())
        assert quarantine.read(str(store), Trust()) == {}


def inside(store):
    """Whether somebody is in a first call."""
    return any(b"I" in path.read_bytes() for path in (store / "v1/trials").glob("*/calls-*"))


@pytest.mark.long
@pytest.mark.parametrize("far", [False, True])
def test_who_has_fatal_errors_told_is_told_of_them_as_ever(main, place, far):
    store = place / "store"
    assert fleet(main, store, 1) == 0
    spoil(store, "lib:f")
    told = place / "told"
    enable = f"import faulthandler\nfile = open({str(told)!r}, 'w')\nfaulthandler.enable(file)\n"
    main.write_text("import lib\nlib.g(1)\n" + enable + MAIN if far else enable + MAIN)
    for _ in range(2):
        assert proc.run([main], store).status == -signal.SIGILL
        assert told.read_text().startswith("Fatal Python error: Illegal instruction")
    assert proc.run([main], store).stdout == EXPECTED
    assert told.read_text() == ""


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: changes owners")
def test_a_stranger_can_condemn_nothing(main, place):
    store = place / "store"
    assert fleet(main, store, 2) == 0
    spoil(store, "lib:f")
    assert fleet(main, store, 2) == 2
    assert quarantine.settle(str(store), Trust()) == 0
    drop = store / "v1/trials" / str(os.geteuid())
    drop.rename(store / "v1/trials/4321")
    for path in [store / "v1/trials/4321", *(store / "v1/trials/4321").iterdir()]:
        os.chown(path, 4321, 4321)
    assert quarantine.read(str(store), Trust()) == {}
    assert len(quarantine.read(str(store), Trust(frozenset({4321})))) == 1


@pytest.mark.long
def test_a_forked_child_that_crashes(main, place):
    store = place / "store"
    assert fleet(main, store, 1) == 0
    spoil(store, "lib:f")
    main.write_text(
        "import os, lib\nlib.g(1)\npid = os.fork()\nif pid == 0:\n    lib.f(1)\n    os._exit(0)\n"
        "print(os.waitpid(pid, 0)[1])\n"
    )
    for _ in range(2):
        assert proc.run([main], store).stdout == f"{int(signal.SIGILL)}\n"
    quarantine.settle(str(store), Trust())
    found = quarantine.read(str(store), Trust())
    assert {each.function: each.crashes for each in found.values()}["lib:f"] == 2
    assert Store.open(Settings(dir=str(store))).holds(next(each.key for each in found.values())) is not None
