"""How long a process waits for others, by a clock that tests turn."""

import os
from types import SimpleNamespace

import pytest

from nbcache.client import waiting_account
from nbcache.client.waiting_account import ASKING_SHARE, CROWDED, FLOOR_SECONDS, PATIENT_SHARE, SHARE, Patience
from nbcache.config import Settings
from nbcache.counting import Counters
from nbcache.store.reasons import IN_VAIN


class Clock:
    """The time of a process that began ten seconds ago, and was busy since."""

    def __init__(self):
        self.now = 1000.0
        self.cpu = 10.0

    def monotonic(self):
        return self.now

    def process_time(self):
        return self.cpu

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    turned = Clock()
    monkeypatch.setattr(waiting_account, "time", turned)
    monkeypatch.setattr(waiting_account, "time", turned)
    monkeypatch.setattr(waiting_account, "_birth", lambda: 990.0)
    return turned


@pytest.fixture
def counters():
    return Counters()


def account(counters, **settings):
    return Patience(Settings(**settings), counters)


def wait_in_vain(account, clock, seconds):
    """Wait as long as is allowed, and not longer than that; return how long it was."""
    with account.wait() as wait:
        before = clock.now
        if wait.left > 0:
            wait.sleep(seconds)
    return clock.now - before


def test_waiting_in_vain_is_a_share_of_what_the_process_lived(clock, counters):
    held = account(counters)
    waited = [wait_in_vain(held, clock, 1.0) for _ in range(40)]
    assert sum(waited) == pytest.approx(FLOOR_SECONDS + SHARE * 10)
    # It compiles for itself meanwhile.
    clock.now, clock.cpu = clock.now + 4, clock.cpu + 4
    assert sum(wait_in_vain(held, clock, 1.0) for _ in range(40)) == pytest.approx(SHARE * 4)
    assert counters.snapshot()["waits"][IN_VAIN] == len([each for each in waited if each]) + 1


def test_who_only_looks_is_charged_nothing(clock, counters):
    held = account(counters)
    with held.wait():
        clock.now += 5
    assert held.budget == 30
    assert not counters.snapshot()["waits"]


def test_a_process_that_slept_has_not_lived(clock, counters):
    held = account(counters)
    clock.now += 1e6
    assert held.allowance == FLOOR_SECONDS + SHARE * CROWDED * 10


def test_progress_is_waited_for_until_the_budget_is_spent(clock, counters):
    held = account(counters, wait_seconds=20, wait_budget=30)
    waited = []
    for _ in range(3):
        with held.wait() as wait:
            before = clock.now
            while wait.left > 0:
                wait.sleep(1.0)
                wait.progress()
            waited.append(clock.now - before)
    # Once that much came to nothing, there is no allowance for more, progress or not.
    assert waited == [20.0, 0.0, 0.0]
    with account(counters, wait_seconds=50, wait_budget=30).wait() as wait:
        for _ in range(29):
            wait.sleep(1.0)
            wait.progress()
        assert wait.left == 1.0


def test_what_came_is_charged_only_as_far_as_compiling_would_have_been_faster(clock, counters):
    held = account(counters)
    before = held.allowance, held.budget
    with held.wait() as wait:
        wait.sleep(2)
        wait.progress()
        clock.now += 3
        wait.done(5.0)
    assert (held.allowance, held.budget) == before
    with held.wait() as wait:
        wait.sleep(1.0)
        clock.now += 2
        wait.done(2.0)
    assert held.budget == before[1] - 1
    assert IN_VAIN not in counters.snapshot()["waits"]


def test_who_would_rather_wait_and_says_not_how_long_waits_for_a_share(clock, counters):
    held = account(counters, on_miss="wait")
    assert not held.insists
    waited = [wait_in_vain(held, clock, 1.0) for _ in range(40)]
    assert sum(waited) == pytest.approx(FLOOR_SECONDS + PATIENT_SHARE * 10)


@pytest.mark.parametrize("name", ["wait_seconds", "wait_budget"])
def test_who_says_how_long_insists_also_on_what_is_the_default(counters, name):
    assert account(counters, on_miss="wait", sources={name: "environment"}).insists
    assert not account(counters, on_miss="wait", sources={name: "default"}).insists
    assert not account(counters, sources={name: "environment"}).insists


def test_who_insists_waits_for_as_long_as_is_said(clock, counters):
    held = account(counters, on_miss="wait", wait_seconds=300)
    assert wait_in_vain(held, clock, 1e9) == 300
    assert wait_in_vain(held, clock, 1e9) == 0
    held = account(counters, on_miss="wait", wait_seconds=20, wait_budget=50)
    assert [wait_in_vain(held, clock, 1e9) for _ in range(4)] == [20, 20, 10, 0]


def test_who_compiles_does_not_wait(clock, counters):
    assert wait_in_vain(account(counters, on_miss="compile"), clock, 10) == 0
    assert wait_in_vain(account(counters, wait_budget=0), clock, 10) == 0
    assert not counters.snapshot()["waits"]


def test_a_forked_child_has_an_account_of_its_own(clock, counters):
    held = account(counters)
    wait_in_vain(held, clock, 5)
    pid = os.fork()
    if pid == 0:
        with held.wait():
            os._exit(0 if held.budget == 30 else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_progress_is_processor_time(clock, counters):
    spent, wait = [None], account(counters).wait()
    watch = waiting_account.Watch(lambda: (spent[0], None))

    def seen(value, seconds=1.0):
        spent[0] = value
        clock.now += seconds
        return watch.look(wait)

    assert not seen(None)
    assert not seen(0.0)
    assert seen(0.5)
    assert not seen(0.5)
    assert not seen(0.501)
    # Very little of it, on a crowded machine, and another process that goes on with it.
    assert seen(0.7)
    assert seen(0.1)
    assert not seen(5.0, 0.01)


def in_a_crowd(held, clock, kept):
    """Wait for who gets on, and is *kept* from that for such a part of the time; return for how long."""
    with held.wait() as wait:
        before = clock.now
        wait.progress()
        while wait.left > 0.01 and clock.now - before < 1000:
            slept = clock.now
            wait.sleep(0.1)
            wait.progress()
            wait.excuse(kept * (clock.now - slept))
    return clock.now - before


def test_what_the_crowd_takes_from_who_builds_is_not_counted(clock, counters):
    assert in_a_crowd(account(counters), clock, 0.0) == pytest.approx(30, abs=0.2)
    assert in_a_crowd(account(counters), clock, 0.9) == pytest.approx(300, abs=2)


def test_limits_that_somebody_set_hold_in_a_crowd_as_well(clock, counters):
    held = account(counters, wait_seconds=5.0, sources={"wait_seconds": "environment"})
    assert in_a_crowd(held, clock, 0.9) == pytest.approx(5, abs=0.2)


def test_a_crowd_is_what_was_added_since_it_was_last_asked(clock):
    kept = iter([5.0, 5.5, None, 7.0, 8.0])
    told = []
    wait = SimpleNamespace(excuse=told.append)
    watch = waiting_account.Watch(lambda: (None, next(kept)))
    for _ in range(4):
        clock.now += 1
        assert not watch.look(wait)
        assert not watch.look(wait)
    assert told == [0.5, 1.0]


def test_who_has_a_processor_to_himself_is_waited_for(clock):
    pace, spent = waiting_account.Pace(10.0), 0.0
    for _ in range(90):
        clock.now += 0.1
        spent += 0.1
        assert not pace.lags(spent)


def test_who_gets_a_tenth_of_one_is_too_slow_unless_he_is_nearly_done(clock):
    pace = waiting_account.Pace(10.0)
    assert not pace.lags(0.5)
    clock.now += 1
    assert pace.lags(0.6)
    nearly = waiting_account.Pace(10.0)
    nearly.lags(9.0)
    clock.now += 1
    assert not nearly.lags(9.1)


def test_of_what_nobody_knows_the_length_of_nothing_is_too_slow(clock):
    pace = waiting_account.Pace(None)
    clock.now += 100
    assert not pace.lags(None)


def test_a_helper_that_gets_half_a_processor_is_too_slow_for_what_nobody_knows_the_length_of(clock):
    for part, lags in ((0.5, True), (0.9, False)):
        pace = waiting_account.Pace(None)
        pace.lags(0.0, gives_way=True)
        clock.now += 1
        assert pace.lags(part, gives_way=True) is lags


def test_who_is_not_seen_to_work_is_too_slow_after_half_a_second(clock):
    pace = waiting_account.Pace(1.0)
    clock.now += 0.4
    assert not pace.lags(None)
    clock.now += 0.2
    assert pace.lags(None)


def test_a_daemon_that_is_slower_than_compiling_is_asked_again_as_the_process_gets_older(clock, counters):
    """Each of sixty functions came a little later than it would have been compiled: the first run took half again."""
    held, patient = account(counters), account(counters, on_miss="wait")
    began, late = clock.now, 0.0
    for _ in range(60):
        clock.now += 0.2
        clock.cpu += 0.2
        if held.asks:
            with held.wait() as wait:
                wait.sleep(0.5)
                wait.progress()
                wait.done(0.2)
            late += 0.3
    lived = 10 + clock.now - began
    assert FLOOR_SECONDS + ASKING_SHARE * 10 < late < FLOOR_SECONDS + ASKING_SHARE * lived + 0.3
    assert wait_in_vain(patient, clock, 1.0) == 1.0
    assert patient.asks


def test_a_daemon_that_is_faster_is_asked_for_everything(clock, counters):
    held = account(counters)
    for _ in range(60):
        assert held.asks
        with held.wait() as wait:
            wait.sleep(0.5)
            wait.done(0.6)
