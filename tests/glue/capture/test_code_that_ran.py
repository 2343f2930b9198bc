"""What is noted of the code that runs while something compiles, before `sys.monitoring`."""

import sys

import pytest

from nbcache.glue.capture import code_that_ran
from nbcache.glue.capture.code_that_ran import Running

pytestmark = pytest.mark.skipif(hasattr(sys, "monitoring"), reason="the interpreter tells of each code once")


def calls_another():
    return called()


def called():
    return 1


def never():
    return 2


CODES = {each.__code__ for each in (calls_another, called, never)}


@pytest.fixture
def running(monkeypatch):
    for name in ("any_marked", "is_installed"):
        monkeypatch.setattr(code_that_ran, name, lambda *_what: True)
    running = Running()
    running.set_out()
    running.begin()
    yield running
    running.stop()
    assert sys.getprofile() is None


def taken(running):
    return running.take() & CODES


def test_what_runs_aside_is_not_noted_and_all_else_is(running):
    called()
    with running.aside():
        with running.aside():
            never()
        never()
        assert not running.missed
    assert taken(running) == {called.__code__}
    calls_another()
    assert taken(running) == {calls_another.__code__, called.__code__}
    assert not running.missed


def test_who_is_being_called_where_it_is_put_aside_has_run(running):
    def calls():
        with running.aside():
            never()
        called()

    calls()
    codes = running.take()
    assert {calls.__code__, called.__code__} <= codes
    assert never.__code__ not in codes


def test_code_of_the_program_that_compiles_something_there_is_noted(running):
    with running.aside():
        never()
        running.begin()
        calls_another()
    called()
    assert taken(running) == {calls_another.__code__, called.__code__}
    assert not running.missed


def test_who_turns_on_a_profiler_there_keeps_it_and_nothing_counts_as_noted(running):
    with running.aside():
        sys.setprofile(profile := lambda *_what: None)
    try:
        assert sys.getprofile() is profile
        assert running.missed
    finally:
        sys.setprofile(None)


def test_what_fails_there_is_noted_no_less_afterwards(running):
    with pytest.raises(KeyError), running.aside():
        raise KeyError
    called()
    assert taken(running) == {called.__code__}
