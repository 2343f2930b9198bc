"""The plugin that switches the cache on in Dask workers, with functions that arrive pickled."""

import json
import re
import textwrap

import pytest
from nbtest import clusters, proc

clusters.needed()

PROGRAM = (
    clusters.FUNCTIONS
    + """
import asyncio
from numba import vectorize
from distributed import Client, LocalCluster
from nbcache.dask import CachePlugin

FUNCTIONS += [make(2), vectorize(["float64(float64)"])(lambda x: x + K)]

if __name__ == "__main__":
    import logging
    store, workers, forbidden = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "forbidden"
    more = {"processes": False} if workers == 1 and "restart" not in sys.argv else {}
    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None, **more) as cluster:
        with Client(cluster) as client:
            client.register_plugin(CachePlugin(store, log="info"))
            if forbidden:
                client.run(forbid)
            said = []
            for worker in sorted(client.run(int)):
                said.append(client.submit(use, FUNCTIONS, workers=[worker], pure=False).result())
                # All that come after the first.
                client.run(forbid)
            if "restart" in sys.argv:
                client.restart()
                try:
                    said.append(client.submit(use, FUNCTIONS, pure=False).result(120))
                except (TimeoutError, asyncio.TimeoutError):  # two, before Python 3.11
                    # Dask loses workers for good that take longer than four seconds to end, with and without nbcache.
                    sys.exit(75)
            print(json.dumps(said))
"""
)
EXPECTED = [30.0, 31.0, 7.0, 32.0, [3.0, 4.0, 5.0, 6.0, 7.0]]


@pytest.fixture
def cluster(place):
    """Runs the program; returns what each worker said in turn, and what was written to standard error."""
    (place / "main.py").write_text(PROGRAM)

    def run(store, workers, *options, status=0):
        extra = {"DASK_TEMPORARY_DIRECTORY": str(place)}
        outcome = proc.run([place / "main.py", store, str(workers), *options], None, extra, cwd=place)
        assert outcome.status == status, outcome.stderr
        return json.loads(outcome.stdout) if status == 0 else None, outcome.stderr

    return run


@pytest.mark.long
def test_the_second_worker_and_the_second_cluster_compile_nothing(cluster, place):
    (place / "store").mkdir()
    said, _ = cluster(place / "store", 4, "allowed")
    assert [results for results, _, _ in said] == [EXPECTED] * 4
    first, *others = said
    assert first[1]
    # No compiler was there for these.
    assert [misses for _, misses, _ in others] == [{}] * 3
    said, _ = cluster(place / "store", 4, "forbidden")
    assert [(results, misses) for results, misses, _ in said] == [(EXPECTED, {})] * 4
    assert all(hits >= len(EXPECTED) for _, _, hits in said)


@pytest.mark.long
def test_a_worker_after_a_restart_compiles_nothing(place):
    (place / "main.py").write_text(PROGRAM)
    (place / "store").mkdir()
    extra = {"DASK_TEMPORARY_DIRECTORY": str(place)}
    for _ in range(5):
        outcome = proc.run([place / "main.py", place / "store", "1", "allowed", "restart"], None, extra, cwd=place)
        if outcome.status != 75:
            break
    assert outcome.status == 0, outcome.stderr
    *_, (results, misses, hits) = json.loads(outcome.stdout)
    assert (results, misses) == (EXPECTED, {})
    assert hits >= len(EXPECTED)


@pytest.mark.long
def test_a_worker_without_nanny(cluster, place):
    """In one process with the client and the scheduler: the least that there is."""
    (place / "store").mkdir()
    assert cluster(place / "store", 1, "allowed")[0][0][0] == EXPECTED
    ((results, misses, hits),), _ = cluster(place / "store", 1, "forbidden")
    assert (results, misses) == (EXPECTED, {})
    assert hits >= len(EXPECTED)


@pytest.mark.long
def test_a_directory_that_is_not_there_is_one_line(cluster, place):
    ((results, misses, hits),), stderr = cluster(place / "nowhere", 1, "allowed")
    assert (results, misses, hits) == (EXPECTED, {}, 0)
    # Dask may warn of a slow machine, and name files whose path has the word.
    (said,) = [line for line in stderr.splitlines() if re.search(r"(?<![\w/-])nbcache\b", line)]
    assert f"nbcache stays off in this Dask worker: there is no directory {place}/nowhere" in said
    assert not (place / "nowhere").exists()


@pytest.mark.every(4)
@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("CachePlugin('cache')", "CachePlugin: 'cache' is relative; workers have working directories of their own"),
        ("CachePlugin('/c', cache=1)", "CachePlugin: 'cache' is not a setting; known are dir, disable, disable_all,"),
        ("CachePlugin('/c', on_miss='now')", "on_miss='now' is not understood: auto, wait or compile is accepted"),
        ("CachePlugin('/c', remote='redis://:hush/x@host')", "CachePlugin: remote=… is not understood: a list of"),
    ],
)
def test_what_can_not_be_is_said_where_it_was_written(call, said):
    outcome = proc.run(["-c", f"from nbcache.dask import CachePlugin\n{call}"])
    assert outcome.status == 1
    assert said in outcome.stderr.strip().splitlines()[-1]


def test_what_is_secret_in_its_settings_goes_to_the_workers_and_is_shown_to_nobody():
    program = """
        import pickle
        from nbcache.dask import CachePlugin
        plugin = CachePlugin("/c", remote=("redis://:hush@host",), signing_key="/k", umask="022")
        assert pickle.loads(pickle.dumps(plugin))._settings == plugin._settings
        assert plugin._settings["remote"][0].reveal() == "redis://:hush@host"
        print(vars(plugin))
        """
    outcome = proc.run(["-c", textwrap.dedent(program)])
    assert outcome.status == 0, outcome.stderr
    assert "redis://***@host" in outcome.stdout and "hush" not in outcome.stdout


def test_nothing_of_dask_is_imported_by_a_plain_client(tmp_path):
    text = (
        "import sys, numba\n@numba.njit\ndef f(x): return x\nf(1)\n"
        "print([name for name in ('dask', 'distributed', 'nbcache.dask') if name in sys.modules])"
    )
    assert proc.run(["-c", text], tmp_path / "store").stdout == "[]\n"
