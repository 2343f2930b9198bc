"""Leases: they exclude, expire, and never block."""

import fcntl
import os
import signal
import time

import filelock
import pytest
from storekit import key, mode, open_store

from nbcache.store import locks
from nbcache.store.locks import FLOCK, LEASE, Leases

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture(params=[FLOCK, LEASE])
def kind(request, monkeypatch):
    monkeypatch.setattr(locks, "lock_kind", lambda _: request.param)
    return request.param


@pytest.fixture
def leases(kind, tmp_path):
    return Leases(str(tmp_path))


def in_child(work):
    """Start a forked child that does something and then sleeps; return its pid once it is done."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, b"1" if work() else b"0")
            time.sleep(600)
        finally:
            os._exit(0)
    os.close(writer)
    try:
        assert os.read(reader, 1) == b"1"
    finally:
        os.close(reader)
    return child


def kill(child):
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_lease_excludes_within_a_process(leases, tmp_path, kind):
    first = leases.acquire(key())
    assert first.held
    assert first.key == key()
    assert os.listdir(tmp_path) == [f"{key()}.{kind}"]
    assert leases.acquire(key()) is None
    assert Leases(str(tmp_path)).acquire(key()) is None
    with leases.acquire(key("b")) as other:
        assert other.held
    first.release()
    assert not first.held
    first.release()
    with leases.acquire(key()) as again:
        assert again.held
    assert os.listdir(tmp_path) == []


def hold(tmp_path, kept):
    lease = Leases(str(tmp_path)).acquire(key())
    kept.append(lease)
    return lease is not None and lease.held


def test_a_killed_holder_blocks_nobody(leases, tmp_path):
    kept = []
    child = in_child(lambda: hold(tmp_path, kept))
    try:
        assert leases.acquire(key()) is None
    finally:
        kill(child)
    with leases.acquire(key()) as lease:
        assert lease.held
    assert os.listdir(tmp_path) == []


def test_a_forked_child_does_not_give_back_its_parents_lease(leases, tmp_path):
    lease = leases.acquire(key())

    def work():
        lease.release()
        return Leases(str(tmp_path)).acquire(key()) is None

    kill(in_child(work))
    assert leases.acquire(key()) is None
    lease.release()
    with leases.acquire(key()) as again:
        assert again.held


def test_a_forked_child_that_lives_on_does_not_keep_the_lease(leases, tmp_path):
    lease = leases.acquire(key())
    child = in_child(lambda: True)
    try:
        lease.release()
        with leases.acquire(key()) as again:
            assert again.held
    finally:
        kill(child)


NOBODY = 65534


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become somebody else")
@pytest.mark.parametrize("leftover", [None, 0o644, 0o666])
def test_a_stranger_s_flock_keeps_nobody_waiting(place, leftover):
    """Whoever may open a file may lock it: so nobody else may open a lease, and one that others may open is none."""
    store = open_store(place / "store")
    path = place / f"store/v1/leases/{key()}.flock"
    kept = []
    if leftover is None:
        lease = store.lease(key())
    else:
        path.touch()
        path.chmod(leftover)

    def lock_it():
        os.setuid(NOBODY)
        try:
            kept.append(path.open("rb"))
        except PermissionError:
            return leftover is None
        fcntl.flock(kept[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        return leftover is not None

    child = in_child(lock_it)
    try:
        if leftover is None:
            lease.release()
        with store.lease(key()) as again:
            assert again.held
            assert mode(path) == 0o600
    finally:
        kill(child)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become somebody else")
def test_a_stranger_s_locks_are_no_holder_s(tmp_path, monkeypatch):
    """A file on another filesystem may have the same number, and the list of locks may be of any length."""
    leases = Leases(str(tmp_path))
    leases._kind = FLOCK
    path = tmp_path / f"{key()}.flock"
    path.touch()
    opened = path.open("rb")
    stranger = in_child(lambda: os.setuid(NOBODY) or fcntl.flock(opened, fcntl.LOCK_EX) or True)
    assert leases.holder(key()) is None
    kill(stranger)
    opened.close()
    with path.open("rb") as again:
        child = in_child(lambda: fcntl.flock(again, fcntl.LOCK_EX) or True)
    assert leases.holder(key()) == child
    monkeypatch.setattr(locks, "MAX_LOCKS", 8)
    assert leases.holder(key()) is None
    kill(child)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: changes owners")
def test_a_stranger_s_file_is_no_lease(kind, place):
    store = open_store(place / "store")
    path = place / f"store/v1/leases/{key()}.{kind}"
    foreign(path, locks.LEASE_SECONDS)
    os.chown(path, NOBODY, NOBODY)
    path.chmod(0o600)
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        lease = store.lease(key())
        assert lease is not None
        assert not lease.held


def foreign(path, seconds):
    """The marker of a holder on another host."""
    with open(path, "w") as file:
        file.write(f"filelock/2\npid=1\nhost=elsewhere\nmode=lease\ntoken=ab\nduration={seconds!r}\n")


@pytest.mark.parametrize("ahead", [0, 365 * 86400, -365 * 86400], ids=["now", "ahead", "behind"])
def test_a_silent_holder_on_another_host_expires(tmp_path, monkeypatch, ahead):
    """Whatever its file's date is: what counts is that it doesn't change."""
    monkeypatch.setattr(locks, "lock_kind", lambda _: LEASE)
    now = time.monotonic()
    leases = Leases(str(tmp_path))
    path = tmp_path / f"{key()}.lease"
    foreign(path, locks.LEASE_SECONDS)
    # It is alive: it touches the file.
    for turn in range(4):
        monkeypatch.setattr(time, "monotonic", lambda at=now + 0.4 * turn * locks.LEASE_SECONDS: at)
        os.utime(path, (time.time() + ahead + turn,) * 2)
        assert leases.acquire(key()) is None
    monkeypatch.setattr(time, "monotonic", lambda: now + 2.1 * locks.LEASE_SECONDS)
    assert leases.acquire(key()) is None
    monkeypatch.setattr(time, "monotonic", lambda: now + 2.3 * locks.LEASE_SECONDS)
    lease = leases.acquire(key())
    assert lease is not None
    assert lease.held
    lease.release()


def test_a_holder_that_means_another_duration_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "lock_kind", lambda _: LEASE)
    foreign(tmp_path / f"{key()}.lease", 77.0)
    lease = Leases(str(tmp_path)).acquire(key())
    assert lease is not None
    assert not lease.held


@pytest.mark.parametrize("error", [OSError(5, "I/O"), NotImplementedError(), TypeError(), ImportError()])
def test_a_lock_that_fails_is_no_obstacle(leases, monkeypatch, error):
    def fail(*_args, **_options):
        raise error

    monkeypatch.setattr(filelock.BaseFileLock, "acquire", fail)
    monkeypatch.setattr(locks.fcntl, "flock", fail)
    with leases.acquire(key()) as lease:
        assert not lease.held


def test_a_missing_directory_is_not_made(kind, tmp_path):
    lease = Leases(str(tmp_path / "none")).acquire(key())
    assert not lease.held
    assert not (tmp_path / "none").exists()


def test_the_directory_vanishes_while_held(leases, tmp_path):
    lease = leases.acquire(key())
    for name in os.listdir(tmp_path):
        os.unlink(tmp_path / name)
    lease.release()
    with leases.acquire(key()) as again:
        assert again.held


@pytest.mark.parametrize("junk", ["symlink", "fifo", "directory"])
def test_junk_at_the_name_of_a_lease_never_blocks(leases, tmp_path, kind, junk):
    path = tmp_path / f"{key()}.{kind}"
    {"symlink": lambda: path.symlink_to("x"), "fifo": lambda: os.mkfifo(path), "directory": path.mkdir}[junk]()
    lease = leases.acquire(key())
    if lease is not None:
        lease.release()


def test_the_store_leases_and_sweeps(tmp_path):
    store = open_store(tmp_path)
    with store.lease(key()) as lease:
        assert lease.held
        assert store.lease(key()) is None
    stale = f"{tmp_path}/v1/leases/{key('old')}.lease"
    with open(stale, "w"):
        pass
    os.utime(stale, (1, 1))
    assert store.sweep() == 1
    assert os.listdir(f"{tmp_path}/v1/leases") == []


MOUNTS = r"""
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 27 0:30 / /home rw,relatime shared:1 master:2 - nfs4 server:/home rw
31 30 0:31 / /home/me/with\040space rw - xfs /dev/b rw
32 27 0:32 / /stacked rw - ext4 /dev/c rw
33 32 0:33 / /stacked rw - fuse.sshfs host: rw
broken line
34 27
""".splitlines()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/var/x", "ext4"),
        ("/home", "nfs4"),
        ("/home/me", "nfs4"),
        ("/homely", "ext4"),
        ("/home/me/with space/x", "xfs"),
        ("/stacked/x", "fuse.sshfs"),
    ],
)
def test_the_mount_that_holds_a_path(path, kind):
    assert locks.find_mount(MOUNTS, path)[0] == kind


def test_no_mounts_no_knowledge():
    assert locks.find_mount([], "/x") == ("unknown", frozenset())


@pytest.mark.parametrize(
    ("filesystem", "kind"), [("ext4", FLOCK), ("tmpfs", FLOCK), ("nfs4", LEASE), ("fuse.x", LEASE), ("unknown", LEASE)]
)
def test_the_kind_of_lock_follows_the_filesystem(monkeypatch, filesystem, kind):
    monkeypatch.setattr(locks, "filesystem_kind", lambda _: filesystem)
    assert locks.lock_kind("/x") == kind


def test_this_filesystem_is_known(tmp_path):
    assert locks.filesystem_kind(str(tmp_path)) != "unknown"
    assert locks.filesystem_kind("/proc/self") == "proc"


def test_mount_options():
    line = "42 1 0:37 / /srv rw,relatime shared:5 - nfs4 server:/x rw,vers=4.2,lookupcache=pos,addr=10.0.0.1"
    assert locks.find_mount([line], "/srv/a") == (
        "nfs4",
        frozenset({"rw", "relatime", "vers=4.2", "lookupcache=pos", "addr=10.0.0.1"}),
    )
