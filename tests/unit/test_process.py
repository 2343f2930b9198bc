"""Importing is not interrupted by the garbage collector, which looks at what was made as at what is young, and no more."""

import gc

import pytest

from nbcache import process


@pytest.fixture
def collected():
    """The generations that are collected meanwhile."""
    found = []

    def note(phase, info):
        if phase == "start":
            found.append(info["generation"])

    before = gc.isenabled(), gc.get_threshold()
    gc.collect()
    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)
    gc.set_threshold(*before[1])
    (gc.enable if before[0] else gc.disable)()


def made_within(count):
    with process.nothing_collected():
        assert not gc.isenabled()
        return [[] for _ in range(count)]


def test_many_objects_are_looked_at_once_as_young(collected):
    gc.enable()
    gc.set_threshold(100, 1, 1)
    kept = made_within(5000)
    assert collected[:1] == [0]
    assert gc.isenabled()
    assert kept


def test_few_objects_are_not_looked_at(collected):
    gc.enable()
    gc.set_threshold(100_000, 1, 1)
    assert made_within(1000)
    assert collected == []


@pytest.mark.parametrize("off", [gc.disable, lambda: gc.set_threshold(0)], ids=["disabled", "no threshold"])
def test_who_collects_nothing_has_nothing_collected(collected, off):
    gc.set_threshold(100, 1, 1)
    gc.enable()
    off()
    enabled, already = gc.isenabled(), len(collected)
    assert made_within(5000)
    assert len(collected) == already
    assert gc.isenabled() is enabled
