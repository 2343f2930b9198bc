"""Lanes: whose profiles they go through, when they make room, and when they go on."""

import os

import pytest

from nbcache.daemon import lanes
from nbcache.errors import NbcacheError
from nbcache.protocol import profiles, requests
from nbcache.protocol.profiles import Head, Profile, Unit
from nbcache.store import layout
from storekit import open_store

NAME = "ab" * 16
BOB, MALLORY = 12345, 12346


def lane(uid, of=BOB, key="1" * 64):
    return requests.Request(
        key=key, kind=requests.PROFILE, function="profile:main.py", signature="",
        types={"uid": of, "package": "", "lane": 0}, source=NAME, value=None, modules=(), path=(), interpreter="",
        settings={}, toolchain="", components=(), created=1.0, host="h", pid=1, uid=uid,
    )  # fmt: skip


@pytest.fixture
def store(place):
    return open_store(place / "store", trusted_uids=frozenset({BOB, MALLORY}))


@pytest.fixture
def bobs(store):
    """The path of a profile of Bob's."""
    if os.geteuid() != 0:
        pytest.skip("gives files away")
    unit = Unit("dispatcher", "lib:f", "()", {"version": 1}, (), None, "0" * 64, 5.0)
    profiles.write(store.path, NAME, Profile(Head("main.py", {}, "", 1.0), [unit]))
    mine, his = f"{store.path}/{layout.PROFILES}/{os.geteuid()}", f"{store.path}/{layout.PROFILES}/{BOB}"
    os.rename(mine, his)
    for each in (his, f"{his}/{NAME}.jsonl"):
        os.chown(each, BOB, -1)
    return f"{his}/{NAME}.jsonl"


@pytest.mark.parametrize("closed", ["file", "directory"])
def test_a_profile_that_others_may_not_read_is_for_its_owner_alone(store, bobs, closed):
    os.chmod(bobs, 0o644)
    assert "lib:f" in lanes.profile_of(lane(MALLORY), store)
    if closed == "file":
        os.chmod(bobs, 0o600)
    else:
        os.chmod(os.path.dirname(bobs), 0o700)
    for uid in (BOB, 0):
        assert "lib:f" in lanes.profile_of(lane(uid), store)
    with pytest.raises(NbcacheError, match="no such profile"):
        lanes.profile_of(lane(MALLORY), store)


def test_who_may_read_a_profile_is_for_the_umask_to_say(store):
    before = os.umask(0o027)
    try:
        profiles.write(store.path, NAME, Profile(Head("main.py", {}, "", 1.0)))
    finally:
        os.umask(before)
    path = f"{store.path}/{layout.PROFILES}/{os.geteuid()}/{NAME}.jsonl"
    assert os.stat(path).st_mode & 0o777 == 0o640
