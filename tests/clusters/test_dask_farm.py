"""The farm: what a Dask cluster builds for a daemon, or for `nbcache prewarm`, whatever becomes of its workers."""

import json
import os
import re
import signal

import pytest
from nbtest import clusters, daemons, proc, usage

clusters.needed()

LIB = """
from numba import njit
@njit
def helper(x):
    return x * 3
{functions}
"""
FUNCTION = """
@njit
def f{0}(x):
    return helper(x) + {0}
"""
MAIN = """
import lib
print(sum(getattr(lib, "f%d" % number)(1) for number in range({0})))
"""
NOBODY = "tcp://127.0.0.1:1"


def write(place, count):
    functions = "".join(FUNCTION.format(number) for number in range(count))
    (place / "lib.py").write_text(LIB.format(functions=functions))
    (place / "main.py").write_text(MAIN.format(count))
    return place / "main.py"


def recorded(place, count):
    """A program of so many functions, and the warm list that it leaves."""
    main, warm = write(place, count), place / "warm.jsonl"
    extra = {"NBCACHE_RECORD": str(warm)}
    assert proc.run([main], place / "recorded", extra, cwd=place).status == 0
    return main, warm


def prewarm(store, address, *options, cwd):
    return proc.start(["-m", "nbcache", "prewarm", "--dir", store, "--dask", address, *options], None, cwd=cwd)


def assert_warm(main, store, count):
    outcome = proc.run([main], store, {"NBCACHE_READONLY": "1"})
    assert outcome.stdout == f"{3 * count + sum(range(count))}\n", outcome.stderr
    record = next(each for each in usage.records(store) if each["argv0"].endswith("main.py"))
    assert not record["misses"], record
    assert not record["builds"], record


@pytest.mark.long
def test_without_a_cluster_a_daemon_builds_and_says_so_once(place):
    main, store = write(place, 1), place / "store"
    with daemons.daemon(store, "--farm", NOBODY) as daemon:
        daemons.wait_for(lambda: "can't be used" in daemon.log)
        assert proc.run([main], store, daemons.WAITING).stdout == "3\n"
        daemon.says("INFO built lib:f0 (int64)")
        without, line = re.findall(f"WARNING (the farm {NOBODY} .*)", daemon.log)
        assert without.startswith(f"the farm {NOBODY} is reached without TLS: ")
        assert line.startswith(f"the farm {NOBODY} can't be used (no scheduler answers there: ")
        assert line.endswith("); building on this host meanwhile")
        assert daemon.stop() == 0


@pytest.mark.long
def test_who_would_rather_wait_for_the_cluster_does(place):
    main, store = write(place, 1), place / "store"
    with daemons.daemon(store, "--farm", NOBODY, "--farm-away", "wait") as daemon:
        daemons.wait_for(lambda: "nothing is built until it can" in daemon.log)
        running = proc.start([main], store, daemons.WAITING)
        daemons.wait_for(lambda: daemons.spool(store))
        running.kill()
        running.communicate()
        assert "built" not in daemon.log.replace("nothing is built", "")
        assert len(daemons.spool(store)) == 1


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        pytest.param(
            ["prewarm", "--dask", NOBODY, "-"],
            1,
            f"the cluster {NOBODY} can't be used: no scheduler answers there: ",
            marks=pytest.mark.long,
        ),
        (["prewarm", "--dask", "host:8786", "-"], 2, "--dask host:8786: an address such as tls://HOST:8786"),
        (["prewarm", "--dask", NOBODY, "--confined", "-"], 2, "clusters confine jobs anyway"),
        (
            ["serve", "--farm", "8786"],
            2,
            "--farm 8786: an address such as tls://HOST:8786 or tcp://HOST:8786 is wanted",
        ),
    ],
)
def test_what_can_not_be_is_one_line(options, status, said, tmp_path):
    outcome = proc.run(["-m", "nbcache", options[0], "--dir", tmp_path / "store", *options[1:]])
    assert outcome.status == status
    (line,) = outcome.stderr.splitlines()
    assert said in line


def test_what_a_worker_has_otherwise():
    bridge = pytest.importorskip("nbcache.dask.bridge")
    own = {"nbcache": "1", "toolchain/numba": "0.66.0", "host/features": "avx,avx2"}
    assert bridge.difference(own, dict(own)) is None
    assert (
        bridge.difference(own, {**own, "toolchain/numba": "0.65.0"})
        == "its numba is 0.65.0, and the daemon's host has 0.66.0"
    )
    assert (
        bridge.difference(own, {**own, "host/features": "avx,sse4"})
        == "its processor differs: it has sse4; it lacks avx2"
    )
    assert bridge.difference(own, {**own, "other": "1"}) == "its other is 1, and the daemon's host has none"


@pytest.mark.long
def test_two_hundred_functions_and_a_worker_killed_in_mid_job(place):
    main, warm = recorded(place, 200)
    store = place / "store"
    with clusters.cluster(place, 4) as cluster:
        running = prewarm(store, cluster.address, warm, cwd=place)

        def working():
            assert running.poll() is None, running.communicate()
            jobs = {pid for pid, tasks in cluster.workers.values() if any("nbcache-build" in task for task in tasks)}
            return jobs if len(list((store / "v1/objects").glob("*/*.nbo"))) > 20 else None

        killed = daemons.wait_for(working).pop()
        os.kill(killed, signal.SIGKILL)
        outcome = proc.finish(running)
        assert outcome.status == 0, outcome.stderr
        assert outcome.stdout == "200 of 200 built or there already\n"
        assert killed not in {pid for pid, _ in cluster.workers.values()}
        assert len(cluster.workers) == 4
    assert_warm(main, store, 200)


@pytest.mark.long
def test_a_job_whose_workers_die_is_a_failure_with_a_reason(place):
    """As often as the cluster lets them; and the others are built."""
    _, warm = recorded(place, 2)
    lines = [json.loads(line) for line in warm.read_text().splitlines()]
    # Importing its module takes for ever.
    (place / "slow.py").write_text("import time\ntime.sleep(3600)\n")
    slow = {**lines[0], "function": "slow:f", "key": "0" * 64}
    warm.write_text("".join(json.dumps(line) + "\n" for line in [slow, *lines]))
    with clusters.cluster(place, 1, failures=0) as cluster:
        running = prewarm(place / "store", cluster.address, warm, cwd=place)

        def started():
            assert running.poll() is None, running.communicate()
            return [pid for pid, tasks in cluster.workers.values() if any("nbcache-build" in task for task in tasks)]

        os.kill(daemons.wait_for(started)[0], signal.SIGKILL)
        outcome = proc.finish(running)
    assert outcome.status == 1
    assert "slow:f" in outcome.stderr
    assert "the workers that ran it died: " in outcome.stderr
    assert outcome.stdout == "2 of 3 built or there already\n"


@pytest.mark.long
def test_a_daemon_builds_on_the_farm_and_at_home_while_that_is_gone(place):
    main, store = write(place, 6), place / "store"
    with clusters.cluster(place, 2) as cluster, daemons.daemon(store, "--farm", cluster.address) as daemon:
        daemons.wait_for(lambda: "can run 2 jobs at once" in daemon.log)
        running = proc.start([main], store, daemons.WAITING)
        # Clients see that their jobs get on.
        daemons.wait_for(lambda: daemon.heartbeat().get("working"))
        assert proc.finish(running).stdout == "33\n"
        assert daemon.log.count("INFO built lib:f") == 6
        audit = [
            json.loads(line) for path in place.glob("*.state/*/audit*.jsonl") for line in path.read_text().splitlines()
        ]
        assert {each["event"] for each in audit} == {"published"}
        assert {each["built"] for each in audit} == {-1}
        assert not daemons.spool(store)
        cluster.kill()
        daemons.wait_for(lambda: "the scheduler is gone" in daemon.log)
        for path in (store / "v1/objects").glob("*/*.nbo"):
            path.unlink()
        assert proc.run([main], store, daemons.WAITING).stdout == "33\n"
        assert daemon.log.count("INFO built lib:f") == 12
        assert not daemons.failures(store)
        # Another one at the same address takes over.
        port = int(cluster.address.rpartition(":")[2])
        with clusters.cluster(place, 1, port=port):
            daemons.wait_for(lambda: "can run 1 jobs at once" in daemon.log)
        assert daemon.stop() == 0


OTHER = """
import asyncio, sys
import nbcache.dask.worker_jobs as node
from distributed import Worker

fitness = node.fitness
def other():
    return [(label, "another" if label == "toolchain/numba" else words) for label, words in fitness()]
node.fitness = other

async def main():
    async with Worker(sys.argv[1], nthreads=1, host="127.0.0.1", dashboard_address=None) as worker:
        print(worker.address, flush=True)
        await asyncio.sleep(36000)

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.long
def test_a_worker_of_another_kind_gets_nothing_to_do(place):
    main, warm = recorded(place, 4)
    with clusters.cluster(place, 1) as cluster:
        (place / "other.py").write_text(OTHER)
        other = proc.start([place / "other.py", cluster.address], None, {"DASK_TEMPORARY_DIRECTORY": str(place)})
        address = other.stdout.readline().strip()
        try:
            outcome = proc.finish(prewarm(place / "store", cluster.address, warm, cwd=place))
        finally:
            other.kill()
            other.communicate()
    assert outcome.status == 0, outcome.stderr
    assert re.search(
        f"the farm does without {address}: its numba is another, and the daemon's host has ", outcome.stderr
    )
    assert_warm(main, place / "store", 4)
