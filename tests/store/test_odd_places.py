"""A store whose folders are set-gid, hand an access control list on, or are mounts; and numberings of processes that differ.

All of it with real users, lists, mounts and namespaces.
"""

import ctypes
import os
import struct
import subprocess
import time

import pytest
from nbtest import users
from nbtest.users import GROUP_OBJ, MASK, NO_ID, OTHER, USER, USER_OBJ
from storekit import SECTIONS, find, header, key, open_store

import nbcache.store.listing
import nbcache.store.slots  # noqa: F401  a user may not be able to read what is imported later
from nbcache.config import Settings
from nbcache.protocol import spool
from nbcache.store import first_calls, layout, locks, usage, user_directories
from nbcache.store.directory import Store
from nbcache.store.opened import Refusal

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="needs root: becomes others, and mounts"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]
OWNER, STRANGER = 4320, 4321
FOLDERS = [
    "", layout.LAYOUT, layout.OBJECTS, f"{layout.OBJECTS}/{key()[:2]}", layout.REQUESTS, layout.ANSWERS, layout.FAILED,
    layout.LEASES, layout.TRIALS, layout.PROFILES, layout.USAGE, layout.DAEMON, layout.NAMES, layout.FILES,
]  # fmt: skip
DROPS = {layout.REQUESTS, layout.TRIALS, layout.PROFILES, layout.USAGE}
EVERYBODY = [(USER_OBJ, 7, NO_ID), (USER, 7, STRANGER), (GROUP_OBJ, 7, NO_ID), (MASK, 7, NO_ID), (OTHER, 5, NO_ID)]
NEW_PIDS, NEW_IPC, NEW_USERS = 0x20000000, 0x08000000, 0x10000000
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442  # the same on all machines
IDMAPPED, EMPTY_PATH = 0x00100000, 0x1000


def use(root):
    """Write some of what is written into a store, under no umask; return how many entries are found, and why not more."""
    os.umask(0)
    store = open_store(root)
    for name in "ab":
        assert store.publish(header(name), SECTIONS).ok
    for where in (layout.REQUESTS, layout.TRIALS):
        assert user_directories.own(str(root), where) is not None
    assert store.write_usage({"start": 1.0, "end": 2.0})
    with store.lease(key()) as lease:
        assert lease.held
    entries, reasons = find(open_store(root))
    return len(entries), reasons


def writable(root):
    """What somebody may write in a store."""
    found = {str(place) for place, _, _ in os.walk(root) if os.access(place, os.W_OK, effective_ids=True)}
    for place, _, names in os.walk(root):
        found |= {f"{place}/{name}" for name in names if os.access(f"{place}/{name}", os.W_OK, effective_ids=True)}
    return found


@pytest.fixture
def store(place):
    """A store with all folders, that a user may use."""
    os.chown(place, OWNER, OWNER)
    root = place / "store"
    assert users.become(lambda: use(root), OWNER, OWNER) == (1, [])
    for each in FOLDERS:
        users.become(lambda each=each: os.makedirs(root / each, exist_ok=True), OWNER, OWNER)
    return root


@pytest.mark.parametrize("how", ["set-gid", "a list that is handed on"])
def test_what_folders_hand_on_lets_nobody_write(store, how):
    for each in FOLDERS:
        if how == "set-gid":
            os.chown(store / each, OWNER, STRANGER)
            (store / each).chmod((store / each).stat().st_mode & 0o7777 | 0o2000)
        else:
            users.set_acl(store / each, EVERYBODY, users.DEFAULT)
    for name in "ab":
        os.unlink(layout.slot_path(str(store), key(name)))
    assert users.become(lambda: use(store), OWNER, OWNER) == (1, [])
    assert users.become(lambda: writable(store), STRANGER, STRANGER) <= {f"{store}/{each}" for each in DROPS}


@pytest.mark.parametrize("each", FOLDERS[:4])
def test_a_folder_of_entries_that_a_list_lets_a_stranger_write_is_not_used(store, each):
    users.set_acl(store / each, EVERYBODY)
    assert users.may_write(store / each, STRANGER, STRANGER)
    result = users.become(lambda: _found(store), OWNER, OWNER)
    assert "untrusted" in result or f"uid {STRANGER}, by its access control list" in result


def _found(root):
    store = Store.open(Settings(dir=str(root)))
    return store.reason if isinstance(store, Refusal) else str(find(store))


@pytest.fixture
def mounted():
    """Mounts a folder at another place, until the end."""
    points = []

    def mount(source, point):
        if subprocess.run(["mount", "--bind", source, point], capture_output=True, check=False).returncode:
            pytest.skip("can't mount")
        points.append(point)

    yield mount
    for point in reversed(points):
        subprocess.run(["umount", "-l", point], check=True)


@pytest.mark.every(7)
@pytest.mark.parametrize("each", FOLDERS)
def test_a_folder_that_is_a_mount_is_one_like_any_other(store, place, mounted, each):
    (place / "elsewhere").mkdir()
    os.chown(place / "elsewhere", OWNER, OWNER)
    (place / "elsewhere").chmod((store / each).stat().st_mode & 0o7777)
    mounted(place / "elsewhere", store / each)
    assert users.become(lambda: use(store), OWNER, OWNER) == (1, [])

    def tidy():
        opened = open_store(store)
        assert list(opened.verify()) == []
        opened.tidy()
        opened.clear()
        return find(open_store(store))

    assert users.become(tidy, OWNER, OWNER) == ([], [])


@pytest.mark.parametrize("each", FOLDERS[:4])
def test_a_stranger_s_folder_that_is_mounted_in_the_place_of_one_is_not_used(store, place, mounted, each):
    """Entries in it may be the user's own: out of another store, under another key."""
    subprocess.run(["cp", "-a", store / each, place / "theirs"], check=True)
    os.chown(place / "theirs", STRANGER, STRANGER)
    mounted(place / "theirs", store / each)
    result = users.become(lambda: _found(store), OWNER, OWNER)
    assert "untrusted" in result or f"owned by uid {STRANGER}" in result


@pytest.fixture
def idmapped(place):
    """Mounts a folder so that the files of one user are another one's there, and all others nobody's (uid 65534)."""
    libc, point = ctypes.CDLL(None, use_errno=True), place / "idmapped"

    def mount(folder, before, after):
        ready, release = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(ready[1], b"!" if libc.unshare(NEW_USERS) == 0 else b"?")
            os.read(release[0], 1)
            os._exit(0)
        try:
            assert os.read(ready[0], 1) == b"!"
            for kind in ("uid", "gid"):
                with open(f"/proc/{pid}/{kind}_map", "w") as file:
                    file.write(f"{before} {after} 1")
            namespace = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY)
        finally:
            os.write(release[1], b"!")
            os.waitpid(pid, 0)
        tree = libc.syscall(OPEN_TREE, -100, bytes(folder), 1)
        attributes = struct.pack("4Q", IDMAPPED, 0, 0, namespace)
        point.mkdir()
        if (
            libc.syscall(MOUNT_SETATTR, tree, b"", EMPTY_PATH, attributes, len(attributes))
            or libc.syscall(MOVE_MOUNT, tree, b"", -100, bytes(point), 4)
        ):  # fmt: skip
            pytest.skip(f"can't mount with other owners: {os.strerror(ctypes.get_errno())}")
        return point

    yield mount
    subprocess.run(["umount", "-l", point], check=False, capture_output=True)


def test_where_a_mount_shows_other_owners_these_count(store, place, idmapped):
    """A container's mount that maps ids. Who is nobody there is trusted by nobody."""
    os.chown(place, 0, 0)
    point = idmapped(store, OWNER, STRANGER)
    assert users.become(lambda: use(point), STRANGER, STRANGER) == (1, [])
    assert f"owned by uid {STRANGER}" in users.become(lambda: _found(point), OWNER, OWNER)
    assert users.become(lambda: use(store), OWNER, OWNER) == (1, [])
    os.chown(layout.slot_path(str(store), key()), STRANGER, STRANGER)
    assert "untrusted" in users.become(lambda: _found(point), STRANGER, STRANGER)


def in_a_namespace(flags, work):
    """Fork a process 1 of its own numbering that does *work*; return its pid here."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            assert ctypes.CDLL(None).unshare(flags) == 0
            inner = os.fork()
            if inner == 0:
                first_calls.place.cache_clear()
                work()
                os._exit(0)
            ended = os.waitpid(inner, 0)[1]
            status = 0 if ended == 0 or os.WIFSIGNALED(ended) else 1
        finally:
            os._exit(status)
    return pid


def test_a_lease_of_a_process_in_another_numbering_is_respected_until_it_ends(place):
    store = open_store(place / "store")
    ready, release = os.pipe(), os.pipe()

    def hold():
        held = open_store(place / "store").lease(key())
        assert held.held and os.getpid() == 1
        os.write(ready[1], b"!")
        os.read(release[0], 1)

    pid = in_a_namespace(NEW_PIDS, hold)
    assert os.read(ready[0], 1) == b"!"
    assert store.lease(key()) is None
    os.write(release[1], b"!")
    os.waitpid(pid, 0)
    with store.lease(key()) as lease:
        assert lease.held


@pytest.mark.parametrize("flags", [NEW_PIDS, NEW_PIDS | NEW_IPC])
@pytest.mark.parametrize("dies", [False, True])
def test_who_is_inside_an_entry_in_another_numbering_is_dead_only_when_it_is(place, flags, dies):
    """Its pid is 1 there, which lives here."""
    digest = "0" * 30 + "01"
    path = place / first_calls.FILE
    at = first_calls.places(digest)[0]
    ready, release = os.pipe(), os.pipe()

    def inside():
        fd = os.open(path, first_calls.FLAGS, 0o600)
        assert first_calls.lock(fd, at)
        line = first_calls.Lifeline()
        call = first_calls.Call(
            digest, key(), first_calls.INSIDE, first_calls.place(), line.segment, time.time(), "lib:f"
        )
        first_calls.write(fd, at, first_calls.encode(call))
        os.write(ready[1], b"!")
        os.read(release[0], 1)
        os._exit(0)

    pid = in_a_namespace(flags, inside)
    assert os.read(ready[0], 1) == b"!"
    if dies:
        os.write(release[1], b"!")
        os.waitpid(pid, 0)
    fd = os.open(path, os.O_RDWR)
    first_calls.settle(fd, 0.0)
    assert [call.state for _, call in first_calls.read(fd)] == [first_calls.DIED if dies else first_calls.INSIDE]
    os.close(fd)
    if not dies:
        os.write(release[1], b"!")
        os.waitpid(pid, 0)


def test_a_lease_file_of_a_process_in_another_numbering_is_taken_from_it_and_nothing_is_lost(place, monkeypatch):
    """On network filesystems, where hosts are told by their names and processes by their pids, which mean another one here.

    Both compile then, and one of the results stays.
    """
    monkeypatch.setattr(locks, "lock_kind", lambda _path: locks.LEASE)
    store = open_store(place / "store")
    ready, release = os.pipe(), os.pipe()

    def hold():
        mine = open_store(place / "store")
        with mine.lease(key()):
            os.write(ready[1], b"!")
            os.read(release[0], 1)
            mine.publish(header(), SECTIONS)

    pid = in_a_namespace(NEW_PIDS, hold)
    assert os.read(ready[0], 1) == b"!"
    lease = store.lease(key())
    with lease or open_store(place / "store").lease(key("b")):
        assert store.publish(header(), SECTIONS).ok
        os.write(release[1], b"!")
        assert os.waitpid(pid, 0)[1] == 0
    assert len(find(store)[0]) == 1
    with store.lease(key()) as again:
        assert again.held


def test_hard_links_that_a_stranger_makes_of_everything(store, place):
    """Where the kernel doesn't protect them: into the places of which the stranger has one in the store."""
    setting = "/proc/sys/fs/protected_hardlinks"
    with open(setting) as file:
        before = file.read()
    made = open_store(store, trusted_uids=frozenset({OWNER}))

    def link():
        there = [f"{folder}/{name}" for folder, _, names in os.walk(store) for name in names]
        places = [user_directories.own(str(store), where) for where in (layout.REQUESTS, layout.TRIALS)]
        for number, path in enumerate(there):
            for place in (*places, f"{store}/{layout.USAGE}"):
                os.link(path, f"{place}/{number}-{os.path.basename(path)}")
        return len(there)

    try:
        try:
            with open(setting, "w") as file:
                file.write("0")
        except OSError as error:
            pytest.skip(f"fs.protected_hardlinks can't be set: {error}")
        assert users.become(link, STRANGER, STRANGER) > 3
    finally:
        with open(setting, "w") as file:
            file.write(before)
    assert users.become(lambda: use(store), OWNER, OWNER) == (1, [])
    assert list(made.verify()) == []
    assert len(spool.scan(str(store), made.trust)) == 0
    assert sum(record["processes"] for record in usage.read(str(store))) == 2
    made.clear()
    assert users.become(lambda: use(store), OWNER, OWNER) == (1, [])
