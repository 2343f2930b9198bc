"""Reading through, with tiers in memory: what comes in, and what doesn't although it is signed."""

import pytest
from nbtest import spoiling
from storekit import SECTIONS, header, key, open_store

from nbcache import signing_keys
from nbcache.keyring import Keyring
from nbcache.protocol import helper
from nbcache.remote import objects
from nbcache.remote.reading import Reading
from nbcache.remote.tiers import Got
from nbcache.store import entry

KEY = signing_keys.generate("ours")
RING = Keyring([str(KEY.public)])


class Tier:
    """A tier in memory."""

    def __init__(self, label="memory://"):
        self.label = label
        self.objects = {}
        self.bad = set()

    def get(self, name, seconds, *, patient=False):
        return Got(self.objects.get(name))

    def distrust(self, name):
        self.bad.add(name)

    def hold(self, data, slot=0):
        self.objects[objects.name_of(key("a"), slot)] = data


@pytest.fixture
def tier():
    return Tier()


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path, trusted_keys=(str(KEY.public),))


def signed(**fields):
    made = header("a", **fields)
    return entry.encode(made._replace(signed=(objects.sign(KEY, made, SECTIONS),)), SECTIONS)


def condemn(store, data):
    """Have two programs crash with an entry."""
    spoiling.condemn(store.path, entry.parse(data).digest, key("a"))


def fetch(store, *tiers, slot=0, copied=None):
    reading = Reading(store, RING, tiers, lambda *what: None if copied is None else copied.append(what))
    return reading.fetch(key("a"), slot), reading


def test_what_comes_is_compressed_there_and_as_it_was_here(store, tier):
    tier.hold(objects.pack(signed()))
    assert fetch(store, tier)[0].state == helper.CAME
    (found,) = store.find(key("a"))
    assert {name: found.section(name) for name in found.section_sizes} == SECTIONS


@pytest.mark.parametrize("data", [signed(), objects.pack(signed())[:8] + b"\x01\0\0\0" + b"x" * 999])
def test_what_another_version_wrote_is_not_there_and_nothing_is_wrong(store, tier, data):
    tier.hold(data)
    done, reading = fetch(store, tier)
    assert (done.state, done.why, reading.refused, tier.bad) == (helper.MISSING, "", {}, set())
    # And gives way to what a slower tier has.
    slow, copied = Tier("slow://"), []
    slow.hold(objects.pack(signed()))
    assert fetch(store, tier, slow, copied=copied)[0].state == helper.CAME
    assert [each[0] for each in copied] == [tier]


def test_what_is_refused_is_in_no_upload_s_way(store, tier):
    tier.hold(objects.pack(signed())[:-1])
    assert fetch(store, tier)[0].state == helper.REFUSED
    assert tier.bad == set(tier.objects)


def test_what_programs_of_this_host_crashed_with_does_not_come_back(store, tier):
    bad = signed()
    tier.hold(objects.pack(bad))
    condemn(store, bad)
    done, reading = fetch(store, tier)
    assert done.state == helper.MISSING and list(store.find(key("a"))) == []
    assert reading.refused == {objects.CRASHED: 1} and tier.bad == set(tier.objects)


def test_behind_what_programs_crashed_with_there_may_be_another_variant(store, tier):
    bad = signed()
    tier.hold(objects.pack(bad))
    tier.hold(objects.pack(signed(guard="other")), slot=1)
    condemn(store, bad)
    done, _ = fetch(store, tier)
    assert (done.state, done.slot) == (helper.CAME, 1)
    assert [each.header.guard for each in store.find(key("a"))] == ["other"]


def test_what_was_built_again_takes_the_place_of_what_programs_crashed_with(store, tier):
    bad = signed()
    tier.hold(objects.pack(bad))
    assert fetch(store, tier)[0].state == helper.CAME
    condemn(store, bad)
    tier.hold(objects.pack(signed(build="c" * 16)))
    assert fetch(store, tier)[0].state == helper.CAME
    assert [each.header.build for each in store.find(key("a"))] == ["c" * 16]
    # What is there and sound stays.
    tier.hold(objects.pack(signed(build="d" * 16)))
    assert fetch(store, tier)[0].state == helper.MISSING
