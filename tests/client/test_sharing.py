"""As long as others are at work on a profile that was asked for, a program asks for no single function; then it does."""

import logging
from types import SimpleNamespace

import pytest

from nbcache.client import cold_start
from nbcache.client.elsewhere import Daemons, Elsewhere
from nbcache.client.waiting_account import Patience
from nbcache.config import Settings
from nbcache.counting import Counters
from nbcache.protocol import heartbeats
from nbcache.protocol.profiles import Head, Profile
from nbcache.store.directory import Store

UNIT = SimpleNamespace(key="1" * 64, name="lib:f", signature_text="()")


@pytest.fixture
def sharing(place, monkeypatch):
    """What a process that asked for two lanes sees of others, the requests, and the functions that it asks for."""
    settings = Settings(dir=str(place / "store"))
    paths = [place / "one", place / "two"]
    for path in paths:
        path.touch()
    asked = []

    class Daemons:
        workers = 0

        def worth_asking(self):
            return True

        def build(self, unit, _wait):
            asked.append(unit.name)
            return False

    seen = Elsewhere(settings, Store.open(settings), Counters())
    monkeypatch.setattr(seen, "_daemons", Daemons())
    seen.share(Profile(Head("main.py", {}, "", 0.0)), list(map(str, paths)))
    return seen, paths, asked


def find(seen):
    seen.missed(UNIT, 0.0)
    assert seen.find(UNIT, lambda: None, lambda release: release(), is_there=False) is None


def test_a_program_asks_for_functions_again_once_its_lanes_are_answered(sharing):
    seen, paths, asked = sharing
    find(seen)
    paths[0].unlink()
    find(seen)
    assert not asked
    assert seen.shares
    paths[1].unlink()
    find(seen)
    assert asked == ["lib:f"]
    assert not seen.shares


def test_a_job_that_goes_through_a_profile_shares_to_the_end(place):
    settings = Settings(dir=str(place / "store"))
    seen = Elsewhere(settings, Store.open(settings), Counters())
    seen.share(Profile(Head("main.py", {}, "", 0.0)))
    seen.missed(UNIT, 0.0)
    assert seen.shares


@pytest.mark.parametrize("comes", [False, True])
def test_a_helper_that_never_comes_is_told_of_and_no_longer_counted_on(sharing, monkeypatch, caplog, comes):
    seen, _paths, _asked = sharing
    seen._daemons.has_helper = lambda: comes
    started = cold_start.ColdStart(Settings(dir=seen._store.path), seen._store)
    monkeypatch.setattr(cold_start.helper, "detached", lambda *_args: True)
    started._start_helper(2)
    seen._cold = started
    with caplog.at_level(logging.INFO, "nbcache"):
        seen.missed(UNIT, 0.0)
        assert seen.shares
        if not comes:
            started._started -= cold_start.LATE_SECONDS + 1
        seen.missed(UNIT, 0.0)
    assert seen.shares == comes
    assert ("doesn't begin" in caplog.text) == (not comes)


def heartbeat(**said):
    given = {"finished": 0, "workers": 2, "gives_way": False, "alive": True, "draining": False, **said}
    return SimpleNamespace(process=("host", 1, 2.0), hears=lambda _uid: True, delay=lambda _uid: 0.0, **given)


def test_a_daemon_that_gets_ready_is_asked_for_a_profile_and_for_no_further_function(place, monkeypatch):
    settings = Settings(dir=str(place / "store"))
    seen = Daemons(Store.open(settings), Patience(settings, Counters()))
    said = [heartbeat()]
    monkeypatch.setattr(heartbeats, "read", lambda *_args: said)
    seen._look(0.0)
    seen._told = frozenset({said[0].process})
    assert seen.workers == 2
    assert seen._asked() == []
    said[0] = heartbeat(finished=1)
    seen._look(0.0)
    assert seen._asked() == said
    seen._give_up()
    assert seen.workers == 0
