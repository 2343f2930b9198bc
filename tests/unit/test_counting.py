"""Counters of a process, and what many add up to."""

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from storekit import key, open_store

from nbcache.counting import Counters
from nbcache.store import reasons, usage
from nbcache.summary import aggregate


@pytest.fixture
def counters():
    counted = Counters()
    counted.hit(key("a"), "m:f", 0.5)
    counted.hit(key("a"), "m:f", 0.5)
    counted.hit(key("b"), "m:g", 1.0)
    counted.miss("absent")
    counted.miss("absent")
    counted.miss("damaged")
    counted.built(key("c"), "m:h", 0.25)
    counted.published(key("c"))
    counted.uncacheable("a pointer", "m:p")
    counted.uncacheable("a pointer", "m:p")
    counted.uncacheable("a pointer", "m:q")
    counted.error("lock")
    return counted


def test_a_snapshot_tells_everything(counters):
    snapshot = json.loads(json.dumps(counters.snapshot()))
    assert snapshot["hits"] == {key("a"): 2, key("b"): 1}
    assert snapshot["saved_seconds"] == 2.0
    assert snapshot["builds"] == [{"key": key("c"), "function": "m:h", "seconds": 0.25}]
    assert snapshot["misses"] == {"absent": 2, "damaged": 1}
    assert snapshot["uncacheable"] == {"a pointer": {"count": 3, "functions": ["m:p", "m:q"]}}
    assert snapshot["errors"] == {"lock": 1}
    assert snapshot["published"] == 1
    assert snapshot["pid"] == os.getpid()
    assert 0 < snapshot["start"] <= snapshot["end"]
    assert usage.clean({"version": 1, **snapshot})["misses"] == snapshot["misses"]


def test_a_snapshot_does_not_change_afterwards(counters):
    snapshot = counters.snapshot()
    text = json.dumps(snapshot)
    counters.hit(key("z"), "m:z", 1.0)
    counters.uncacheable("a pointer", "m:r")
    assert json.dumps(snapshot) == text


def test_empty():
    counters = Counters()
    assert counters.empty
    counters.miss("x")
    assert not counters.empty


def test_aggregating_snapshots_and_records(counters, tmp_path):
    store = open_store(tmp_path)
    store.write_usage(counters.snapshot())
    summary = aggregate([*usage.read(store.path), counters.snapshot(), {"version": 9}, {}])
    assert (summary.processes, summary.hits, summary.missed, summary.builds, summary.published) == (3, 6, 6, 2, 2)
    assert list(summary.misses.items()) == [("absent", 4), ("damaged", 2)]
    assert summary.uncacheable == {"a pointer": {"count": 6, "functions": ["m:p", "m:q"]}}
    assert (summary.saved_seconds, summary.built_seconds) == (4.0, 0.5)
    assert summary.hit_rate == 0.5
    assert summary.errors == {"lock": 2}
    assert summary.start > 0
    data = json.loads(json.dumps(summary.to_json()))
    assert (data["hit_rate"], data["missed"]) == (0.5, 6)


def test_aggregating_nothing():
    summary = aggregate([])
    assert (summary.processes, summary.hits, summary.hit_rate, summary.start) == (0, 0, None, 0.0)


def test_lists_are_bounded():
    counters = Counters()
    for number in range(reasons.MAX_KEYS + 50):
        counters.hit(key(number), "f", 0.0)
        counters.built(key(number), "f", 0.0)
    for number in range(reasons.MAX_REASONS + 50):
        counters.miss(f"m{number}")
        counters.uncacheable(f"u{number}", f"f{number}")
    snapshot = counters.snapshot()
    assert (snapshot["hit_count"], snapshot["builds_count"]) == (reasons.MAX_KEYS + 50,) * 2
    assert (len(snapshot["hits"]), len(snapshot["builds"])) == (reasons.MAX_KEYS,) * 2
    assert (len(snapshot["misses"]), len(snapshot["uncacheable"])) == (reasons.MAX_REASONS,) * 2
    assert sum(len(item["functions"]) for item in snapshot["uncacheable"].values()) == reasons.MAX_EXAMPLES


def test_threads_lose_nothing():
    counters = Counters()
    gate = threading.Barrier(8)

    def work(_):
        gate.wait()
        for _ in range(500):
            counters.hit(key("a"), "f", 1.0)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert counters.snapshot()["hits"] == {key("a"): 4000}
    assert counters.snapshot()["saved_seconds"] == 4000.0


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_starts_from_nothing(counters):
    with counters._lock:
        child = os.fork()
        if child == 0:
            ok = counters.empty and counters.snapshot()["pid"] == os.getpid()
            os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not counters.empty
