"""The pool by itself: what becomes of calls, of interpreters that are none, of jobs faster than anybody can look."""

import math
import os
import sys
import time
from types import SimpleNamespace

import pytest
from nbtest.daemons import MUCH
from nbtest.disks import hanging_disk

from nbcache.config import Settings
from nbcache.daemon import interpreters, supervisor
from nbcache.daemon.pool import Confining, CrashError, ForkingPool, InterpreterError, JobError, Limits, Pools
from nbcache.daemon.publisher import Publisher
from nbcache.store.directory import Store


@pytest.fixture
def pool(place, monkeypatch):
    """Makes pools over one store, and ends them. Who is only slow is given up by none of them."""
    for name in ("START_SECONDS", "FORK_SECONDS", "EXECUTE_SECONDS", "GRACE_SECONDS"):
        monkeypatch.setattr(supervisor, name, MUCH)
    made = []
    settings = Settings(dir=str(place / "store"))
    store = Store.open(settings)

    def make(interpreter=sys.executable, workers=2, **limits):
        environment = interpreters.environment(store.trust, settings, {})
        made.append(
            ForkingPool(
                interpreter,
                store.path,
                environment,
                workers,
                Limits(**limits),
                trust=store.trust,
                publisher=Publisher(lambda: store),
                confining=Confining(told=told.append),
            )
        )
        return made[-1]

    told = make.told = []
    yield make
    for each in made:
        each.shutdown()


def test_what_becomes_of_calls(pool):
    used = pool()
    assert used.submit(math.sqrt, 4.0).result() == 2.0
    with pytest.raises(JobError, match="ValueError: "):
        used.submit(math.sqrt, -4.0).result()
    with pytest.raises(CrashError, match="it ended with status 3 and said nothing"):
        used.submit(os._exit, 3).result()
    assert used.submit(math.sqrt, 9.0).result() == 3.0
    (given,) = pool.told
    assert given.summary.endswith(("in namespaces", "without namespaces", "under Landlock"))


PREPARED = """[
    __import__("nbcache.daemon.job_side", fromlist=["_"]).maker is not None,
    *(name in __import__("sys").modules for name in (
        "nbcache.daemon.job_functions", "nbcache.glue.requests.requested", "nbcache.glue.entries.pack", "nbcache.store.slots"
    )),
]"""


def test_what_every_job_needs_is_read_before_it_begins(pool):
    assert pool().submit(eval, PREPARED).result() == [True] * 5


def test_a_job_that_takes_longer_than_it_may(pool):
    with pytest.raises(CrashError, match="it took longer than 4 s"):
        pool(seconds=4).submit(time.sleep, 3600).result()


@pytest.mark.long
def test_jobs_that_are_gone_before_anybody_looks(pool):
    used = pool()
    futures = [used.submit(math.sqrt, float(number * number)) for number in range(200)]
    assert [future.result() for future in futures] == list(range(200))
    codes = [used.submit(os._exit, number % 7) for number in range(60)]
    said = [str(future.exception()) for future in codes]
    assert said == [f"it ended with status {number % 7} and said nothing" for number in range(60)]


@pytest.mark.parametrize("interpreter", ["/bin/false", "/nonexistent/python", "/etc/passwd", "/bin/cat"])
def test_what_is_no_interpreter(pool, interpreter):
    used = pool(interpreter)
    futures = [used.submit(math.sqrt, 4.0) for _ in range(3)]
    for future in futures:
        with pytest.raises(CrashError, match=r"can't be started|ended"):
            future.result()


def test_a_pool_that_is_ended(pool):
    used = pool(workers=1)
    running, waiting = used.submit(time.sleep, 3600), used.submit(time.sleep, 3600)
    while used.worked(running) is None:
        time.sleep(0.01)
    used.shutdown()
    with pytest.raises(CrashError):
        # By the pool's thread, which isn't waited for as long as it may take.
        running.result(MUCH)
    with pytest.raises(CrashError):
        waiting.result(MUCH)
    with pytest.raises(RuntimeError):
        used.submit(math.sqrt, 4.0)
    pools = Pools(lambda _interpreter, _settings, _kernels: pool())
    first = pools.get("python", {})
    assert pools.get("python", {}) is first
    first.shutdown()
    assert pools.get("python", {}) is not first


def test_an_interpreter_that_never_gets_ready_ends_its_calls(pool, place, monkeypatch):
    monkeypatch.setattr(supervisor, "START_SECONDS", 0.5)
    script = place / "python"
    script.write_text("#!/bin/sh\nexec sleep 3600\n")
    script.chmod(0o755)
    futures = [pool(str(script)).submit(math.sqrt, 4.0) for _ in range(3)]
    for future in futures:
        with pytest.raises(InterpreterError, match="doesn't begin its jobs"):
            future.result()


def test_nobody_s_settings_cost_another_user_his_interpreter():
    retired = []

    def make(*wanted):
        return SimpleNamespace(closed=False, retire=lambda: retired.append(wanted))

    pools = Pools(make, most=4)
    his = pools.get("python", {}, uid=1)
    for number in range(20):
        pools.get("python", {"X": str(number)}, uid=2)
    assert pools.get("python", {}, uid=1) is his
    assert pools.has("python", {"X": "19"})
    assert not pools.has("python", {"X": "0"})
    # Nor does it become another's by being used.
    pools.get("python", {}, uid=2)
    for number in range(20):
        pools.get("python", {"X": str(number)}, uid=2)
    assert pools.get("python", {}, uid=1) is his


@pytest.mark.long
def test_an_interpreter_on_a_filesystem_that_hangs_ends_its_calls(pool, place, monkeypatch):
    monkeypatch.setattr(supervisor, "EXECUTE_SECONDS", 0.5)
    with hanging_disk(place / "disk") as disk:
        used = pool(str(disk / "python"))
        for future in [used.submit(math.sqrt, 4.0) for _ in range(2)]:
            with pytest.raises(InterpreterError, match="its filesystem doesn't answer"):
                future.result()
        monkeypatch.setattr(supervisor, "EXECUTE_SECONDS", MUCH)
        assert pool().submit(math.sqrt, 4.0).result() == 2.0
