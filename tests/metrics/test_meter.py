"""What a daemon counts of itself, and that it is told at once whatever its store does."""

import logging
import os
import threading

import pytest
from nbtest.daemons import wait_for
from prometheus_client.parser import text_string_to_metric_families as parse
from storekit import open_store

from nbcache.config import Settings
from nbcache.metrics import exposing, meter
from nbcache.metrics.exposing import Address, DaemonMetrics
from nbcache.metrics.meter import Meter
from nbcache.metrics.store_scan import Looker

SLOW = 600.0
"""What a moment may take on a busy machine [s]."""


def test_waiting_is_from_the_date_of_a_request_to_its_answer():
    counts = Meter()
    counts.asked("a", 100.0)
    counts.asked("a", 5.0)  # looked at once more
    counts.asked("b", 0.0)
    counts.answered("a")
    counts.answered("a")
    counts.answered("never read")
    found = counts.read()
    assert found.waits.counts[-1] == 1
    assert 100 <= found.waits.total < 100 + SLOW
    assert found.waits.counts[meter.WAIT_BOUNDS.index(60.0)] == 0
    assert 0 <= found.longest_wait < 60
    counts.rejected("b")
    assert (counts.read().rejected, counts.read().longest_wait) == (1, 0.0)
    assert counts.read().waits.counts[-1] == 1
    counts.asked("c", 50.0)
    counts.forgotten("c")
    counts.answered("c")
    assert (counts.read().longest_wait, counts.read().waits.counts[-1]) == (0.0, 1)


@pytest.mark.parametrize(
    ("age", "most"), [(-1e9, SLOW), (1e18, meter.MAX_WAIT + SLOW), (float("inf"), meter.MAX_WAIT + SLOW)]
)
def test_the_date_of_a_request_is_whoever_s_wrote_it(age, most):
    counts = Meter()
    counts.asked("a", age)
    counts.answered("a")
    assert 0 <= counts.read().waits.total <= most


def test_a_request_that_was_taken_back_does_not_wait(tmp_path):
    counts = Meter()
    (tmp_path / "there").touch()
    for number in range(150):
        counts.asked(str(tmp_path / f"gone{number}"), 1000.0 + number)
    counts.asked(str(tmp_path / "there"), 500.0)
    counts.asked(str(tmp_path / "fresh"), 0.0)
    for _ in range(3):
        counts.prune(os.path.lexists)
    assert 500 <= counts.read().longest_wait < 1000
    (tmp_path / "there").unlink()
    counts.prune(os.path.lexists)
    assert 0 < counts.read().longest_wait < 60


def test_no_more_are_timed_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(meter, "MAX_ASKED", 10)
    counts = Meter()
    for number in range(100):
        counts.asked(str(number), 1.0)
    for number in range(100):
        counts.answered(str(number))
    assert counts.read().waits.counts[-1] == 10


def test_jobs_are_counted_by_outcome_and_by_time():
    counts = Meter()
    for outcome, seconds in ((meter.BUILT, 0.05), (meter.BUILT, 0.1), (meter.FAILED, 1e6), (meter.CRASHED, 2.0)):
        counts.job(outcome, seconds)
    found = counts.read()
    assert found.jobs == {meter.BUILT: 2, meter.FAILED: 1, meter.CRASHED: 1}
    assert (found.job_seconds.counts[0], found.job_seconds.counts[-2], found.job_seconds.counts[-1]) == (2, 3, 4)
    assert list(found.job_seconds.counts) == sorted(found.job_seconds.counts)


def test_threads_may_count_at_once():
    counts = Meter()
    workers = [threading.Thread(target=lambda: [counts.job(meter.BUILT, 1.0) for _ in range(2000)]) for _ in range(4)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        found = counts.read()
        assert found.jobs[meter.BUILT] == found.job_seconds.counts[-1]
    assert counts.read().jobs[meter.BUILT] == 8000


@pytest.fixture
def metrics(tmp_path):
    settings = Settings(dir=open_store(tmp_path / "store").path)
    made = DaemonMetrics(Address(file=str(tmp_path / "nbcache.prom")), lambda: settings, Meter())
    yield made
    made.close()


def names(metrics):
    return {family.name for family in parse(metrics._render("")[0].decode())}


def test_a_filesystem_that_hangs_hangs_nothing_else(metrics, monkeypatch):
    hangs = threading.Event()
    monkeypatch.setattr(Looker, "look", lambda self: hangs.wait())
    metrics.start()
    try:
        assert names(metrics) >= {"nbcache_daemon_jobs"}
        assert "nbcache_hits" not in names(metrics)
        metrics.close()
        assert not hangs.is_set()
    finally:
        hangs.set()


def test_a_fault_while_looking_is_said_once_and_over_by_itself(metrics, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(exposing, "LOOK_SECONDS", 0.01)
    real, turns = Looker.look, []

    def look(self):
        turns.append(1)
        if len(turns) < 5:
            raise ValueError("of ours")
        return real(self)

    monkeypatch.setattr(Looker, "look", look)
    metrics.start()
    wait_for(lambda: "nbcache_hits" in names(metrics))
    assert [record.levelname for record in caplog.records if "could not read the store" in record.message][:4] == [
        "WARNING",
        "DEBUG",
        "DEBUG",
        "DEBUG",
    ]
