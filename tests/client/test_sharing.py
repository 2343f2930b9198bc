"""As long as others are at work on a profile that was asked for, a program asks for no single function; then it does."""

from types import SimpleNamespace

import pytest

from nbcache.client.others import Others
from nbcache.config import Settings
from nbcache.counting import Counters
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

    seen = Others(settings, Store.open(settings), Counters())
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
    seen = Others(settings, Store.open(settings), Counters())
    seen.share(Profile(Head("main.py", {}, "", 0.0)))
    seen.missed(UNIT, 0.0)
    assert seen.shares
