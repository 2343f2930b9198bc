"""Eviction: what the plan decides, what applying it leaves, and tidying up now and then."""

import os
import time
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from storekit import SECTIONS, find, header, key, open_store

from nbcache.store import evict, layout, pins


@dataclass(frozen=True)
class Item:
    path: str
    key: str
    size: int
    mtime: float


def item(name, size=10, mtime=0.0):
    return Item(f"/{name}", str(name), size, mtime)


def gone(plan):
    return tuple(each.path for each in plan.remove)


def test_nothing_goes_while_there_is_room():
    plan = evict.plan([item("a"), item("b")], 20, 100.0, {})
    assert plan == evict.Plan((), 20, 2)


def test_no_limit():
    assert evict.plan([item("a", 10**12)], 0, 100.0, {}).remove == ()


def test_the_least_recently_used_go_first_down_to_nine_tenths():
    items = [item(number, 10, float(number)) for number in range(11)]
    plan = evict.plan(items, 100, 100.0, {})
    assert gone(plan) == ("/0", "/1")
    assert (plan.freed, plan.total, plan.entries) == (20, 110, 11)


def test_usage_counts_as_use():
    items = [item("a", mtime=1), item("b", mtime=2), item("c", mtime=3)]
    assert gone(evict.plan(items, 22, 100.0, {"a": 50.0})) == ("/b", "/c")
    assert gone(evict.plan(items, 22, 100.0, {"a": 0.5})) == ("/a", "/b")


def test_the_future_counts_as_now():
    items = [item("forged", mtime=1), item("fresh", mtime=99)]
    assert gone(evict.plan(items, 15, 100.0, {"forged": 1e12, "fresh": 1e15})) == ("/forged",)


items = st.lists(
    st.builds(item, st.integers(0, 50), st.integers(0, 1000), st.floats(0, 1000)), unique_by=lambda one: one.key
)


@given(items, st.integers(0, 20_000), st.dictionaries(st.integers(0, 50).map(str), st.floats(0, 2000)))
def test_the_plan_is_small_and_in_order(found, limit, used):
    plan = evict.plan(found, limit, 1500.0, used)
    by_path = {one.path: one for one in found}
    assert plan.freed == sum(by_path[path].size for path in gone(plan))
    left = plan.total - plan.freed
    if limit == 0 or plan.total <= limit:
        assert plan.remove == ()
        return
    assert left <= int(limit * evict.LOW_WATER)
    # The last one removed was needed.
    assert left + plan.remove[-1].size > int(limit * evict.LOW_WATER)

    def use(path):
        return min(1500.0, max(by_path[path].mtime, used.get(by_path[path].key, 0.0)))

    kept = [use(path) for path in by_path if path not in gone(plan)]
    assert not kept or max(map(use, gone(plan))) <= min(kept)


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path)


@given(st.sets(st.integers(0, 5)))
def test_slots_stay_without_gaps(tmp_path_factory, chosen):
    store = open_store(tmp_path_factory.mktemp("slots"))
    paths = [store.publish(header(guard=f"g{n}"), {"meta": b"m"}, durable=False).path for n in range(6)]
    plan = evict.Plan(tuple(evict.Victim(paths[n], n + 1, 0) for n in chosen), 0, 6)
    assert evict.apply(plan) == (len(chosen), plan.freed)
    assert sorted(one.header.guard for one in find(store)[0]) == [f"g{n}" for n in range(6) if n not in chosen]


def test_what_cannot_be_removed_stays(store):
    assert evict.apply(
        evict.Plan((evict.Victim("/nonexistent/x.nbo", 1, 0), evict.Victim("/proc/version", 1, 0)), 0, 0)
    ) == (0, 0)


def test_split_slot():
    assert [evict.split_slot("/x/ab" + suffix) for suffix in layout.SUFFIXES] == [("/x/ab", n) for n in range(8)]


def fill(store, count=10):
    size = 0
    for number in range(count):
        path = store.publish(header(number), SECTIONS, durable=False).path
        os.utime(path, (1000 + number, 1000 + number))
        size = os.stat(path).st_size
    return size


def names(store, count=10):
    return [number for number in range(count) if store.exists(key(number))]


def test_gc(store):
    size = fill(store)
    limit = 5 * size + size // 2
    plan = store.gc(limit, dry_run=True)
    assert len(plan.remove) == 6
    assert len(names(store)) == 10
    # Used by a process, which tells so in its record.
    assert store.write_usage({"hits": {key(0): 1}})
    assert store.gc(limit).freed == 6 * size
    assert names(store) == [0, 7, 8, 9]
    assert store.gc(limit).remove == ()


def test_gc_takes_the_setting(tmp_path):
    store = open_store(tmp_path, max_size=1)
    fill(store, 3)
    assert len(store.gc().remove) == 3
    assert names(store, 3) == []


def test_tidy_is_rare_and_evicts(tmp_path):
    store = open_store(tmp_path, max_size=1)
    fill(store)
    assert store.tidy() is False
    stamp = tmp_path / layout.STAMP
    assert stamp.exists()
    assert store.tidy() is False
    assert len(names(store)) == 10
    os.utime(stamp, (1, 1))
    # All of it takes as long as it takes: by default it is left to somebody else after a tenth of a second.
    assert store.tidy(600.0) is True
    assert names(store) == []
    assert time.time() - stamp.stat().st_mtime < 600
    assert store.tidy() is False
    # Left by a clock that was wrong: nobody would tidy up for a year.
    ahead = time.time() + 365 * 86400
    os.utime(stamp, (ahead, ahead))
    assert store.tidy(600.0) is True
    assert time.time() - stamp.stat().st_mtime < 600


def test_tidy_without_time_takes_a_share(tmp_path):
    store = open_store(tmp_path, max_size=1)
    fill(store)
    store.tidy()
    os.utime(tmp_path / layout.STAMP, (1, 1))
    assert store.tidy(budget=-1) is True
    shards = {key(number)[:2] for number in range(10)}
    assert len({key(number)[:2] for number in names(store)}) == len(shards) - 1


def test_sweep_takes_only_old_leftovers(store):
    path = store.publish(header(), SECTIONS).path
    directory = os.path.dirname(path)
    for name, age in ((".old.tmp", 4000), (".new.tmp", 10)):
        with open(f"{directory}/{name}", "w"):
            pass
        when = time.time() - age
        os.utime(f"{directory}/{name}", (when, when))
    os.utime(path, (1, 1))
    assert store.sweep() == 1
    assert sorted(os.listdir(directory)) == [".new.tmp", os.path.basename(path)]


def test_whoever_has_more_than_a_share_loses_of_his_own():
    """Whatever the others use, and whenever: nobody makes room at another one's expense."""
    small = [item(f"bob{number}", 10, 1.0) for number in range(3)]
    large = [item(f"mallory{number}", 10, 50.0 + number) for number in range(10)]
    uses = {one.key: 99.0 for one in large}
    plan = evict.plan([*small, *large], 100, 100.0, uses, asker=lambda one: one.key[0])
    assert gone(plan) == tuple(one.path for one in large[:4])


def test_what_nobody_needs_of_a_share_the_others_have():
    def plan(*sizes):
        items = [item(f"{who}{number}", 10, number) for who, size in enumerate(sizes) for number in range(size)]
        left = evict.plan(items, 100, 100.0, {}, asker=lambda one: one.key[0])
        return [size - sum(path[1] == str(who) for path in gone(left)) for who, size in enumerate(sizes)]

    assert plan(11) == [9]
    assert plan(1, 12) == [1, 8]
    assert plan(20, 20) == [4, 4]
    assert plan(1, 20, 20) == [1, 4, 4]
    assert plan(5, 5) == [5, 5]


def test_what_is_published_by_name_counts_and_stays_and_the_rest_is_shared():
    items = [item(f"{who}{number}", 10, number) for who in "ab" for number in range(8)]
    pinned = pins.Pins(frozenset(f"a{number}" for number in range(7)))
    gone = evict.plan(items, 100, 100.0, {}, pinned, asker=lambda one: one.key[0])
    assert {each.path[1] for each in gone.remove} == {"b"}
    assert gone.total - gone.freed <= 90
