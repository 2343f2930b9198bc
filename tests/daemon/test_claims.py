"""Claims: a key is one job's at a time, and nobody's once that has ended."""

import pytest

from nbcache.config import Settings
from nbcache.daemon import claims, turns
from nbcache.daemon.claims import Claims
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
    monkeypatch.setattr(claims, "MOST", 1)
    one = Claims(lambda: store)
    assert not one.take("../" + KEY[3:])
    assert one.take(KEY)
    assert not one.take(OTHER)


def test_a_claimed_key_is_told_with_the_time_since_it_was(store):
    one = Claims(lambda: store)
    one.take(KEY)
    assert one.working(5.0) == {KEY: 0.0}
    one.take(OTHER)
    assert one.working(6.5) == {KEY: 1.5, OTHER: 0.0}
    one.release(KEY)
    assert one.working(7.0) == {OTHER: 0.5}


def test_letting_a_job_go_lets_its_keys_go(store):
    job = turns.Job(None, set(), 0, 0.0)
    job.claims = Claims(lambda: store)
    job.claims.take(KEY)
    job.let_go()
    assert store.lease(KEY) is not None
