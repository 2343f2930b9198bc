"""Usage records: what is written, what is believed, and that they don't pile up."""

import json
import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbtest.usage import load, paths
from storekit import key, mode, open_store

from nbcache import process
from nbcache.store import directory, layout, usage, usage_sums

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
    "waits": {"0.1": 2, "in vain": 1},
    "waited_seconds": 0.25,
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


def test_a_record_that_went_stale_is_none(store, monkeypatch):
    store.write_usage(RECORD)
    (path,) = paths(store.path)
    assert load(path) is not None

    # Fails for a file, and in C: what Python code raises here counts as the program's.
    with monkeypatch.context() as patched:
        patched.setattr(process.os, "fstat", os.listdir)
        found = load(path)
    assert found is None


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
    assert usage_sums.fold(store.path, lambda name: name != key("b")) == 5
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
    assert usage_sums.fold(store.path, lambda _: True) == 1
    assert usage.merge(usage.read(store.path))["hit_count"] == 18
    assert usage_sums.fold(store.path, lambda _: True) == 0


def test_folding_a_part(store, monkeypatch):
    for _ in range(5):
        os.utime(store.write_usage(RECORD), (1, 1))
    monkeypatch.setattr(usage, "MAX_RECORDS", 2)
    assert [usage_sums.fold(store.path, lambda _: True) for _ in range(4)] == [2, 2, 1, 0]
    monkeypatch.undo()
    assert usage.merge(usage.read(store.path))["processes"] == 5


def test_folding_discards_old_garbage_but_not_new(store):
    old, new = junk(store, "old.json", b"x"), junk(store, "new.json", b"x")
    os.utime(old, (1, 1))
    assert usage_sums.fold(store.path, lambda _: True) == 0
    assert not os.path.exists(old)
    assert os.path.exists(new)


def test_a_damaged_sum_is_replaced(store):
    with open(f"{store.path}/{layout.USAGE_TOTAL}", "wb") as file:
        file.write(b"{broken")
    os.utime(store.write_usage(RECORD), (1, 1))
    assert usage_sums.fold(store.path, lambda _: True) == 1
    assert usage.read_total(store.path)["hit_count"] == 3


def old(store, count, **fields):
    """Records of long ago; their paths."""
    paths = [store.write_usage({**RECORD, **fields}) for _ in range(count)]
    for path in paths:
        os.utime(path, (1, 1))
    return paths


class Meter:
    """How much was read of records, by counting what is parsed."""

    def __init__(self, monkeypatch):
        self.bytes = self.files = 0
        read = usage.content.read_up_to

        def read_up_to(fd, most):
            data = read(fd, most)
            self.bytes, self.files = self.bytes + len(data), self.files + 1
            return data

        monkeypatch.setattr(usage.content, "read_up_to", read_up_to)


def end_of_a_process(store, seconds=3600):
    """What a process does at its end, in its turn; time is as good as unlimited, so that only the rest counts."""
    stamp = f"{store.path}/{layout.STAMP}"
    with open(stamp, "w"):
        pass
    os.utime(stamp, (1, 1))
    assert store.tidy(seconds)
    return time.time() - os.stat(stamp).st_mtime


LARGE = {"argv0": "x" * (usage.MAX_RECORD - 1000)}


def test_the_end_of_a_process_reads_so_much_and_no_more(store, monkeypatch):
    paths = old(store, 40, **LARGE)
    meter = Meter(monkeypatch)
    since = end_of_a_process(store)
    assert 4 << 20 < meter.bytes <= 16 << 20
    left = sum(map(os.path.exists, paths))
    assert left == 40 - meter.files
    # Somebody else goes on soon, and gets to the end.
    assert since > directory.TIDY_SECONDS - 2 * directory.RESUME_SECONDS
    for _ in range(6):
        end_of_a_process(store)
    assert not any(map(os.path.exists, paths))
    assert usage.read_total(store.path)["processes"] == 40
    assert end_of_a_process(store) < directory.TIDY_SECONDS / 2


def test_the_end_of_a_process_without_time_reads_nothing(store, monkeypatch):
    old(store, 40)
    meter = Meter(monkeypatch)
    end_of_a_process(store, 0)
    assert meter.files == 0


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: changes owners")
def test_the_end_of_a_process_is_not_for_strangers(store, monkeypatch):
    for path in old(store, 20):
        os.chown(path, 4321, 4321)
    writable = old(store, 1)[0]
    os.chmod(writable, 0o666)
    meter = Meter(monkeypatch)
    end_of_a_process(store)
    assert meter.files == 0
    # For whoever keeps the store, what they did counts.
    store.gc()
    assert meter.files == 21 + 1
    assert usage.read_total(store.path)["processes"] == 21


def test_a_sum_that_is_too_large_for_the_end_of_a_process_is_left_alone(store):
    uses = {key(number): 1.0 for number in range(40_000)}
    with open(f"{store.path}/{layout.USAGE_TOTAL}", "w") as file:
        json.dump({"version": usage.VERSION, "processes": 7, "last_use": uses}, file)
    (path,) = old(store, 1)
    end_of_a_process(store)
    assert os.path.exists(path)
    store.gc()
    assert usage.read_total(store.path)["processes"] == 8


def test_folding_in_steps(store, monkeypatch):
    monkeypatch.setattr(usage_sums, "FOLD_STEP", 4 << 20)
    old(store, 10, **LARGE)
    sums = []
    write = usage.atomic.write_file
    monkeypatch.setattr(usage.atomic, "write_file", lambda path, *a, **b: sums.append(path) or write(path, *a, **b))
    assert usage_sums.fold_all(store.path, lambda _: True) == 10
    assert sums.count(f"{store.path}/{layout.USAGE_TOTAL}") == 3
    assert usage.read_total(store.path)["processes"] == 10


def test_keys_that_nobody_has_are_not_kept(store):
    for number in range(5):
        old(store, 1, hits={key((number, each)): 1 for each in range(2000)} | {key(): 1})
    used = usage.last_use(usage.read(store.path), {key()}.__contains__)
    assert set(used) == {key()}
    asked = []
    usage_sums.fold(store.path, lambda name: asked.append(name) or name == key())
    assert set(usage.read_total(store.path)["last_use"]) == {key()}
    assert len(asked) <= 10_000 + 2


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become somebody else")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_what_cannot_be_removed_is_not_counted_twice(place):
    """In a sticky directory, a writer who isn't its owner removes its own records alone."""
    store = open_store(place / "store")
    old(store, 3)
    os.chmod(f"{store.path}/v1", 0o777)
    child = os.fork()
    if child == 0:
        try:
            os.setuid(65534)
            theirs = old(store, 1)
            os._exit(0 if usage_sums.fold(store.path, lambda _: True) == 1 and not os.path.exists(theirs[0]) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(paths(store.path)) == 3
    assert usage.read_total(store.path)["processes"] == 1


def test_folding_without_permission_changes_nothing(store, monkeypatch):
    os.utime(store.write_usage(RECORD), (1, 1))
    monkeypatch.setattr(usage.atomic, "write_file", lambda *_, **__: (_ for _ in ()).throw(OSError(13, "no")))
    assert usage_sums.fold(store.path, lambda _: True) == 0
    assert len(list(usage.read(store.path))) == 1


def test_gc_folds(store):
    os.utime(store.write_usage(RECORD), (1, 1))
    store.gc()
    assert os.listdir(f"{store.path}/{layout.USAGE}") == []
    assert usage.read_total(store.path)["last_use"] == {}


def test_no_store_no_records(tmp_path):
    assert list(usage.read(str(tmp_path / "none"))) == []
    assert usage.write(str(tmp_path / "none"), RECORD) is None
    assert usage_sums.fold(str(tmp_path / "none"), lambda _: True) == 0
