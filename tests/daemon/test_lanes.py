"""Lanes: whose profiles they go through, when they make room, and when they go on."""

import os
import time
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from storekit import SECTIONS, header, open_store

from nbcache.daemon import building, lanes, whose_turn
from nbcache.daemon.building import Building
from nbcache.daemon.publisher import Claims, Publisher, Ticket
from nbcache.daemon.service import Service
from nbcache.daemon.shared_parts import Sparing
from nbcache.errors import NbcacheError
from nbcache.protocol import profiles, requests
from nbcache.protocol.profiles import Head, Profile, Unit
from nbcache.store import entry, layout

NAME = "ab" * 16
BOB, MALLORY = 12345, 12346


def lane(uid, of=BOB, key=layout.reserved("1")):
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


KEY = "5a" * 32


def job(request, *paths, claims=None, running=False):
    made = whose_turn.Job(request, set(map(str, paths)), time.monotonic())
    made.future, made.claims = Future() if running else None, claims
    made.started = time.monotonic() - 2 * lanes.TURN_SECONDS
    return made


def function(uid, key=KEY):
    return lane(uid)._replace(kind="dispatcher", function="lib:f", key=key)


def daemon_with(*jobs, **more):
    """What a daemon's parts have in common that has these jobs."""
    found = whose_turn.Jobs()
    for each in jobs:
        found.begin(each)
    return SimpleNamespace(_commons=SimpleNamespace(jobs=found, **more), _farm=None)


def test_what_a_lane_has_claimed_nobody_else_s_job_takes_for_all(store):
    bobs = job(lane(BOB), claims=Claims(lambda: store), running=True)
    mallorys = job(function(MALLORY))
    daemon = daemon_with(bobs, mallorys)
    assert bobs.claims.take(KEY)
    assert Building._waited_for(daemon, KEY) == {BOB, MALLORY}
    assert Building._waited_for(daemon, "6" * 64) == set()
    daemon._commons.jobs.over(mallorys)
    publisher = Publisher(lambda: store, None, lambda key: Building._waited_for(daemon, key))
    data = entry.encode(header(key=KEY), SECTIONS)
    theirs, his = Ticket("", asked=MALLORY, built=MALLORY), Ticket("", asked=BOB, built=BOB)
    assert publisher.take(theirs, lambda _most: data).ok
    assert publisher.take(his, lambda _most: data).ok
    [found] = store.find(KEY)
    assert found.header.extra["asked"] == BOB
    assert (theirs.admitted, his.admitted) == (1, 1)


def test_a_lane_claims_nothing_that_another_user_asked_for(store, bobs):
    begun = job(lane(BOB))
    daemon = daemon_with(begun, job(function(MALLORY)), job(function(BOB, "6" * 64)), store=store)
    ticket = Ticket("", asked=BOB)
    assert "lib:f" in Building._begin_lane(daemon, begun, ticket)
    assert ticket.claims.take(KEY) is None
    assert ticket.claims.take("6" * 64)
    assert begun.claims is ticket.claims
    daemon._farm = "tls://scheduler"
    with pytest.raises(NbcacheError, match="farm"):
        Building._begin_lane(daemon, begun, ticket)


def test_an_entry_under_the_key_of_a_request_for_a_profile_is_no_answer_to_it(store):
    store.publish(header(key=lane(BOB).key), SECTIONS)
    daemon = daemon_with(store=store)
    assert not Service._is_settled(daemon, lane(BOB))
    assert not Building._is_held(daemon, job(lane(BOB)))
    assert Building._is_held(daemon, job(function(BOB, lane(BOB).key)))


@pytest.mark.parametrize("started", [0.0, -2 * lanes.TURN_SECONDS])
def test_a_lane_makes_room_for_functions_at_once_and_for_anothers_first_lane_after_its_turn(started):
    mine = job(lane(MALLORY), claims=Claims(lambda: None), running=True)
    mine.started = time.monotonic() + started
    lanes.make_room([mine, job(lane(MALLORY, key=layout.reserved("2")))], 0)
    assert not mine.claims.stop
    lanes.make_room([mine, job(lane(BOB, key=layout.reserved("2")))], 0)
    assert mine.claims.stop is (started < 0)
    lanes.make_room([mine, job(lane(BOB, key=layout.reserved("2")))], 1)
    assert not mine.claims.stop
    lanes.make_room([mine, job(function(BOB))], 0)
    assert mine.claims.stop


def test_a_lane_that_nobody_asked_for_makes_room_for_whatever_somebody_has():
    asked_for, unasked = (job(lane(BOB), claims=Claims(lambda: None), running=True) for _ in range(2))
    unasked.unasked = True
    waiting = job(lane(BOB, key=layout.reserved("2")))
    lanes.make_room([asked_for, unasked, waiting], 0)
    assert (asked_for.claims.stop, unasked.claims.stop) == (False, True)
    lanes.make_room([asked_for, unasked, waiting], 1)
    assert not unasked.claims.stop
    waiting.asked -= 2 * whose_turn.FRESH_SECONDS
    lanes.make_room([asked_for, unasked, waiting], 0)
    assert not unasked.claims.stop
    unasked.superseded = True
    lanes.make_room([unasked], 1)
    assert unasked.claims.stop


def test_what_has_no_use_for_a_worker_stops_no_lane(store):
    mine = job(lane(BOB), claims=Claims(lambda: store), running=True)
    refused = job(function(BOB, "6" * 64))
    refused.refused = time.monotonic()
    assert mine.claims.take(KEY)
    lanes.make_room([mine, refused, job(function(BOB))], 0)
    assert not mine.claims.stop
    refused.refused -= 2 * lanes.REFUSED_SECONDS
    lanes.make_room([mine, refused], 0)
    assert mine.claims.stop


def ended(of, said, admitted=0):
    future = Future()
    future.set_result(said)
    of.ticket = Ticket("", admitted=admitted)
    return lanes.goes_on(of, future)


def test_a_lane_goes_on_as_long_as_it_brings_something_and_is_asked_for(place):
    (place / "request").touch()
    mine = job(lane(BOB), place / "request")
    for admitted in (0, 0, 1, 0, 0):
        mine.attempts += 1
        assert ended(mine, {"built": 1, "more": True}, admitted)
    mine.attempts += 1
    assert not ended(mine, {"built": 10**9, "more": True})
    assert not ended(mine, {"built": 1, "more": False}, 1)
    assert ended(mine, {"built": 1, "more": True}, 1)
    (place / "request").unlink()
    assert not ended(mine, {"built": 1, "more": True}, 1)
    mine.unasked, asked = True, mine.asked
    assert ended(mine, {"built": 1, "more": True}, 1)
    assert mine.asked == asked


def test_what_ends_as_soon_as_it_begins_takes_a_part_of_a_turn(store, monkeypatch):
    """A thousand lanes whose profiles couldn't be read kept the daemon from everything else for minutes."""
    monkeypatch.setattr(building, "START_SECONDS", 0.0)
    mallorys = [job(lane(MALLORY, key=layout.reserved(str(number)))) for number in range(9)]
    daemon, begun, woken = daemon_with(*mallorys, workers=1), [], []

    def start(each):
        begun.append(each)
        daemon._commons.jobs.over(each)
        return False

    daemon._served, daemon._wake = {}, lambda: woken.append(len(begun))
    daemon._commons.sparing = Sparing(None)
    daemon._is_looked_for, daemon._has_interpreter, daemon._start_job = (lambda _: False), (lambda _: True), start
    daemon._give_up = begun.remove
    Building.start(daemon)
    assert woken == [len(begun)]
    assert len(begun) < 9
    monkeypatch.setattr(building, "START_SECONDS", 600.0)
    Building.start(daemon)
    assert (len(begun), len(woken)) == (9, 1)


def test_what_another_user_is_having_built_is_not_begun(store):
    bobs, hers = job(function(BOB), running=True), job(function(MALLORY))
    daemon = daemon_with(bobs, hers, workers=2)
    daemon._served = {}
    Building.start(daemon)
    assert hers.refused > time.monotonic() - 600
