"""Usage records: what is written, what is believed, and that they don't pile up."""

import json
import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from storekit import key, mode, open_store

from nbcache.store import layout, usage

RECORD = {
    "start": 100.0,
    "end": 200.0,
    "argv0": "prog",
    "hits": {key("a"): 2, key("b"): 1},
    "saved_seconds": 1.5,
    "builds": [{"key": key("c"), "function": "m:f", "seconds": 0.5}],
    "built_seconds": 0.5,
    "misses": {"absent": 3},
    "uncacheable": {"a pointer": {"count": 2, "functions": ["m:g"]}},
    "errors": {"lock": 1},
    "published": 1,
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path)


def junk(store, name, data=b"{}"):
    path = f"{store.path}/{layout.USAGE}/{name}"
    with open(path, "wb") as file:
        file.write(data)
    return path


def test_what_was_written_is_read(store):
    path = store.write_usage(RECORD)
    assert mode(path) == 0o644
    (record,) = usage.read(store.path)
    assert {name: record[name] for name in RECORD} == RECORD
    assert (record["pid"], record["host"]) == (os.getpid(), os.path.basename(path).split(f"-{os.getpid()}-")[0])
    assert (record["hit_count"], record["builds_count"], record["processes"]) == (3, 1, 1)
    assert set(record["last_use"]) == {key("a"), key("b")}
    assert abs(record["last_use"][key("a")] - time.time()) < 60


@given(json_values)
def test_cleaning_anything_gives_a_record_or_none(value):
    assert usage.clean(value) is None


@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys([*RECORD, "pid", "host", "processes", "hit_count"], json_values))
)
def test_any_field_may_be_garbage(fields):
    record = usage.clean({**fields, "version": usage.VERSION})
    json.dumps(usage.merge([record, record]), allow_nan=False)
    assert usage.clean(record) == record


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"version": 2}', b'{"version": "1"}', b"1" * 5000],
)
def test_garbage_files_are_skipped(store, data):
    junk(store, "garbage.json", data)
    store.write_usage(RECORD)
    assert len(list(usage.read(store.path))) == 1


def test_odd_files_are_skipped(store, tmp_path):
    directory = f"{store.path}/{layout.USAGE}"
    os.mkfifo(f"{directory}/fifo.json")
    os.mkdir(f"{directory}/directory.json")
    (tmp_path / "outside").write_text(json.dumps({**RECORD, "version": 1}))
    os.symlink(tmp_path / "outside", f"{directory}/link.json")
    junk(store, ".hidden.json", json.dumps({"version": 1}).encode())
    junk(store, "text.txt", json.dumps({"version": 1}).encode())
    junk(store, "large.json", b'{"version": 1}' + b" " * usage.MAX_RECORD)
    assert list(usage.read(store.path)) == []


def test_a_record_is_bounded(store):
    huge = {**RECORD, "builds": [{"key": key("c"), "function": "f" * 300, "seconds": 1.0}] * 20_000}
    path = store.write_usage(huge)
    assert os.stat(path).st_size <= usage.MAX_RECORD
    (record,) = usage.read(store.path)
    assert record["builds"] == []
    assert record["hits"] == RECORD["hits"]
    hits = {key(number): 1 for number in range(20_000)}
    path = store.write_usage({**RECORD, "hits": hits, "hit_count": 20_000})
    assert os.stat(path).st_size <= usage.MAX_RECORD
    assert store.write_usage({"argv0": "x" * (1 << 21)}) is None
    assert store.write_usage({"odd": object()}) is None


def test_folding_keeps_the_sums_and_the_last_uses(store):
    for number in range(5):
        path = store.write_usage(RECORD)
        os.utime(path, (1000 + number, 1000 + number))
    fresh = store.write_usage(RECORD)
    before = usage.merge(usage.read(store.path))
    assert usage.fold(store.path, lambda name: name != key("b")) == 5
    assert os.listdir(f"{store.path}/{layout.USAGE}") == [os.path.basename(fresh)]
    total = usage.read_total(store.path)
    assert total["last_use"] == {key("a"): 1004.0}
    assert total["processes"] == 5
    after = usage.merge(usage.read(store.path))
    assert {**after, "last_use": 0} == {**before, "last_use": 0}
    assert after["hit_count"] == 18
    assert usage.last_use(usage.read(store.path))[key("a")] > 1e9
    # Again, on top of what was folded.
    os.utime(fresh, (1, 1))
    assert usage.fold(store.path, lambda _: True) == 1
    assert usage.merge(usage.read(store.path))["hit_count"] == 18
    assert usage.fold(store.path, lambda _: True) == 0


def test_folding_a_part(store):
    for _ in range(5):
        os.utime(store.write_usage(RECORD), (1, 1))
    assert [usage.fold(store.path, lambda _: True, most=2) for _ in range(4)] == [2, 2, 1, 0]
    assert usage.merge(usage.read(store.path))["processes"] == 5


def test_folding_discards_old_garbage_but_not_new(store):
    old, new = junk(store, "old.json", b"x"), junk(store, "new.json", b"x")
    os.utime(old, (1, 1))
    assert usage.fold(store.path, lambda _: True) == 0
    assert not os.path.exists(old)
    assert os.path.exists(new)


def test_a_damaged_sum_is_replaced(store):
    with open(f"{store.path}/{layout.USAGE_TOTAL}", "wb") as file:
        file.write(b"{broken")
    os.utime(store.write_usage(RECORD), (1, 1))
    assert usage.fold(store.path, lambda _: True) == 1
    assert usage.read_total(store.path)["hit_count"] == 3


def test_folding_without_permission_changes_nothing(store, monkeypatch):
    os.utime(store.write_usage(RECORD), (1, 1))
    monkeypatch.setattr(usage.atomic, "write_file", lambda *_, **__: (_ for _ in ()).throw(OSError(13, "no")))
    assert usage.fold(store.path, lambda _: True) == 0
    assert len(list(usage.read(store.path))) == 1


def test_gc_folds(store):
    os.utime(store.write_usage(RECORD), (1, 1))
    store.gc()
    assert os.listdir(f"{store.path}/{layout.USAGE}") == []
    assert usage.read_total(store.path)["last_use"] == {}


def test_no_store_no_records(tmp_path):
    assert list(usage.read(str(tmp_path / "none"))) == []
    assert usage.write(str(tmp_path / "none"), RECORD) is None
    assert usage.fold(str(tmp_path / "none"), lambda _: True) == 0
