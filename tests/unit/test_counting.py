"""Counters of a process, and what many add up to."""

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from storekit import key, open_store

from nbcache.counting import Counters
from nbcache.store import reasons, usage


@pytest.fixture
def counters():
    counted = Counters()
    counted.hit(key("a"), 0.5)
    counted.hit(key("a"), 0.5)
    counted.hit(key("b"), 1.0)
    counted.miss("absent")
    counted.miss("absent")
    counted.miss("damaged")
    counted.built(key("c"), "m:h", 0.25)
    counted.published()
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
    counters.hit(key("z"), 1.0)
    counters.uncacheable("a pointer", "m:r")
    assert json.dumps(snapshot) == text


def test_empty():
    counters = Counters()
    assert counters.empty
    counters.miss("x")
    assert not counters.empty


def test_adding_up_records(counters, tmp_path):
    store = open_store(tmp_path)
    store.write_usage(counters.snapshot())
    store.write_usage(counters.snapshot())
    total = usage.merge(usage.read(store.path))
    assert (total["processes"], total["hit_count"], reasons.missed(total)) == (2, 6, 6)
    assert (total["builds_count"], total["published"]) == (2, 2)
    assert list(total["misses"].items()) == [("absent", 4), ("damaged", 2)]
    assert total["uncacheable"] == {"a pointer": {"count": 6, "functions": ["m:p", "m:q"]}}
    assert (total["saved_seconds"], total["built_seconds"]) == (4.0, 0.5)
    assert reasons.hit_rate(total) == 0.5
    assert total["errors"] == {"lock": 2}
    assert total["start"] > 0


def test_adding_up_nothing():
    total = usage.merge([])
    assert (total["processes"], total["hit_count"], reasons.hit_rate(total), total["start"]) == (0, 0, None, 0.0)


def test_lists_are_bounded():
    counters = Counters()
    for number in range(reasons.MAX_KEYS + 50):
        counters.hit(key(number), 0.0)
        counters.built(key(number), "f", 0.0)
    for number in range(reasons.MAX_REASONS + 50):
        counters.miss(f"m{number}")
        counters.uncacheable(f"u{number}", f"f{number}")
    snapshot = counters.snapshot()
    assert (snapshot["hit_count"], snapshot["builds_count"]) == (reasons.MAX_KEYS + 50,) * 2
    assert (len(snapshot["hits"]), len(snapshot["builds"])) == (reasons.MAX_KEYS,) * 2
    assert (len(snapshot["misses"]), len(snapshot["uncacheable"])) == (reasons.MAX_REASONS,) * 2
    assert max(len(item["functions"]) for item in snapshot["uncacheable"].values()) <= reasons.MAX_EXAMPLES


def test_threads_lose_nothing():
    counters = Counters()
    gate = threading.Barrier(8)

    def work(_):
        gate.wait()
        for _ in range(500):
            counters.hit(key("a"), 1.0)

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
