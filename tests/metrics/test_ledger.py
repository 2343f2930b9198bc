"""Counters over usage records: they only grow, whatever is folded meanwhile, and cost no more than what is new."""

import os
import time
from pathlib import Path

import pytest
from nbtest import users
from storekit import key, open_store

from nbcache.config import Settings
from nbcache.metrics.ledger import Ledger
from nbcache.metrics.store_scan import Looker
from nbcache.store import content, layout, reasons, usage_sums

RECORD = {
    "hits": {key("a"): 3},
    "saved_seconds": 1.5,
    "builds": [{"key": key("c"), "function": "m:f", "seconds": 0.5}],
    "built_seconds": 0.5,
    "misses": {"new": 2, "<b>": 1},
    "uncacheable": {"a pointer": {"count": 2, "functions": ["m:g"]}},
    "errors": {"fault while loading": 1, "publish": 2, "\x1b[2J": 4},
    "published": 1,
    "waited_seconds": 0.75,
    "waits": {"0.1": 4, "1": 1, "in vain": 1, "17": 1},
}
ONE = {
    "processes": 1,
    "hit_count": 3,
    "saved_seconds": 1.5,
    "builds_count": 1,
    "built_seconds": 0.5,
    "published": 1,
    "uncacheable": {"other": {"count": 2, "functions": []}},
    "misses": {"new": 2, "unusable": 1},
    "errors": {"fault": 1, "publish": 2, "other": 4},
    "waited_seconds": 0.75,
    "waits": {"0.1": 4, "1": 1, "in vain": 1},
}


def told(ledger):
    """What is there at all of what a ledger adds up, which it has read completely."""
    sums, complete = ledger.sums()
    assert complete
    return {name: value for name, value in sums.items() if value and name not in {"version", "end"}}


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path)


def record(store, age=0.0, **fields):
    path = store.write_usage({**RECORD, **fields})
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def test_one_record(store):
    record(store)
    assert told(Ledger(store.path)) == ONE


def test_folding_changes_nothing(store):
    for number in range(6):
        record(store, age=7200 if number % 2 else 0)
    ledger = Ledger(store.path)
    before = told(ledger)
    assert before["processes"] == 6
    assert usage_sums.fold(store.path, lambda _: True) == 3
    assert told(ledger) == before
    assert told(Ledger(store.path)) == before
    record(store)
    assert told(ledger)["hit_count"] == before["hit_count"] + 3


def test_a_record_is_read_once(store, monkeypatch):
    for _ in range(5):
        record(store)
    ledger = Ledger(store.path)
    ledger.sums()
    read = []
    real = content.read_json_from
    monkeypatch.setattr(content, "read_json_from", lambda *given, **named: read.append(given) or real(*given, **named))
    record(store)
    assert told(ledger)["processes"] == 6
    assert len(read) == 1


def test_records_in_the_sum_that_are_still_there_are_waited_for(store, monkeypatch):
    """Whoever folds writes the sum first: at that moment everything is there twice."""
    paths = [record(store) for _ in range(4)]
    ledger = Ledger(store.path)
    before = told(ledger)
    held = {path: Path(path).read_bytes() for path in paths}
    usage_sums.fold(store.path, lambda _: True, age=-1)
    for path, data in held.items():
        with open(path, "wb") as file:
            file.write(data)

    def goes_on(seconds):
        for path in held:
            if os.path.exists(path):
                os.unlink(path)

    monkeypatch.setattr(time, "sleep", goes_on)
    looks = []
    real = Ledger._still_there

    def still_there(self):
        looks.append(1)
        if len(looks) == 1:
            os.unlink(paths[0])
        return real(self)

    monkeypatch.setattr(Ledger, "_still_there", still_there)
    assert told(ledger) == before
    assert len(looks) == 2


def test_what_cannot_be_read_is_left_out(store):
    record(store)
    directory = f"{store.path}/{layout.USAGE}"
    for name, data in (
        ("a", b"{"),
        ("b", b"[" * 100_000),
        ("c", b'{"version": 2}'),
        ("d", b'{"version": 1}' + b" " * 10_000_000),
    ):
        with open(f"{directory}/{name}.json", "wb") as file:
            file.write(data)
    os.mkfifo(f"{directory}/e.json")
    assert told(Ledger(store.path)) == ONE


def test_more_than_is_read_at_once_is_read_later(store, monkeypatch):
    for _ in range(10):
        record(store)
    size = os.stat(record(store)).st_size
    monkeypatch.setattr("nbcache.metrics.ledger.READ_BYTES", 3 * size + 10)
    ledger = Ledger(store.path)
    seen = [ledger.sums() for _ in range(5)]
    assert [(sums["processes"], complete) for sums, complete in seen] == [
        (3, False), (6, False), (9, False), (11, True), (11, True)
    ]  # fmt: skip


@pytest.mark.parametrize("name", [layout.USAGE, layout.LAYOUT, ""])
def test_a_store_that_is_gone(store, tmp_path, name):
    record(store)
    ledger = Ledger(store.path)
    assert told(ledger) == ONE
    os.rename(tmp_path / name, tmp_path.with_name("away"))
    assert told(ledger) == {}
    os.rename(tmp_path.with_name("away"), tmp_path / name)
    assert told(ledger) == ONE


def test_forged_numbers_stay_numbers(store):
    for _ in range(3):
        record(store, hit_count=10**400, saved_seconds=float("inf"), misses={f"m{n}": 1 << 60 for n in range(5000)})
    sums = told(Ledger(store.path))
    assert 0 < sums["hit_count"] < 1 << 60
    assert sums["misses"].keys() == {"unusable"}
    assert sums["misses"]["unusable"] <= 3 * (reasons.MAX_REASONS + 50) * (1 << 53)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become somebody else")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("name", [layout.USAGE, layout.USAGE_TOTAL])
def test_what_this_user_may_not_read_is_not_taken_for_nothing(place, name):
    store = open_store(place / "store")
    record(store, age=7200)
    usage_sums.fold(store.path, lambda _: True)
    record(store)
    assert users.become(lambda: told(Ledger(store.path)), 54321, 54321)["processes"] == 2
    os.chmod(f"{store.path}/{name}", 0)
    assert not users.become(lambda: Ledger(store.path).sums()[1], 54321, 54321)
    looker = Looker(lambda: Settings(dir=store.path))
    look = users.become(lambda: looker.look(3600.0), 54321, 54321)
    assert (look.problem, look.sums, look.complete) == (None, None, False)
    assert told(Ledger(store.path))["processes"] == 2
