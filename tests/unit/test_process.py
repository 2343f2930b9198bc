"""Importing is not interrupted by the garbage collector, which takes what was made for old."""

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


def test_many_objects_count_as_old_and_are_not_looked_at(collected):
    gc.enable()
    gc.set_threshold(1000, 1, 1)
    begins_frozen = gc.get_freeze_count() > 0  # as Python 3.12 does; then what is young is looked at once
    kept = made_within(5000)
    assert collected[:1] == [0] * begins_frozen
    assert gc.isenabled()
    assert gc.get_count()[0] < 1000
    oldest = {*map(id, gc.get_objects(generation=2))}
    assert begins_frozen or oldest.issuperset(map(id, kept))


def test_what_is_frozen_stays_frozen(collected):
    gc.enable()
    gc.set_threshold(1000, 1, 1)
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        assert made_within(5000)
        assert gc.get_freeze_count() == frozen
    finally:
        gc.unfreeze()
    assert collected[:1] == [0]


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
