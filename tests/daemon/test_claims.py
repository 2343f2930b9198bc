"""Claims: a key is one job's at a time, and nobody's once that has ended."""

from types import SimpleNamespace

import pytest

from nbcache.config import Settings
from nbcache.daemon import job_side, presence, publisher, whose_turn
from nbcache.daemon.publisher import Claims
from nbcache.protocol import heartbeats
from nbcache.store import layout
from nbcache.store.directory import Store

KEY, OTHER = "1" * 64, "2" * 64


@pytest.fixture
def store(place):
    return Store.open(Settings(dir=str(place / "store")))


def test_a_key_is_one_jobs_at_a_time(store):
    one, two = Claims(lambda: store), Claims(lambda: store)
    assert one.take(KEY)
    assert not one.take(KEY)
    assert not two.take(KEY)
    assert store.lease(KEY) is None
    one.release(KEY)
    one.release(KEY)
    assert two.take(KEY)


def test_a_job_that_ended_claims_nothing(store):
    one = Claims(lambda: store)
    assert one.take(KEY)
    one.end()
    assert not one.take(OTHER)
    with store.lease(KEY) as lease:
        assert lease.held


def test_a_job_claims_so_many_at_most_and_no_name_that_is_no_key(store, monkeypatch):
    monkeypatch.setattr(publisher, "MAX_CLAIMS", 1)
    one = Claims(lambda: store)
    assert not one.take("../" + KEY[3:])
    assert one.take(KEY)
    assert not one.take(OTHER)


def test_what_a_job_may_not_claim_it_builds_without_having_to_wait(store, monkeypatch):
    """A helper's key, one that another user waits for, and one too many."""
    one = Claims(lambda: store, lambda key: key != OTHER)
    for key in (presence.key_of_helper(), layout.room(KEY, 5), "\U0001f600" * 64, OTHER):
        assert one.take(key) is None
        with store.lease(key) as lease:
            assert lease is not None
    monkeypatch.setattr(publisher, "MAX_CLAIMS", 1)
    assert one.take(KEY)
    assert one.take("3" * 64) is None
    # Somebody else is building that.
    assert Claims(lambda: store).take(KEY) is False


def test_a_job_is_told_apart_what_it_may_not_claim_and_what_somebody_else_has(monkeypatch):
    answers = iter([{"ok": None, "stop": False}, {"ok": False, "stop": False}, {"ok": True, "stop": False}])
    monkeypatch.setattr(job_side._current, "claims", set())
    monkeypatch.setattr(job_side._current, "link", SimpleNamespace(ask=lambda _said: next(answers)))
    free, taken, held = (job_side._claimed(KEY) for _ in range(3))
    assert (free.held, taken, held.held) == (False, None, True)


def test_jobs_that_are_asked_for_one_by_one_are_told_before_claims(store):
    def job():
        request = SimpleNamespace(scope="5" * 16)
        made = whose_turn.Job(request, set(), 0.0)
        made.future, made.pool = "running", SimpleNamespace(worked=lambda _future: 5.0)
        return made

    jobs = whose_turn.Jobs()
    jobs[5, "a" * 64] = job()
    jobs[5, "a" * 64].claims = Claims(lambda: store)
    jobs[5, "a" * 64].claims.take(KEY)
    jobs[5, OTHER] = job()
    assert list(jobs.working) == [heartbeats.work_name(OTHER, "5" * 16), heartbeats.work_name(KEY, "")]


def test_a_claimed_key_is_told_with_the_time_since_it_was(store):
    one = Claims(lambda: store)
    one.take(KEY)
    assert one.working(5.0) == {KEY: 0.0}
    one.take(OTHER)
    assert one.working(6.5) == {KEY: 1.5, OTHER: 0.0}
    one.release(KEY)
    assert one.working(7.0) == {OTHER: 0.5}


def test_letting_a_job_go_lets_its_keys_go(store):
    job = whose_turn.Job(None, set(), 0.0)
    job.claims = Claims(lambda: store)
    job.claims.take(KEY)
    job.let_go()
    assert store.lease(KEY) is not None
