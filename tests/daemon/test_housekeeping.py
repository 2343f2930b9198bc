"""Housekeeping: what it counts in a store, what it lets go, and what it learns from usage records."""

import json
import os
import shutil
import time
from collections import deque
from types import SimpleNamespace

import pytest
from storekit import SECTIONS, header, key, open_store

from nbcache.daemon import housekeeping
from nbcache.daemon.audit import Audit
from nbcache.daemon.housekeeping import Housekeeping
from nbcache.daemon.shared_parts import Problems, Stock
from nbcache.metrics.meter import Meter
from nbcache.store import layout


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path / "store")


@pytest.fixture
def commons(tmp_path, store):
    (tmp_path / "state").mkdir(0o700)
    return SimpleNamespace(
        store=store,
        settings=SimpleNamespace(max_size=0),
        tests=deque(),
        problems=Problems(),
        meter=Meter(),
        audit=Audit(str(tmp_path / "state")),
        stock=Stock(),
        again=[],
    )


@pytest.fixture
def turn(commons):
    return Housekeeping(commons, time.time)._turn


def publish(store, name, *, when=None, guard="", **fields):
    path = store.publish(header(name, guard=guard, **fields), SECTIONS, durable=False).path
    if when is not None:
        os.utime(path, (when, when))
    return path


def listed(store):
    found = [info.size for info in store.scan()]
    return Stock(len(found), sum(found))


def use(store, hits, when=None):
    path = store.write_usage({"hits": hits})
    if when is not None:
        os.utime(path, (when, when))


def fill(store, count=10):
    return [os.stat(publish(store, number, when=1000 + number)).st_size for number in range(count)][-1]


def left(store, count=10):
    return [number for number in range(count) if store.exists(key(number))]


def test_what_is_there_is_counted_and_counted_again(commons, store, turn):
    turn()
    assert commons.stock == Stock()
    for number in range(50):
        publish(store, number)
    publish(store, 0, guard="other")
    turn()
    assert commons.stock == listed(store)
    assert commons.stock.entries == 51
    for number in range(0, 40, 2):
        store.remove(layout.slot_path(store.path, key(number)))
    publish(store, 1, guard="more")
    turn()
    assert commons.stock == listed(store)
    store.clear()
    turn()
    assert commons.stock.entries == 0


def test_a_round_goes_on_where_a_turn_ended(commons, store, turn, monkeypatch):
    for number in range(60):
        publish(store, number)
    monkeypatch.setattr(housekeeping, "BUDGET", -1.0)  # over before it began: a shard each
    seen = []
    while commons.stock != listed(store):
        turn()
        seen.append(commons.stock.entries)
        assert len(seen) < 256
    assert len(seen) > 10
    assert seen == sorted(seen)


def test_damaged_entries_and_odd_names_do_no_harm(commons, store, turn):
    path = publish(store, 1)
    os.truncate(path, 10)
    shard = os.path.dirname(path)
    os.mkfifo(f"{shard}/{'0' * 62}.nbo")
    os.symlink("/etc/passwd", f"{shard}/{'1' * 62}.nbo")
    with open(f"{shard}/unrelated", "w"):
        pass
    turn()
    assert commons.stock.entries == 3


def test_the_least_recently_used_go_and_that_is_written_down(commons, store, turn, tmp_path):
    size = fill(store)
    use(store, {key(0): 1})
    commons.settings.max_size = 5 * size + size // 2
    turn()
    assert left(store) == [0, 7, 8, 9]
    turn()
    assert commons.stock == listed(store)
    lines = [json.loads(line) for line in (tmp_path / "state/audit.jsonl").read_text().splitlines()]
    assert {line["key"] for line in lines} == {key(number) for number in range(1, 7)}
    assert all((line["event"], line["bytes"]) == ("evicted", size) for line in lines)


def test_without_a_limit_or_permission_nothing_goes(commons, store, turn):
    fill(store)
    turn()
    assert left(store) == list(range(10))
    commons.settings.max_size, commons.store = 1, open_store(store.path, readonly=True)
    turn()
    assert left(store) == list(range(10))


def test_old_records_are_summed_up_and_the_sum_is_believed(commons, store, turn):
    size = fill(store)
    use(store, {key(0): 3, key("unknown"): 1}, when=time.time() - 7200)
    turn()
    assert os.listdir(f"{store.path}/{layout.USAGE}") == []
    with open(f"{store.path}/{layout.USAGE_TOTAL}") as file:
        assert list(json.load(file)["last_use"]) == [key(0)]
    commons.settings.max_size = 5 * size
    turn()
    assert left(store) == [0, 7, 8, 9]


def test_what_cannot_be_listed_is_not_forgotten_to_have_been_used(commons, store, turn):
    publish(store, 1)
    objects = f"{store.path}/{layout.OBJECTS}"
    os.rename(objects, objects + ".away")
    use(store, {key(1): 3}, when=time.time() - 7200)
    turn()
    with open(f"{store.path}/{layout.USAGE_TOTAL}") as file:
        assert list(json.load(file)["last_use"]) == [key(1)]


def test_a_store_deleted_while_it_is_counted(commons, store, turn, monkeypatch):
    monkeypatch.setattr(housekeeping, "BUDGET", -1.0)
    fill(store, 30)
    turn()
    shutil.rmtree(store.path)
    for _ in range(31):
        turn()
    turn()
    assert commons.stock == Stock()
