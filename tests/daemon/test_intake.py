"""A spool of any size: looked through a little at a time, the newest first where there is no room for all."""

from __future__ import annotations

import dataclasses
import os
import sys
import time

import pytest
from nbtest import daemons, proc

from nbcache.config import Settings
from nbcache.daemon import intake, whose_turn
from nbcache.daemon.intake import Intake, Watch
from nbcache.file_trust import Trust
from nbcache.protocol import spool
from nbcache.protocol.requests import Request
from nbcache.store.directory import Store

TRUST = Trust()
REQUEST = Request(
    key="0" * 64, kind="dispatcher", function="gone:f", signature="(int64)", types={"version": 1}, source="0" * 32,
    value=None, modules=(), path=("/nowhere",), interpreter=sys.executable, settings={}, toolchain="", components=(),
    created=1.0, host="host", pid=1,
)  # fmt: skip


@pytest.fixture
def root(tmp_path):
    return Store.open(Settings(dir=str(tmp_path / "store"))).path


@pytest.fixture
def eager(monkeypatch):
    """No rest between two slices, each of which is as short as can be."""
    monkeypatch.setattr(intake, "SHARE", 1.0)
    monkeypatch.setattr(intake, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(intake, "PASS_SECONDS", 0.0)


def fill(root, count, when=0):
    """Empty files with names of requests, the later ones newer; return where."""
    drop = f"{root}/v1/requests/{os.geteuid()}"
    os.makedirs(drop, exist_ok=True)
    for number in range(when, when + count):
        open(f"{drop}/{number:064x}.{number:012x}-{number:016x}.json", "w").close()
    return drop


def numbers(offered):
    return {int(waiting.key, 16) for waiting in offered}


def turns_until(taken, root, looking, offer):
    for _ in range(1000):
        looking.turn(root, TRUST, offer)
        if taken():
            return
    raise AssertionError("not in a thousand turns")


def test_a_turn_is_a_slice_and_all_of_them_see_all(root, eager):
    fill(root, 300)
    looking, seen, each = Intake(print), set(), []

    def offer(waiting, _insists):
        seen.add(waiting)
        return True

    def taken():
        each.append(len(seen))
        return len(seen) == 300

    turns_until(taken, root, looking, offer)
    assert max(after - before for before, after in zip([0, *each], each, strict=False)) <= 10
    looking.close()


def test_what_there_is_no_room_for_is_offered_again_if_it_is_among_the_newest(root, eager, monkeypatch):
    monkeypatch.setattr(intake, "NEWEST", 20)
    fill(root, 300)
    looking, insisted = Intake(print), []

    def offer(waiting, insists):
        if insists:
            insisted.append(waiting)
        return False

    turns_until(lambda: insisted, root, looking, offer)
    assert [int(waiting.key, 16) for waiting in insisted] == list(range(299, 279, -1))
    looking.close()


def test_what_arrives_is_told_at_once(root, eager):
    fill(root, 300)
    looking, insisted = Intake(print), []
    path = spool.submit(root, REQUEST)
    looking.arrived(path)
    looking.arrived(f"{root}/v1/requests/{os.geteuid()}/.written.tmp")
    looking.arrived(f"{root}/v1/requests/nobody/{'a' * 64}.json")
    looking.arrived("/etc/passwd.json")
    looking.turn(root, TRUST, lambda waiting, insists: not insists or insisted.append(waiting.path))
    assert insisted == [path]
    looking.close()


def test_what_a_user_asks_for_first_is_taken_at_once(root, monkeypatch):
    """Nobody watched the directory that the first request made: it was found a second later, and waited for in vain."""
    monkeypatch.setattr(intake, "PASS_SECONDS", 3600.0)
    offered = []

    def turn():
        looking.turn(root, TRUST, lambda waiting, _insists: offered.append(waiting.path) or True)

    looking = Intake(pytest.fail)
    watch = Watch(f"{root}/v1/requests", lambda _path: None)

    def follow():
        return watch.follow([f"{root}/v1/requests/{name}" for name in looking.drops])

    try:
        turn()
        path = spool.submit(root, REQUEST)
        turn()
        assert not offered
        for each in follow():
            looking.look_again(os.path.basename(each))
        turn()
        assert offered == [path]
        assert not follow()
    finally:
        watch.close()
        looking.close()


def test_what_arrives_for_one_user_keeps_no_other_waiting(root, eager):
    """A thousand requests of one user, which take seconds to read, were read before what another one asked then."""
    offered = []
    looking = Intake(lambda _name: None)
    hers = [f"{root}/v1/requests/4321/{number:064x}.{number:012x}.json" for number in range(100)]
    for path in (*hers, f"{root}/v1/requests/4322/{'a' * 64}.{1:012x}.json"):
        looking.arrived(path)
    looking.turn(root, TRUST, lambda waiting, _insists: offered.append(waiting.uid) or True)
    assert offered.index(4322) == 1
    assert len(offered) == 101
    looking.close()


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: changes owners")
def test_strangers_are_not_looked_into(root, eager):
    drop = fill(root, 5)
    theirs = f"{root}/v1/requests/4321"
    os.rename(drop, theirs)
    os.chown(theirs, 4321, 4321)
    odd = f"{root}/v1/requests/odd"
    os.mkdir(odd)
    open(f"{root}/v1/requests/flat.json", "w").close()
    said, offered = [], []
    looking = Intake(said.append)
    for _ in range(20):
        looking.turn(root, TRUST, lambda waiting, _insists: offered.append(waiting) or True)
    assert not offered
    assert set(said) == {"odd"}
    assert sorted(os.listdir(f"{root}/v1/requests")) == ["4321", "odd"]
    looking.close()


@dataclasses.dataclass
class Job:
    uid: int
    asked: float
    future: object = None
    refused: float = 0.0
    size: int = 1


def test_users_take_turns_and_those_who_wait_come_first():
    now = time.monotonic()
    old = now - 2 * whose_turn.FRESH_SECONDS
    jobs = [Job(1, old), Job(1, now - 3), Job(1, now - 5), Job(2, old), Job(2, now - 1)]
    assert whose_turn.ordered(jobs, {}) == [jobs[2], jobs[4], jobs[1], jobs[3], jobs[0]]
    assert whose_turn.queues(jobs) == {1: 2, 2: 1}


def test_it_is_the_turn_of_whoever_has_the_fewest_running_or_waits_the_longest():
    """Where one worker is free at a time, the first place is all there is."""
    now = time.monotonic()
    jobs = [*(Job(1, now - number) for number in range(9)), Job(2, now)]
    assert whose_turn.ordered(jobs, {1: 5.0})[0].uid == 2
    assert whose_turn.ordered(jobs, {1: 5.0, 2: 6.0})[0].uid == 1
    assert whose_turn.ordered([*jobs, Job(1, now, future=1)], {1: 5.0, 2: 6.0})[0].uid == 2


def test_a_user_has_a_quota_of_which_the_old_ones_make_room(monkeypatch):
    monkeypatch.setattr(whose_turn, "QUOTA", 3)
    now = time.monotonic()
    old = now - 2 * whose_turn.FRESH_SECONDS
    jobs = {
        (1, "a"): Job(1, old),
        (1, "b"): Job(1, old - 5),
        (1, "c"): Job(1, old - 9, future=1),
        (2, "d"): Job(2, old),
    }
    room = whose_turn.Room(jobs)
    assert not room.has(1, insists=False)
    assert room.has(2, insists=False)
    assert room.has(1, insists=True)
    assert sorted(jobs) == [(1, "a"), (1, "c"), (2, "d")]
    room.take(1, 1)
    jobs[1, "e"] = Job(1, now)
    assert room.has(1, insists=True)
    room.take(1, 1)
    # What runs stays, and what somebody waits for.
    assert not room.has(1, insists=True)
    assert sorted(jobs) == [(1, "c"), (1, "e"), (2, "d")]


def test_a_user_s_requests_are_kept_in_mind_as_far_as_there_is_room_for_them():
    """A thousand requests of the largest size were twelve gigabytes of the daemon's memory."""
    now = time.monotonic()
    room = whose_turn.Room({(1, "a"): Job(1, now, size=whose_turn.MAX_BYTES // 2), (2, "b"): Job(2, now)})
    assert room.has(1, insists=True)
    room.take(1, whose_turn.MAX_BYTES // 2)
    assert not room.has(1, insists=True)
    assert room.has(2, insists=True)


def test_who_asks_now_is_served_before_a_backlog(place):
    store = place / "store"
    Store.open(Settings(dir=str(store)))
    drop = fill(str(store), 0)
    line = REQUEST.line()
    for number in range(4000):
        key = f"{number + 1:064x}"
        with open(f"{drop}/{key}.{number:012x}-{number:016x}.json", "wb") as file:
            file.write(line.replace(REQUEST.key.encode(), key.encode()))
        os.utime(file.name, (time.time() - 3600, time.time() - 3600))
    (place / "lib.py").write_text("from numba import njit\n@njit\ndef f(x):\n    return x + 1\n")
    (place / "main.py").write_text("import lib\nprint(lib.f(1))\n")
    with daemons.daemon(store, "--workers", "1") as daemon:
        outcome = proc.run([place / "main.py"], store, daemons.WAITING)
        assert outcome.stdout == "2\n", outcome.stderr
        daemon.says("built lib:f")
        assert len(os.listdir(drop)) > whose_turn.QUOTA
        assert daemon.stop() == 0
