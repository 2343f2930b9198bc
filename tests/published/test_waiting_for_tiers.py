"""What a process asks remote tiers for, and how long it waits, by a clock of the test's own."""

from types import SimpleNamespace

import pytest
from storekit import open_store

from nbcache.config import Settings
from nbcache.protocol import helper
from nbcache.published import load, names_in_tiers
from nbcache.remote.helper import Server
from nbcache.secret import Secret


class World:
    """A clock, and a server that takes a while for each answer."""

    def __init__(self):
        self.now = 1000.0
        self.takes = 0.0
        self.asked = []

    def monotonic(self):
        return self.now

    def answer(self, _settings, _question, name, seconds, *_since):
        self.asked.append((name, seconds))
        self.now += min(self.takes, seconds)
        return helper.Answer(helper.MISSING)


@pytest.fixture
def world(monkeypatch):
    found = World()
    monkeypatch.setattr(names_in_tiers, "time", found)
    monkeypatch.setattr(names_in_tiers, "_answer", found.answer)
    monkeypatch.setattr(names_in_tiers, "_asked", {})
    if hasattr(names_in_tiers, "_Budget"):
        monkeypatch.setattr(names_in_tiers, "_budget", names_in_tiers._Budget())
    return found


@pytest.mark.parametrize("takes", [0.001, 0.4, 5.0])
def test_however_slow_servers_are_who_has_a_version_waits_no_longer_than_he_does_all_else(world, takes):
    world.takes, began, own = takes, world.now, 0.0
    for number in range(1000):
        names_in_tiers.look(f"name{number}", Settings(), is_here=True)
        world.now += 0.01
        own += 0.01
    assert world.now - began <= 2 * own + 2.0
    # Who asks a server gives it the time that it may take: else it would be taken for one that doesn't answer.
    assert {seconds for _name, seconds in world.asked} == {names_in_tiers.HERE_SECONDS}
    # What was passed over is asked for the next time.
    world.now += 5.0
    names_in_tiers.look("another", Settings(), is_here=True)
    assert world.asked[-1][0] == "another"


def test_what_is_not_here_is_asked_for_each_time(world):
    world.takes = 5.0
    for _ in range(20):
        names_in_tiers.look("name", Settings(), is_here=False)
    assert len(world.asked) == 20


def test_the_helper_is_told_what_a_layer_has(world, monkeypatch, tmp_path):
    monkeypatch.undo()
    monkeypatch.setattr(names_in_tiers, "_asked", {})
    created = open_store(tmp_path / "layer").names.write("name", b"{}").created
    told = []

    def ask(_place, question, name, seconds, *, slot, since):
        said = helper.Question(question, name, slot, seconds, since)
        return {"v": helper.VERSION, **Server._answer(SimpleNamespace(_helper=SimpleNamespace(answer=answer)), said)}

    def answer(question):
        told.append((question.ask, question.key, question.since))
        return helper.Answer(helper.MISSING)

    monkeypatch.setattr(helper, "ask", ask)
    address = Secret("redis://127.0.0.1:1")
    settings = Settings(dir=str(tmp_path / "store"), layers=(str(tmp_path / "layer"),), remote=(address,))
    assert load.exists("name", settings) and not load.exists("other", settings)
    assert told == [("load", "name", created), ("load", "other", 0.0)]
