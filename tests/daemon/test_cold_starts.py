"""Cold starts: what a program is known to need is built by others while it goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
from contextlib import suppress

import pytest
from nbtest import daemons, proc, usage

from nbcache.file_trust import Trust
from nbcache.protocol import profiles

LIB = """
from numba import njit
@njit
def leaf(x):
    return x * 2
@njit
def f(x):
    return leaf(x) + 1
@njit
def g(x):
    return f(x) - leaf(x)
@njit
def h(x):
    return g(x) + f(x)
"""
MAIN = """
import os, sys, time
import lib
from numba import njit
@njit
def own(x):
    return lib.h(x) * 3
print(lib.f(1.5), flush=True)
while len(sys.argv) > 1 and not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
print(lib.h(1.5), own(2.5))
"""
COLD = {"NBTEST_COLD": "600", "NBCACHE_LOG": "info"}
PATIENT = {**COLD, "NBTEST_PATIENT": "1", "NBCACHE_ON_MISS": "wait", "NBCACHE_WAIT_BUDGET": "3600"}


@pytest.fixture
def main(place):
    (place / "lib.py").write_text(LIB)
    (place / "main.py").write_text(MAIN)
    return place / "main.py"


def forget_entries(store):
    """Make all of a store stale."""
    for shard in (store / "v1/objects").iterdir():
        shutil.rmtree(shard)


def profile_of(store):
    [head] = profiles.heads(str(store), Trust())
    return profiles.read(str(store), head.name, Trust())


def built(store):
    return sorted(name.partition(" ")[0] for name in usage.read(store).functions.values())


def test_a_program_leaves_what_it_compiled_and_a_daemon_builds_all_of_it_at_its_next_cold_start(main, place):
    store, events = place / "store", place / "events"
    first = proc.run([main], store, COLD)
    assert first.status == 0, first.stderr
    left = profile_of(store)
    named = {unit.function: at for at, unit in enumerate(left.units)}
    assert set(named) == {"lib:leaf", "lib:f", "lib:g", "lib:h", "__main__:own"}
    inside = {name: {left.units[each].function for each in left.units[at].inside} for name, at in named.items()}
    assert inside["lib:g"] == {"lib:f"}
    assert inside["__main__:own"] == {"lib:h"}
    assert left.units[named["__main__:own"]].value is not None
    forget_entries(store)
    with daemons.daemon(store, "--workers", "1") as daemon:
        second = proc.start([main, place / "go"], store, {**PATIENT, "NBTEST_EVENTS": str(events)})
        second.stdout.readline()
        daemon.says("functions of profile:")
        daemon.settle()
        (place / "go").touch()
        ended = proc.finish(second)
    assert first.stdout.endswith(ended.stdout), ended.stderr
    assert "was asked" in ended.stderr or "were asked" in ended.stderr
    [told] = map(json.loads, events.read_text().splitlines())
    # What it asked for first, it may have compiled itself.
    assert {name.partition("(")[0] for name in told["functions"]} <= {"lib:f", "lib:leaf"}


def helper_of(store):
    """The pid of the helper of a store, once it gives signs of life."""

    def found():
        for path in (store / "v1/daemon").glob("*-jobs-*.json"):
            return json.loads(path.read_text())["pid"]
        return None

    return daemons.wait_for(found)


def is_gone(pid):
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] == b"Z"
    except FileNotFoundError:
        return True


@pytest.mark.long
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="on one processor no helper is started")
def test_a_program_without_a_daemon_starts_one_helper_which_ends_when_nobody_asks(main, place):
    store = place / "store"
    assert proc.run([main], store, COLD).status == 0
    forget_entries(store)
    jobs = {**PATIENT, "NBTEST_COLD": "3", "NBCACHE_JOBS": "2"}
    running = [proc.start([main, place / "go"], store, jobs) for _ in range(3)]
    for each in running:
        each.stdout.readline()
    pid = helper_of(store)
    assert os.getpriority(os.PRIO_PROCESS, pid) == 19
    daemons.wait_for(lambda: len(list((store / "v1/objects").glob("*/*.nbo"))) >= 5)
    (place / "go").touch()
    assert [proc.finish(each).status for each in running] == [0, 0, 0]
    assert len(list((store / "v1/daemon").glob("*-jobs-*.json"))) == 1
    daemons.wait_for(lambda: is_gone(pid))


@pytest.mark.long
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="on one processor no helper is started")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_program_whose_helper_dies_or_hangs_goes_on(main, place, number):
    store = place / "store"
    expected = proc.run([main], store, COLD)
    forget_entries(store)
    running = proc.start([main, place / "go"], store, {**COLD, "NBCACHE_JOBS": "auto"})
    running.stdout.readline()
    pid = helper_of(store)
    os.kill(pid, number)
    try:
        (place / "go").touch()
        ended = proc.finish(running)
        assert expected.stdout.endswith(ended.stdout), ended.stderr
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.long
def test_a_profile_of_what_is_no_more_does_no_harm(main, place):
    store = place / "store"
    assert proc.run([main], store, COLD).status == 0
    (place / "lib.py").write_text(LIB.replace("def g(x)", "def other(x)").replace("g(x) + f(x)", "f(x) - 1"))
    expected = proc.run([main])
    with daemons.daemon(store, "--workers", "2") as daemon:
        ended = proc.run([main], store, PATIENT)
        assert ended.said == expected.said, ended.stderr
        daemon.says("functions of profile:")
        daemon.settle()


def test_a_profile_that_others_may_write_is_not_carried_out(main, place):
    store = place / "store"
    assert proc.run([main], store, COLD).status == 0
    [path] = (store / "v1/profiles").glob("*/*.jsonl")
    path.chmod(0o666)
    forget_entries(store)
    with daemons.daemon(store, "--workers", "1") as daemon:
        ended = proc.run([main], store, PATIENT)
        assert ended.status == 0
        daemon.settle()
        assert "profile:" not in daemon.log


@pytest.mark.long
def test_a_lane_makes_room_for_who_waits_for_its_worker(main, place):
    """One worker, which is busy with a profile: the function that somebody else asks for comes before the rest of that."""
    store = place / "store"
    (place / "other.py").write_text("from numba import njit\n@njit\ndef alone(x):\n    return x - 7\n")
    (place / "wants.py").write_text("import other\nprint(other.alone(3))\n")
    assert proc.run([main], store, COLD).status == 0
    forget_entries(store)
    lib = (place / "lib.py").read_text()
    gate = (
        f"import os, sys, time\nwhile 'main.py' not in sys.argv[0] and not os.path.exists({str(place / 'open')!r}):\n"
    )
    (place / "lib.py").write_text(f"{gate}    time.sleep(0.02)\n{lib}")
    with daemons.daemon(store, "--workers", "1") as daemon:
        running = proc.start([main, place / "go"], store, PATIENT)
        running.stdout.readline()
        daemons.wait_for(lambda: daemon.heartbeat().get("busy") == 1)
        wants = proc.start([place / "wants.py"], store, daemons.WAITING)
        daemons.wait_for(lambda: daemon.heartbeat().get("queue", 0) >= 1)
        (place / "open").touch()
        daemon.says("built other:alone")
        assert proc.finish(wants).status == 0
        (place / "go").touch()
        assert proc.finish(running).status == 0
        daemon.settle()
