"""What one user who shares a daemon, or a stranger, did to another: each was done for real before it was mended."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time

import pytest
from nbtest import daemons, users
from nbtest.town import BOB, MALLORY, TRUSTED, as_user
from storekit import header, key, open_store

from nbcache.daemon import service
from nbcache.file_trust import Trust
from nbcache.protocol import heartbeats, requests, spool
from nbcache.store import first_askers, first_calls, layout, quarantine

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="needs root: becomes other users"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]
STRANGER = 4321


@pytest.fixture
def store(place):
    found = open_store(place / "store", trusted_uids=TRUSTED)
    first_askers.begin(found.path)
    return found


def request(**more):
    fields = {
        "key": key(), "kind": "dispatcher", "function": "m:f", "signature": "", "types": {}, "source": "0" * 32,
        "value": None, "modules": (), "path": (), "interpreter": "", "settings": {}, "toolchain": "",
        "components": (), "created": 0.0, "host": "", "pid": 1,
    }  # fmt: skip
    return requests.Request(**{**fields, **more})


@contextlib.contextmanager
def read_locked(path):
    """Another process has a lock for reading on all of a file."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        fcntl.lockf(os.open(path, os.O_RDONLY), fcntl.LOCK_SH)
        os.write(writing, b"x")
        time.sleep(60)
        os._exit(0)
    try:
        os.read(reading, 1)
        yield
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def test_nobody_can_lock_who_asked_first(store):
    """A read lock of a stranger's had `gc` and a daemon's housekeeping wait for ever."""
    first_askers.remember(store.path, key("a"), BOB)
    path = f"{store.path}/{layout.ASKERS}/{BOB}-1"
    with pytest.raises(AssertionError, match="PermissionError"):
        users.become(lambda: os.open(path, os.O_RDONLY), STRANGER, STRANGER)
    # One that has it open from the time when all could read it.
    with read_locked(path):
        began = time.monotonic()
        first_askers.remember(store.path, key("b"), BOB)
        assert time.monotonic() - began < 5
    assert first_askers.first(store.path, key("b"), store.trust) == BOB


@pytest.mark.parametrize("other", [{"function": "m:g"}, {"kind": "cfunc"}, {"types": {"args": []}}])
def test_another_request_for_a_key_has_another_scope(other):
    """Mallory had something else fail under Bob's key, and Bob didn't ask for an hour."""
    assert request().scope == request()._replace(host="elsewhere").scope != request(**other).scope


def test_only_one_s_own_and_the_owner_s_notes_count(store):
    """A note of Mallory's said what Bob's Numba consists of, and so which keys were his."""
    word = {uid: header(extra={"asked": uid}) for uid in (0, -1, BOB, MALLORY)}
    own = {uid: users.become(lambda each=each: first_askers.is_ones_own(each, store.path), BOB, BOB)
           for uid, each in word.items()}  # fmt: skip
    assert own == {0: True, -1: True, BOB: True, MALLORY: False}


def test_a_request_of_nothing_but_brackets_is_refused_at_once():
    line = b'{"nbcache": "request", "x": [' + b",".join([b"[]"] * 5_000_000) + b"]}"
    began = time.process_time()
    with pytest.raises(requests.BadRequestError, match="parts"):
        requests.read(line)
    assert time.process_time() - began < 0.5


def test_many_places_of_one_user_are_read_as_far_as_one(store):
    """A hundred full tables took everybody who met an entry on trial ten seconds."""

    def fill():
        for number in range(8):
            folder = f"{store.path}/{layout.TRIALS}/{MALLORY}" + (f"-{number:08x}" if number else "")
            os.mkdir(folder)
            with open(f"{folder}/{first_calls.FILE}", "wb") as file:
                for row in range(1024):
                    call = first_calls.Call(f"{row:08x}{number:024x}", key(), b"D", b"", 1, time.time(), "f")
                    file.write(first_calls.encode(call) * 2)
            with open(f"{folder}/{quarantine.GOOD}", "w") as file:
                file.writelines(f"{row:016x}{number:016x} {key()}\n" for row in range(9000))

    users.become(fill, MALLORY, MALLORY)
    assert len(quarantine.read(store.path, store.trust)) <= 2 * 1024
    assert len(quarantine.good(store.path, store.trust)) <= 11_000


def test_a_stranger_s_lock_keeps_no_crash_from_being_noted(place):
    """Whoever may read a table may lock it for reading; then no place was to be had, and no death was known."""
    path = place / first_calls.FILE
    path.write_bytes(b"")
    with read_locked(path):
        fd = os.open(path, os.O_RDWR)
        assert first_calls.lock(fd)
        os.close(fd)


def test_work_on_something_else_for_a_key_is_no_progress():
    """Bob waited thirty seconds for a job of Mallory's that span under his key."""
    mine, hers = request().scope, request(path=("/mallory",)).scope
    beat = heartbeats.Heartbeat(
        "one", "h", 1, 0.0, 0.0, 1, 1, 0, 0.0, False, working={heartbeats.work_name(key(), hers): 3.0}
    )
    assert beat.spent(key()) == beat.spent(key(), hers) == 3.0
    assert beat.spent(key(), mine) is None


def test_no_stream_of_requests_for_a_key_keeps_another_s_waiting(town, place):
    """Mallory and a friend asked in turn for something else under Bob's key, and his request was never the next."""
    # Who is looked at last in the spool asks first.
    friend, bob = (uid for uid in TRUSTED if uid != MALLORY)
    blocks = "import os, time\nwhile not os.path.exists('{0}/go'):\n    time.sleep(0.02)\n"
    town.write("mallory", "slow", blocks.format(place / "bob"))

    def ask(uid, function, where):
        asked = request(function=function, path=(str(place / where),), interpreter=town.python)
        return as_user(uid, lambda: spool.submit(str(town.store), asked))

    with town.daemon("--workers", "1") as daemon:
        ask(MALLORY, "slow:f", "mallory")
        daemons.wait_for(lambda: any(each.busy for each in heartbeats.read(str(town.store), Trust())))
        for uid, function in ((bob, "bobs:f"), (friend, "another:f")):
            ask(uid, function, "bob")
            time.sleep(2 * service.SCAN_SECONDS)
        (place / "bob/go").touch()
        daemons.wait_for(lambda: len(daemons.failures(town.store)) == 3, lambda: daemon.log)
        failed = sorted((town.store / "v1/failed").iterdir(), key=lambda path: path.stat().st_mtime_ns)
        said = [json.loads(path.read_text())["function"] for path in failed]
        assert said == ["slow:f", "bobs:f", "another:f"]
