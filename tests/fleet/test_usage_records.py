"""Usage records of fleets: every hit is counted however a process ends, and nobody evicts what was just used."""

from __future__ import annotations

import json
import os
import shutil
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from nbtest import proc, usage

USED, UNUSED = 3, 8
PROGRAM = f"""
import os, signal, subprocess, sys, threading, time
from numba import njit

USED = [njit(eval(f"lambda x: x * {{n}} + 1")) for n in range({USED})]
UNUSED = [njit(eval(f"lambda x: x * {{n}} - 1")) for n in range({UNUSED})]

def work(_=None):
    return sum(function(2.0) for function in USED)

def end(way):
    if way == "exit":
        os._exit(0)
    while True:
        time.sleep(60)

def pool(size, way):
    read, write = os.pipe()
    workers = []
    for _ in range(size):
        pid = os.fork()
        if pid == 0:
            work()
            os.write(write, b"x")
            end(way)
        workers.append(pid)
    for _ in workers:
        assert os.read(read, 1) == b"x"
    for pid in workers:
        if way != "exit":
            os.kill(pid, getattr(signal, way))
        os.waitpid(pid, 0)

def fill():
    work()
    for function in UNUSED:
        function(2.0)

def pools(count, size):
    for number in range(int(count)):
        pool(int(size), ("SIGTERM", "SIGKILL", "exit")[number % 3])

def served():
    USED[0](2.0)
    pool(2, "SIGTERM")

def thread():
    threads = [threading.Thread(target=pool, args=(1, "SIGKILL")) for _ in range(2)]
    [each.start() for each in threads], [each.join() for each in threads]

def replaced():
    work()
    os.execv(sys.executable, [sys.executable, __file__, "once"])

def once():
    work()
    os._exit(0)

def daemon():
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for fd in range(3, 1024):
                if fd != write:
                    try:
                        os.close(fd)
                    except OSError:
                        pass
            work()
            os.write(write, b"x")
        os._exit(0)
    assert os.read(read, 1) == b"x"

def multiprocessed(how):
    import multiprocessing
    with multiprocessing.get_context(how).Pool(2) as workers:
        workers.map(work, range(4), chunksize=1)

def joined(how):
    import multiprocessing
    workers = multiprocessing.get_context(how).Pool(2)
    workers.map(work, range(4), chunksize=1)
    workers.close()
    workers.join()

def loky():
    from joblib import Parallel, delayed
    Parallel(n_jobs=2)(delayed(work)() for _ in range(4))

if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
"""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program and its store, in which everything was built long ago, by one process."""
    place = tmp_path_factory.mktemp("filled")
    (place / "main.py").write_text(PROGRAM)
    outcome = proc.run([place / "main.py", "fill"], place / "store")
    assert outcome.status == 0, outcome.stderr
    old = time.time() - 3 * 3600
    for path in (place / "store").glob("v1/objects/*/*"):
        os.utime(path, (old, old))
    return place


@pytest.fixture
def main(filled: Path, tmp_path: Path) -> Path:
    """The program with a copy of that store beside it."""
    shutil.copytree(filled, tmp_path / "place")
    return tmp_path / "place/main.py"


def run(main: Path, *words: object) -> usage.Usage:
    """Run the program; return what it added to the records."""
    before = usage.read(main.parent / "store")
    outcome = proc.run([main, *map(str, words)], main.parent / "store")
    assert (outcome.status, outcome.stderr) == (0, "")
    after = usage.read(main.parent / "store").since(before)
    assert not after.builds
    return after


def asked(main: Path, *words: str) -> str:
    outcome = proc.run(["-m", "nbcache", *words], main.parent / "store")
    assert outcome.status == 0, outcome.stderr
    return outcome.stdout


def used(main: Path) -> dict[str, str]:
    """The functions that programs use, by key."""
    listed = json.loads(asked(main, "ls", "--json", "__main__:"))
    functions = {each["key"]: each["function"] for each in listed}
    counted = usage.read(main.parent / "store").hits
    return {key: name for key, name in functions.items() if key in counted}


def check_pools(main: Path, pools: int, size: int) -> None:
    counted = run(main, "pools", pools, size)
    assert counted.processes == pools * size
    keys = used(main)
    assert {key: counted.hits[key] for key in keys} == dict.fromkeys(keys, pools * size)
    assert len(keys) == USED
    said = json.loads(asked(main, "stats", "--json"))
    assert (said["processes"], said["hits"]) == (1 + pools * size, counted.hits.total())
    asked(main, "gc", "--max-size", str(said["size"] // 2))
    left = {each["key"] for each in json.loads(asked(main, "ls", "--json"))}
    assert counted.hits.keys() <= left
    assert len(left) < said["entries"]


def test_pools_of_workers_that_are_killed_lose_no_hit(main: Path) -> None:
    check_pools(main, 3, 4)


@pytest.mark.long
def test_a_fleet_of_workers_that_are_killed_loses_no_hit(main: Path) -> None:
    check_pools(main, 20, 8)


@pytest.mark.parametrize(
    ("words", "processes"),
    [
        (("daemon",), 1),
        (("multiprocessed", "fork"), 2),
        pytest.param(("multiprocessed", "spawn"), 2, marks=pytest.mark.long),
        pytest.param(("multiprocessed", "forkserver"), 2, marks=pytest.mark.long),
        pytest.param(("joined", "fork"), 2, marks=pytest.mark.long),
        pytest.param(("joined", "spawn"), 2, marks=pytest.mark.long),
        pytest.param(("thread",), 2, marks=pytest.mark.long),
        pytest.param(("replaced",), 2, marks=pytest.mark.long),
        pytest.param(
            ("loky",),
            2,
            marks=[pytest.mark.long, pytest.mark.skipif(find_spec("joblib") is None, reason="needs joblib (pip)")],
        ),
    ],
)
def test_processes_of_all_kinds_are_counted(main: Path, words: tuple[str, ...], processes: int) -> None:
    counted = run(main, *words)
    # Of a pool's workers, the first may have done all there was to do.
    least = 1 if words[0] in {"multiprocessed", "joined", "loky"} else processes
    assert least <= counted.processes <= processes
    keys = used(main)
    assert {key: counted.hits[key] for key in keys} == dict.fromkeys(keys, counted.processes)
    assert len(keys) == USED


def test_workers_count_what_they_hit_themselves_and_not_what_their_server_did(main: Path) -> None:
    counted = run(main, "served")
    assert counted.processes == 3
    assert sorted(counted.hits[key] for key in used(main)) == [1, *[2] * (USED - 1)]


def test_workers_of_a_pool_that_end_say_so(main: Path) -> None:
    run(main, "joined", "fork")
    found = [record for record in usage.records(main.parent / "store") if record["hits"]]
    assert found
    assert all(record["end"] >= record["start"] for record in found)


OWED = """
import sys
from numba import njit

K = 1

@njit
def callee(x):
    return x + K

@njit
def caller(x):
    return callee(x)

caller(1)
if sys.argv[1:]:
    K = 2
    callee(1)
"""


@pytest.mark.long
def test_an_overload_that_is_owed_and_gone_is_a_miss(tmp_path):
    """What a hit promised, and what is compiled because its entry isn't there any more, stands among the misses."""
    program, store = tmp_path / "program.py", tmp_path / "store"
    program.write_text(OWED, encoding="utf-8")
    assert proc.run([program], store).status == 0
    before = usage.read(store)
    for entry in store.rglob("*.nbo"):
        if b":callee" in entry.read_bytes()[:4096]:
            entry.unlink()
    assert proc.run([program, "again"], store).status == 0
    after = usage.read(store).since(before)
    assert after.hits
    assert after.misses == {"new": 1}
