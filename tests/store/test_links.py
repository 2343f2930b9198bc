"""Directories of a store that are symbolic links: nothing behind them is listed, read or removed."""

import os

import pytest
from nbtest.samples import BY_REFERENCE, SIGN
from storekit import SECTIONS, header, key, open_store

from nbcache.protocol import heartbeats, spool
from nbcache.store import layout, usage

SHARD = f"{layout.OBJECTS}/{key()[:2]}"


@pytest.fixture
def store(tmp_path):
    """A store with something old in each of its directories."""
    store = open_store(tmp_path / "store")
    assert store.publish(header(), SECTIONS).ok
    store.write_usage({"hits": {key(): 1}})
    spool.submit(store.path, BY_REFERENCE)
    for number in range(spool.MAX_FAILURES + 3):
        spool.failed(store.path, BY_REFERENCE._replace(key=key(number)), "no")
    heartbeats.write(store.path, SIGN._replace(beat=1.0))
    for name in (layout.LEASES, layout.USAGE, layout.REQUESTS, layout.FAILED, layout.DAEMON, SHARD):
        for file in ("anything", ".left.tmp"):
            with open(f"{store.path}/{name}/{file}", "w"):
                pass
        for file in os.listdir(f"{store.path}/{name}"):
            os.utime(f"{store.path}/{name}/{file}", (1, 1))
    return store


def use(store):
    """All that lists or removes."""
    store.sweep()
    store.gc(1)
    store.clear()
    list(store.verify(remove=True))
    store.tidy(60)
    os.utime(f"{store.path}/{layout.STAMP}", (1, 1))
    store.tidy(60)
    heartbeats.sweep(store.path, store.trust)
    spool.sweep_failures(store.path)
    spool.forget_failure(store.path, key(1))
    with store.lease(key()) as lease:
        return (
            lease.held,
            [waiting.name for waiting in spool.scan(store.path, store.trust)],
            len(spool.failures(store.path)),
            heartbeats.read(store.path, store.trust),
            len(list(usage.read(store.path))),
        )


def test_what_is_there_is_used_and_removed(store):
    held, waiting, failures, alive, _ = use(store)
    assert held
    assert len(waiting) == 1
    assert 0 < failures <= spool.MAX_FAILURES
    assert alive == []
    for name, left in ((layout.LEASES, []), (SHARD, ["anything"])):
        assert os.listdir(f"{store.path}/{name}") == left
    (evictions,) = set(os.listdir(f"{store.path}/{layout.USAGE}")) - {"anything"}
    assert evictions.endswith(".json")


@pytest.mark.parametrize(
    "name", [layout.LEASES, layout.USAGE, layout.REQUESTS, layout.FAILED, layout.DAEMON, SHARD], ids=os.path.basename
)
def test_nothing_behind_a_link_is_touched(store, tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    os.rename(f"{store.path}/{name}", elsewhere)
    os.symlink(elsewhere, f"{store.path}/{name}")
    before = sorted(os.listdir(elsewhere))
    assert len(before) >= 2
    held, waiting, failures, alive, _ = use(store)
    assert sorted(os.listdir(elsewhere)) == before
    assert held is (name != layout.LEASES)
    assert (waiting == []) is (name == layout.REQUESTS)
    assert (failures == 0) is (name == layout.FAILED)
    assert alive == []


def test_a_link_in_the_place_of_what_holds_them_all(store, tmp_path):
    """Below an open store: a new one is refused there."""
    elsewhere = tmp_path / "elsewhere"
    os.rename(f"{store.path}/v1", elsewhere)
    os.symlink(elsewhere, f"{store.path}/v1")
    before = {name: sorted(os.listdir(elsewhere / name)) for name in ("leases", "failed", "daemon", "usage", "objects")}
    store.sweep()
    store.clear()
    heartbeats.sweep(store.path, store.trust)
    spool.sweep_failures(store.path)
    assert {name: sorted(os.listdir(elsewhere / name)) for name in before} == before
