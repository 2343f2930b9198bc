"""When a tier is left alone, and for how long; by a clock of the test's own."""

import pytest

from nbcache import server_addresses
from nbcache.remote.tiers import FIRST_PAUSE, FIRST_SECONDS, LONGEST_SECONDS, SPREAD, Breaker


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def breaker(clock):
    return Breaker("redis://x", clock, spread=0.0)


def test_two_failures_in_a_row_open_it(breaker):
    assert breaker.allows()
    breaker.failed("no")
    assert breaker.allows()
    breaker.succeeded()
    breaker.failed("no")
    assert breaker.allows()
    breaker.failed("no")
    assert not breaker.allows() and breaker.why == "no"


def test_it_is_tried_with_one_question_after_twice_as_long_each_time(breaker, clock, caplog):
    breaker.failed("no")
    breaker.failed("no")
    pause = FIRST_SECONDS
    while pause <= LONGEST_SECONDS:
        clock.now += pause - 0.1
        assert not breaker.allows()
        clock.now += 0.2
        assert breaker.allows()
        assert not breaker.allows()
        breaker.failed("still no")
        pause *= 2
    clock.now += LONGEST_SECONDS + 0.1
    assert breaker.allows()
    breaker.succeeded()
    assert breaker.allows() and breaker.allows()
    assert [record.getMessage() for record in caplog.records] == [
        "the remote cache redis://x is left alone for a while: no",
        "the remote cache redis://x answers again",
    ]


def test_hosts_that_a_server_failed_at_once_come_back_one_after_another(clock):
    breakers = [Breaker("redis://x", clock) for _ in range(100)]
    for each in breakers:
        each.failed("no")
        each.failed("no")
    clock.now += FIRST_SECONDS * (1 - SPREAD) - 0.01
    assert not any(each.allows() for each in breakers)
    clock.now += FIRST_SECONDS * SPREAD + 0.01
    late = [each for each in breakers if not each.allows()]
    assert 10 < len(late) < 90
    clock.now += FIRST_SECONDS * SPREAD + 0.01
    assert all(each.allows() for each in late)


def test_a_probe_that_nobody_reports_about_is_lost(breaker, clock):
    breaker.failed("no")
    breaker.failed("no")
    clock.now += FIRST_SECONDS + 0.1
    assert breaker.allows()
    clock.now += 60
    assert breaker.allows()


def test_a_server_that_is_asked_too_often_is_left_alone_at_once_and_for_less(breaker, clock):
    breaker.limited("too often (429)")
    assert not breaker.allows()
    assert breaker.rest == FIRST_PAUSE
    clock.now += FIRST_PAUSE + 0.1
    assert breaker.allows()
    breaker.succeeded()
    assert breaker.allows()


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("redis://host:6379/1/x", "redis://host:6379/1/x"),
        ("redis://:secret@host", "redis://***@host"),
        ("https://user:p@ss@host/x?read-only", "https://***@host/x?read-only"),
        ("s3://bucket/x?secret_access_key=abc&read-only", "s3://bucket/x?read-only&***"),
        ("s3://b?secret_access_key=k&endpoint=http://minio:9000&region=x", "s3://b?endpoint=http://minio:9000&***"),
        ("s3://b?endpoint=http://minio:9000/path", "s3://b?***"),
        ("s3://b?endpoint=minio:9000", "s3://b?***"),
        ("redis://[::1]:6379?read-only", "redis://[::1]:6379?read-only"),
        ("file:///home/me@work/cache", "file:///home/me@work/cache"),
    ],
)
def test_addresses_are_shown_without_secrets(address, shown):
    assert str(server_addresses.read(address)) == shown


@pytest.mark.parametrize("address", ["", "host", "redis:/x", "ftp://host", "redis://", "redis://a b", "s3://x#y"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(ValueError):
        server_addresses.read(address)
