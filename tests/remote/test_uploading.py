"""Writing behind: bounded, never in anybody's way, and nothing is uploaded that isn't signed."""

import threading
from types import SimpleNamespace

import pytest
from nbtest import spoiling
from storekit import SECTIONS, header, key, open_store

from nbcache import signing_keys
from nbcache.keyring import Keyring
from nbcache.remote import bundles, objects, transfer, uploading
from nbcache.remote.tiers import Got
from nbcache.remote.uploading import MAX_WAITING, UPLOADERS, Uploading
from nbcache.store import entry

KEY = signing_keys.generate("ours")


class Tier:
    """A tier in memory, whose door can be held shut."""

    label, readonly, writable = "memory://", False, True

    def __init__(self):
        self.objects = {}
        self.fetched = 0
        self.open = threading.Event()
        self.open.set()

    def get(self, name, seconds, *, patient=False):
        self.fetched += 1
        return Got(self.objects.get(name))

    def head(self, name, seconds, *, patient=False):
        found = self.objects.get(name)
        return Got(None if found is None else found[: objects.HEAD_BYTES])

    def put(self, name, data):
        self.open.wait()
        self.objects[name] = data
        return ""


@pytest.fixture
def tier():
    made = Tier()
    yield made
    made.open.set()


def store_with(path, *names, **fields):
    store = open_store(path, trusted_keys=(str(KEY.public),))
    for name in names:
        assert store.publish(header(name, **fields), SECTIONS).ok
    return store


def make(store, tier, secret=KEY):
    return Uploading(store, Keyring([str(KEY.public)]), [tier], secret)


def test_what_is_offered_is_signed_and_stored(tmp_path, tier):
    made = make(store_with(tmp_path, "a"), tier)
    made.offer(key("a"))
    assert made.drain(600)
    (data,) = tier.objects.values()
    admitted = objects.admit(objects.unpack(data), key("a"), Keyring([str(KEY.public)]))
    assert admitted.sections == SECTIONS
    assert made.upload(key("a")) == {"already there": 1}
    assert tier.fetched == 0


def test_variants_lie_side_by_side_and_what_cannot_be_used_makes_room(tmp_path, tier):
    store = store_with(tmp_path, "a")
    assert store.publish(header("a", guard="other"), SECTIONS).ok
    tier.objects[objects.name_of(key("a"), 0)] = b"something that somebody else put there"
    assert make(store, tier).upload(key("a")) == {"stored": 2}
    assert set(tier.objects) == {objects.name_of(key("a"), slot) for slot in (0, 1)}


def test_what_lies_there_is_left_unless_nobody_could_use_it(tmp_path, tier):
    """By its beginning alone: of what is there already, nothing else is fetched."""
    first = make(store_with(tmp_path / "first", "a"), tier)
    assert first.upload(key("a")) == {"stored": 1}
    (name, lies) = next(iter(tier.objects.items()))
    store = store_with(tmp_path / "second", "a", build="c" * 16)
    second = make(store, tier)
    assert second.upload(key("a")) == {"already there": 1}
    # What only revoked keys signed.
    stranger = signing_keys.generate("stranger")
    assert make(store, tier, stranger).upload(key("a")) == {"already there": 1}
    alone = Uploading(store, Keyring([str(stranger.public)]), [tier], stranger)
    assert alone.upload(key("a")) == {"stored": 1} and tier.objects[name] != lies
    tier.objects[name] = lies
    # What programs of this host crashed with.
    spoiling.condemn(tmp_path / "second", objects.read_head(lies).digest, key("a"))
    assert second.upload(key("a")) == {"stored": 1}
    assert objects.unpack(tier.objects[name]) != objects.unpack(lies)
    assert tier.fetched == 0


def test_who_looks_at_the_whole_of_what_lies_there_replaces_what_nobody_could_take(tmp_path, tier):
    made = make(store_with(tmp_path, "a"), tier)
    assert made.upload(key("a"), whole=True) == {"stored": 1}
    (name, well) = next(iter(tier.objects.items()))
    stranger = signing_keys.generate(KEY.name)
    found = objects.open_entry(objects.unpack(well))
    (ours,) = found.header.signed
    (wrong,) = (objects.sign(stranger, found.header, found.sections),)
    forged = entry.encode(found.header._replace(signed=(ours._replace(value=wrong.value),)), found.sections)
    assert made.upload(key("a"), whole=True) == {"already there": 1}
    # Each has a beginning with which nothing is wrong.
    for spoiled in (well[:-1], well[:-9] + bytes(9), well[: objects.HEAD_BYTES], objects.pack(forged)):
        tier.objects[name] = spoiled
        assert made.upload(key("a")) == {"already there": 1}
        assert made.upload(key("a"), whole=True) == {"stored": 1}
        assert tier.objects[name] == well


def test_what_cannot_be_fetched_whole_is_what_its_beginning_says(tmp_path, tier, monkeypatch):
    made = make(store_with(tmp_path, "a"), tier)
    assert made.upload(key("a")) == {"stored": 1}
    monkeypatch.setattr(tier, "get", lambda *_, **__: Got(None, "it is too large to be fetched in time"))
    assert made.upload(key("a"), whole=True) == {"already there": 1}


def test_the_index_of_others_stays_where_it_cannot_be_read(tmp_path, tier, monkeypatch):
    made = make(store_with(tmp_path, "a", "b"), tier)
    helper = SimpleNamespace(uploading=made, tiers=[tier])
    assert transfer.push(helper, [key("a")], lambda: None) == ({"stored": 1}, set())
    with monkeypatch.context() as patched:
        patched.setattr(tier, "get", lambda *_, **__: Got(None, "it doesn't answer in time"))
        assert transfer.push(helper, [key("b")], lambda: None) == (
            {"stored": 2, "failed": 1},
            {"it doesn't answer in time"},
        )
    assert transfer.known(helper) == [key("a")]
    transfer.push(helper, [key("b")], lambda: None)
    assert transfer.known(helper) == [key("b"), key("a")]


def test_what_is_of_no_use_to_other_hosts_stays(tmp_path, tier):
    made = make(store_with(tmp_path, "a", extra={"here": True}), tier)
    made.offer(key("a"))
    assert made.drain(600) and tier.objects == {}
    assert list(bundles.of_store(open_store(tmp_path), KEY, None)) == []


def test_the_queue_is_bounded_and_what_finds_no_room_is_counted(tmp_path, tier):
    names = [f"n{n}" for n in range(MAX_WAITING + UPLOADERS + 5)]
    made = make(open_store(tmp_path), tier)
    tier.open.clear()
    for name in names:
        made.copy(tier, name, b"x")
    assert made.waiting <= MAX_WAITING + UPLOADERS
    assert 5 <= made.counts["dropped"] <= 5 + UPLOADERS
    assert not made.drain(0.05)
    tier.open.set()
    assert made.drain(600)
    assert len(tier.objects) + made.counts["dropped"] == len(names)


def test_its_size_is_bounded(tmp_path, tier, monkeypatch):
    monkeypatch.setattr(uploading, "MAX_BYTES", 1000)
    made = make(open_store(tmp_path), tier)
    tier.open.clear()
    for n in range(20):
        made.copy(tier, f"n{n}", b"x" * 300)
    assert made.waiting <= 3 + UPLOADERS
    assert made.counts["dropped"] >= 20 - 3 - UPLOADERS


def test_nothing_is_uploaded_without_a_key(tmp_path, tier):
    made = make(store_with(tmp_path, "a"), tier, None)
    made.offer(key("a"))
    assert made.drain(600)
    assert tier.objects == {} and made.counts["unsigned"] == 1


def test_what_came_from_elsewhere_keeps_its_signatures_and_gets_no_other(tmp_path, tier):
    other = signing_keys.generate("other")
    trusted = (str(KEY.public), str(other.public))
    store = open_store(tmp_path, trusted_keys=trusted)
    own = header("a")
    assert store.publish(own._replace(signed=(objects.sign(other, own, SECTIONS),)), SECTIONS).ok
    Uploading(store, Keyring(trusted), [tier], KEY).upload(key("a"))
    (data,) = tier.objects.values()
    admitted = objects.admit(objects.unpack(data), key("a"), Keyring(trusted))
    assert [each.name for each in admitted.header.signed] == ["other"]


def test_what_programs_crashed_with_goes_to_nobody(tmp_path, tier):
    store = store_with(tmp_path, "a", "b")
    (found,) = store.find(key("a"))
    spoiling.condemn(tmp_path, found.digest, key("a"))
    made = make(store, tier)
    assert made.upload(key("a")) == {} and made.upload(key("b")) == {"stored": 1}
    assert len(list(bundles.of_store(store, KEY, store.keyring))) == 1
    assert not store.holds(key("a")) and store.holds(key("b"))
