"""The sum of records: what folding keeps of when things happened, bounded whatever the records say."""

import json
import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from storekit import SECTIONS, header, key, open_store

from nbcache import counting
from nbcache.store import layout, reasons, usage, usage_sums
from nbcache.store.usage_sums import DAY, HOUR, Past

NOW = 1_800_000_000.0
RECORD = {
    "version": 1,
    "hits": {key("a"): 3},
    "saved_seconds": 1.5,
    "builds": [{"key": key("c"), "function": "m:f (int64,)", "seconds": 0.5}],
    "built_seconds": 0.5,
    "misses": {"new": 2, "the symbol x does not exist in this process": 1},
    "uncacheable": {"a pointer": {"count": 2, "functions": ["m:g"]}},
}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=10) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def record(**fields):
    return usage.clean({**RECORD, **fields})


def anything(_key):
    return True


def again(past, now=NOW):
    """What was written, read."""
    said = json.loads(past.encode(now))
    return Past(usage.clean(said), said)


def test_a_record_counts_in_its_hour_and_long_after_in_its_day():
    past = Past()
    for when in (NOW - 2 * HOUR, NOW - 3 * DAY, NOW - 3 * DAY + HOUR):
        past.add(record(), when, anything, NOW)
    expected = {
        "processes": 1, "hit_count": 3, "saved_seconds": 1.5, "builds_count": 1, "built_seconds": 0.5,
        "uncacheable": {"other": {"count": 2, "functions": []}}, "misses": {"new": 2, "unusable": 1},
    }  # fmt: skip
    places = [int((NOW - ago) // HOUR) for ago in (2 * HOUR, 3 * DAY, 3 * DAY - HOUR)]
    hours = {n: {name: each[name] for name in expected} for n, each in again(past).hours.items()}
    assert hours == dict.fromkeys(places, expected)
    assert reasons.missed(expected) == 3
    assert again(past).total["processes"] == 3
    later = again(again(past), NOW + 14 * DAY)
    day = int((NOW - 3 * DAY) // DAY) * 24
    assert {n: each["processes"] for n, each in later.hours.items()} == {day: 2, places[0] // 24 * 24: 1}
    assert again(later, NOW + 15 * DAY).hours == later.hours


def test_what_is_brief_is_as_brief_when_it_is_read_again():
    said = usage.clean(
        {"version": 1, "errors": {"fault while x": 1, "remote: y": 2, "z": 3}, "misses": {"new": 1, "m": 2}}
    )
    past = Past()
    past.add(said, NOW, anything, NOW)
    (bucket,) = again(again(past)).hours.values()
    assert bucket["errors"] == {"fault": 1, "remote": 2, "other": 3}
    assert bucket["misses"] == {"new": 1, "unusable": 2}


def test_the_past_is_forgotten_and_the_future_is_now():
    past = Past()
    past.add(record(), NOW - 20 * DAY, anything, NOW)
    past.add(record(), NOW - 1000 * DAY, anything, NOW)
    past.add(record(), NOW + 1000 * DAY, anything, NOW)
    assert set(past.hours) == {int((NOW - 20 * DAY) // DAY) * 24, int(NOW // HOUR)}
    assert past.total["processes"] == 3
    assert set(again(past, NOW + 399 * DAY).hours) == {int(NOW // DAY) * 24}
    assert again(past, NOW - HOUR).hours.keys() == {int((NOW - 20 * DAY) // DAY) * 24}


def test_a_function_changes_when_its_key_does():
    past = Past()
    for name in ("a", "a", "b", "a"):
        past.add(record(builds=[{"key": key(name), "function": "m:f", "seconds": 2.0}]), NOW, anything, NOW)
    (told,) = past.functions.values()
    assert (told.builds, told.seconds, told.changes) == (4, 8.0, 2)


def test_functions_are_bounded_by_what_they_cost_and_by_how_often_they_change():
    past = Past()
    for number in range(usage_sums.MAX_COSTLY):
        past.add(record(builds=[{"key": key("a"), "function": f"dear{number}", "seconds": 100.0}]), NOW, anything, NOW)
    for turn in range(3):
        past.add(record(builds=[{"key": key(turn), "function": "cheap:changing", "seconds": 0.1}]), NOW, anything, NOW)
    for start in range(0, 40_000, 8000):
        forged = [{"key": key("a"), "function": f"{n}" * 100, "seconds": 0.2} for n in range(start, start + 8000)]
        past.add(record(builds=forged), NOW, anything, NOW)
    assert len(past.functions) < 20_000
    kept = json.loads(past.encode(NOW))["functions"]
    assert len(kept) == usage_sums.MAX_COSTLY + usage_sums.MAX_CHANGING
    assert "cheap:changing" in kept
    assert sum(name.startswith("dear") for name in kept) == usage_sums.MAX_COSTLY


def test_it_never_grows_beyond_what_is_read():
    past = Past()
    most = {
        **dict.fromkeys(("hit_count", "builds_count", "evicted", "evicted_bytes"), 1 << 53),
        **dict.fromkeys(("saved_seconds", "built_seconds"), 9e15),
        "misses": dict.fromkeys([*reasons.MISSES, "else"], 1 << 53),
    }
    for hours in range(usage_sums.DAYS * 24):
        past.add(record(**most, builds=[]), NOW - hours * HOUR, anything, NOW)
    names = [{"key": key("a"), "function": f"{n}\U0001f600" * 200, "seconds": 1.0} for n in range(8000)]
    past.add(record(builds=names), NOW, anything, NOW)
    data = past.encode(NOW)
    assert len(data) < 2 << 20
    assert len(again(past).hours) == usage_sums.HOURS + usage_sums.DAYS - usage_sums.HOURS // 24


@given(json_values)
def test_whatever_is_said_of_the_past_there_is_one(value):
    for more in ({"hours": value}, {"functions": value, "hours": {"5": value}}):
        again(Past(usage.nothing(), more))


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"version": 2, "hours": {"1": []}}', b"[" * 100_000])
def test_another_version_is_begun_anew(tmp_path, data):
    store = open_store(tmp_path)
    (tmp_path / layout.USAGE_TOTAL).write_bytes(data)
    assert Past.read(store.path).hours == {}
    os.utime(store.write_usage(RECORD), (NOW - DAY, time.time() - DAY))
    assert usage_sums.fold(store.path, lambda _: True) == 1
    assert len(Past.read(store.path).hours) == 1


def test_folding_keeps_when_it_was(tmp_path):
    store = open_store(tmp_path)
    yesterday = time.time() - DAY
    for _ in range(3):
        os.utime(store.write_usage(RECORD), (yesterday, yesterday))
    store.write_usage(RECORD)
    assert usage_sums.fold(store.path, lambda _: True) == 3
    past = Past.read(store.path)
    assert [(each["hit_count"], each["processes"]) for each in past.hours.values()] == [(9, 3)]
    assert list(past.functions) == ["m:f (int64,)"]


def test_on_a_full_disk_nothing_counts_twice(tmp_path, monkeypatch):
    store = open_store(tmp_path)
    os.utime(store.write_usage(RECORD), (NOW - DAY, time.time() - DAY))
    usage_sums.fold(store.path, lambda _: True)
    os.utime(store.write_usage(RECORD), (NOW - DAY, time.time() - DAY))

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(usage_sums.atomic, "write_file", full)
    for _ in range(3):
        usage_sums.fold(store.path, lambda _: True)
    monkeypatch.undo()
    usage_sums.fold(store.path, lambda _: True)
    assert usage.merge(usage.read(store.path))["hit_count"] == 6
    assert sum(each["hit_count"] for each in Past.read(store.path).hours.values()) == 6


def test_beginning_to_count_anew_leaves_the_past(tmp_path):
    store = open_store(tmp_path)
    store.write_usage(RECORD)
    usage_sums.forget(store.path, lambda _: True)
    past = Past.read(store.path)
    assert (past.total["hit_count"], list(past.total["last_use"])) == (0, [key("a")])
    assert [each["hit_count"] for each in past.hours.values()] == [3]


def test_evictions_are_counted_by_whoever_evicts(tmp_path):
    store = open_store(tmp_path)
    for number in range(4):
        assert store.publish(header(str(number)), SECTIONS).ok
    size = sum(info.size for info in store.scan())
    plan = store.gc(size // 2)
    told = usage.merge(usage.read(store.path))
    assert (told["evicted"], told["evicted_bytes"], told["processes"]) == (len(plan.remove), plan.freed, 0)
    assert store.gc(size).remove == ()
    assert usage.merge(usage.read(store.path))["evicted"] == len(plan.remove)
    usage_sums.fold(store.path, lambda _: True, age=-1)
    assert [each["evicted_bytes"] for each in Past.read(store.path).hours.values()] == [plan.freed]


def test_reasons_beyond_the_most_are_counted_together(tmp_path):
    records = [usage.clean({"version": 1, "misses": {f"{n} {m}": 1 for m in range(100)}}) for n in range(10)]
    total = usage.clean(usage.merge(records))
    assert sum(total["misses"].values()) == 1000
    assert len(total["misses"]) <= reasons.MAX_REASONS
    assert reasons.brief(total)["misses"] == {"unusable": 1000}
    honest = usage.clean({"version": 1, "misses": {"new": 5, "damaged": 1}, "waits": {"inf": 2}})
    crowd = usage.clean({"version": 1, "waits": {f"w{n}": 1 for n in range(500)}})
    again = usage.clean(usage.merge([total, crowd, honest]))
    assert reasons.brief(again)["misses"] == {"unusable": 1000, "new": 5, "damaged": 1}
    assert again["waits"]["inf"] == 2
    assert len(again["waits"]) <= reasons.MAX_REASONS + 5


def test_waiting_is_counted_by_the_words_that_are_known():
    counters = counting.Counters()
    for seconds in (0.05, 0.5, 5.0, 50.0):
        counters.waited(seconds, came=seconds < 50)
    assert counters.snapshot()["waits"] == dict.fromkeys((*reasons.WAITS, reasons.IN_VAIN), 1)


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("new", "new"),
        ("damaged", "damaged"),
        ("internal error of nbcache", "fault"),
        ("a fault of nbcache", "fault"),
        ("<script>", "unusable"),
        ("", "unusable"),
    ],
)
def test_a_reason_is_one_of_a_few_words(reason, word):
    assert reasons.miss(reason) == word
    assert word in reasons.MISSES
    assert reasons.error(reason) in reasons.ERRORS
