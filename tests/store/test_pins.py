"""What a published name refers to is never evicted: by gc, tidy, clear, a daemon, or for want of room; nor by a race."""

import multiprocessing
import os
import time
from contextlib import contextmanager

import pytest
from storekit import SECTIONS, header, key, open_store

from nbcache.cli.main import main
from nbcache.errors import PublicationError
from nbcache.store import layout, locks, name_writing, pins
from nbcache.store.slots import NO_ROOM

MANIFEST = b"{}"
COUNT = 10
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def store(tmp_path):
    store = open_store(tmp_path / "cache", max_size=1)
    for number in range(COUNT):
        path = store.publish(header(number), SECTIONS, durable=False).path
        os.utime(path, (1000 + number, 1000 + number))
    # The first and least recently used ones, and one that an older version refers to.
    store.names.write("old", MANIFEST, [key(3)])
    store.names.write("old", MANIFEST, [key(0)])
    store.names.write("other", MANIFEST, [key(0), key(1)])
    return store


PINNED = [0, 1, 3]


def left(store):
    return [number for number in range(COUNT) if store.exists(key(number))]


def evict_by_gc(store):
    assert store.gc().pinned == len(PINNED)


def evict_by_tidying(store):
    store.tidy()
    os.utime(f"{store.path}/{layout.STAMP}", (1, 1))
    assert store.tidy(30.0)


def evict_by_clearing(store):
    assert store.clear()[0] == COUNT - len(PINNED)


EVICTIONS = [evict_by_gc, evict_by_tidying, evict_by_clearing]


@pytest.mark.parametrize("evict", EVICTIONS)
def test_what_a_name_refers_to_stays_until_it_is_taken_back(store, evict):
    evict(store)
    assert left(store) == PINNED
    store.names.remove("old")
    store.gc()
    assert left(store) == [0, 1]
    store.names.remove("other")
    store.gc()
    assert left(store) == []


def test_a_dry_run_says_what_would_stay(store):
    plan = store.gc(dry_run=True)
    assert (plan.pinned, len(plan.remove)) == (len(PINNED), COUNT - len(PINNED))
    assert left(store) == list(range(COUNT))


def test_versions_that_are_not_kept_any_more_pin_nothing(store):
    for _ in range(name_writing.KEPT):
        store.names.write("old", MANIFEST, [])
    store.gc()
    assert left(store) == [0, 1]  # one by "other", too
    store.names.write("old", MANIFEST, [])
    store.names.remove("other")
    store.gc()
    assert left(store) == []


@contextmanager
def held_elsewhere(store):
    """Another process publishes."""
    begun, over = FORK.Event(), FORK.Event()

    def hold():
        with open_store(store.path).lease(pins.ALONE):
            begun.set()
            over.wait(600)

    other = FORK.Process(target=hold)
    other.start()
    assert begun.wait(600)
    yield
    over.set()
    other.join()


def test_what_is_about_to_be_published_is_evicted_last(store):
    size = sum(os.path.getsize(info.path) for info in store.scan())
    store.names.renew([key(2), key("nowhere")])
    store.gc(size // 2)
    assert left(store) == [0, 1, 2, 3]


def test_nobody_evicts_while_somebody_publishes(store, monkeypatch):
    monkeypatch.setattr(pins, "PATIENCE_SECONDS", 0.0)
    with held_elsewhere(store):
        assert store.gc().problem == "another process publishes, or evicts"
        store.tidy()
        os.utime(f"{store.path}/{layout.STAMP}", (1, 1))
        store.tidy(30.0)
        assert store.clear() == (0, 0)
        assert left(store) == list(range(COUNT))
        with pytest.raises(PublicationError, match=f"new: others publish or evict for 0 s in {store.path}: try"):
            store.names.write("new", MANIFEST)
    assert len(store.gc().remove) == COUNT - len(PINNED)


def test_who_was_killed_while_publishing_keeps_nobody(store):
    begun = FORK.Event()

    def hold():
        _lease = open_store(store.path).lease(pins.ALONE)
        begun.set()
        time.sleep(600)

    other = FORK.Process(target=hold)
    other.start()
    assert begun.wait(600)
    other.kill()
    other.join()
    assert store.names.write("new", MANIFEST).version == 1


def _evict_without_end(path, over):
    store = open_store(path)
    while not over.is_set():
        store.gc(1)


def test_a_publish_and_a_gc_at_once_lose_nothing(tmp_path):
    store = open_store(tmp_path / "cache")
    over = FORK.Event()
    others = [FORK.Process(target=_evict_without_end, args=(store.path, over)) for _ in range(2)]
    for other in others:
        other.start()
    published = refused = 0
    try:
        while published < 100:
            store.publish(header(published), SECTIONS, durable=False)
            try:
                store.names.write(f"f{published}", MANIFEST, [key(published)])
            except pins.MissingError:
                refused += 1
                continue
            published += 1
    finally:
        over.set()
        for other in others:
            other.join()
    lost = [number for number in range(published) if not store.exists(key(number))]
    assert not lost, f"{len(lost)} of {published} were evicted though a name refers to them ({refused} were refused)"


def test_a_manifest_of_another_version_may_refer_to_anything(store, capsys):
    path = f"{store.path}/{layout.NAMES}/old.json"
    with open(path, "rb") as file:
        data = file.read()
    with open(path, "wb") as file:
        file.write(data.replace(b'{"nbcache-name":1,', b'{"nbcache-name":2,'))
    assert main(["gc", "--max-size", "1B", "--dir", store.path]) == 1
    said = capsys.readouterr()
    assert f"nothing is evicted: {path} is of another version of nbcache" in said.err
    assert left(store) == list(range(COUNT))


def test_a_manifest_of_a_stranger_or_a_damaged_one_pins_nothing(store):
    os.chmod(f"{store.path}/{layout.NAMES}/old.json", 0o666)
    with open(f"{store.path}/{layout.NAMES}/other.json", "wb") as file:
        file.write(b"garbage")
    store.gc()
    assert left(store) == [3]


def test_another_variant_takes_no_published_one_s_place(store):
    for number in range(1, layout.MAX_SLOTS):
        assert store.publish(header(0, guard=f"{number}"), SECTIONS).ok
    assert store.publish(header(0, guard="more"), SECTIONS).reason == NO_ROOM
    assert [found.header.guard for found in store.find(key(0))] == ["", *map(str, range(1, layout.MAX_SLOTS))]
    store.names.remove("old")
    store.names.remove("other")
    assert store.publish(header(0, guard="more"), SECTIONS).ok


def test_the_commands_say_what_stays(store, capsys):
    assert main(["gc", "--max-size", "1B", "--dir", store.path]) == 0
    assert (
        "3 of them belong to published functions and stay (`nbcache unpublish` frees them)" in capsys.readouterr().out
    )
    assert main(["clear", "--yes", "--dir", store.path]) == 0
    assert "3 entries stay, of published functions" in capsys.readouterr().out


def test_files_are_collected_with_what_is_swept(store):
    kept, lost = store.names.files.add(b"kept"), store.names.files.add(b"lost")
    store.names.write("image", MANIFEST, [], [kept])
    for digest in (kept, lost):
        os.utime(store.names.files.opened(digest)[0], (1, 1))
    assert store.sweep() == 1
    assert store.names.files.read(kept) == b"kept"
    store.names.remove("image")
    assert store.sweep() == 1


def test_on_a_network_filesystem_a_lease_file_does_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "filesystem_kind", lambda _: "nfs4")
    store = open_store(tmp_path / "cache")
    store.publish(header("a"), SECTIONS)
    for version in (1, 2):
        assert store.names.write("f", MANIFEST, [key("a")]).version == version
    assert store.gc(1).problem is None
    assert store.exists(key("a"))
    monkeypatch.setattr(pins, "PATIENCE_SECONDS", 0.0)
    with held_elsewhere(store):
        assert store.gc(1).problem == "another process publishes, or evicts"
    assert os.listdir(f"{store.path}/{layout.LEASES}") == []
