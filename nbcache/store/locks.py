"""Leases: who is compiling a key now. The kind of lock is chosen by the filesystem it lies on.

- On a **local** filesystem: ``flock`` (:class:`Flock`). The kernel drops it the moment its process is gone.
- On a **network** filesystem, or one that isn't known to be local: :class:`filelock.SoftFileLease`. ``flock`` doesn't
  exclude across NFS clients (filelock's own documentation; on some it succeeds everywhere). The lease is a file its
  holder touches every third of :data:`LEASE_SECONDS`; a contender on the same host takes it over as soon as the
  holder's pid is gone, one on another host once it saw no touch for that long, by its own monotonic clock.

What is guaranteed
------------------
A lease keeps work from being done twice; it doesn't protect anything. Publishing is atomic without it. So whatever goes
wrong with a lock, the answer is a lease that holds nothing: to compile twice is harmless, not to compile at all isn't.
Acquiring never blocks, and a killed process never blocks others beyond the times above.

Nor may somebody who can't write here keep others waiting. An ``flock`` needs no more than an open file, and whoever may
read can open it, so files for it are made for their owner alone (nobody else may write in this directory anyway); one
that others may open, of whatever origin, is removed and made anew. What somebody owns who isn't trusted is no lease.

The two kinds use different names, so that a file server that sees the directory as local and its clients that
see it as NFS don't read each other's files; they may do work twice.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import re
import socket
import stat
import threading
import weakref
from typing import TYPE_CHECKING, Any, Final

from nbcache.file_trust import Trust
from nbcache.passing_exceptions import let_pass, suppressed
from nbcache.process import opened, os
from nbcache.store import folders, layout

if TYPE_CHECKING:
    from types import TracebackType

    from filelock import BaseFileLock

_log = logging.getLogger("nbcache")
LEASE_SECONDS: Final = 30.0
"""How long a lease on another host lives without a sign of life [s]. The same for every process that shares a store."""
MAX_LOCKS: Final = 1 << 18
"""How much of the kernel's list of locks is read [bytes]: some five thousand."""
# fmt: off
LOCAL: Final = frozenset({
    "apfs", "bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "hfs", "jfs", "nilfs2",
    "overlay", "ramfs", "reiserfs", "tmpfs", "ufs", "xfs", "zfs",
})
# fmt: on
FLOCK: Final = "flock"
LEASE: Final = "lease"
_ATTEMPTS: Final = 2
_OPEN: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CONTENDED: Final = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES})
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class Flock:
    """An ``flock`` on a file that is there as long as somebody has it.

    A program with an empty store takes one for each function. `filelock.UnixFileLock`, which can do much more, makes
    forty system calls for it; this makes seven.
    """

    def __init__(self, path: str) -> None:
        """Nothing is opened before it is asked for."""
        self.lock_file = path
        self._fd = -1
        self._identity = (0, 0)

    def acquire(self) -> bool:
        """Take it without blocking; return False if somebody has it, or has just removed the file. Raises OSError."""
        # Whoever can open the file can lock it: nobody else should.
        fd = os.open(self.lock_file, _OPEN, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status = os.fstat(fd)
            if status.st_nlink > 0:
                self._identity = (status.st_dev, status.st_ino)
                _held.add(self)
                self._fd, fd = fd, -1
                return True
        except OSError as error:
            let_pass(error)
            if error.errno not in _CONTENDED:
                raise
        finally:
            if fd >= 0:
                os.close(fd)
        return False

    def release(self) -> None:
        """Remove the file and give it back. It must be this process that took it."""
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        # The file goes while it is held, or it could be the next holder's that goes.
        try:
            if _identity(self.lock_file) == self._identity:
                with suppressed(OSError):
                    os.unlink(self.lock_file)
        finally:  # also when a signal's exception comes by
            _held.discard(self)
            # Forked children have the descriptor as well, until they come to close it.
            with suppressed(OSError):
                fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)

    def forget(self) -> None:
        """In a forked child: leave it to the parent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


_held: weakref.WeakSet[Flock] = weakref.WeakSet()


def _leave_to_parent() -> None:
    for lock in list(_held):
        lock.forget()
    _held.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


class Lease:
    """The right to compile a key. Release it, or use it as a context manager; both may be done twice.

    ``held`` is False when no lock could be had for a reason other than somebody else holding it.
    """

    __slots__ = ("_lock", "_pid", "held", "key")

    def __init__(self, key: str, lock: Flock | BaseFileLock | None) -> None:
        """Take over an acquired lock; None stands for one that holds nothing."""
        self.key = key
        self.held = lock is not None
        self._lock = lock
        self._pid = os.getpid()

    def release(self) -> None:
        """Give the key back and remove the file. Never raises. In a forked child: only forget it."""
        lock, self._lock, self.held = self._lock, None, False
        # A child's copy isn't its to give back: the parent still compiles.
        if lock is None or self._pid != os.getpid():
            return
        with suppressed(Exception):
            _release(lock)

    def __enter__(self) -> Lease:  # noqa: PYI034  # Self is new in Python 3.11
        """Return the lease."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release it."""
        self.release()


class Leases:
    """The leases in one directory, as one process sees them."""

    def __init__(self, directory: str, trust: Trust | None = None) -> None:
        """``directory`` needn't exist yet. Nothing is looked at before the first lease is asked for."""
        self._directory = directory
        self._trust = Trust() if trust is None else trust
        self._kind: str | None = None
        self._guard = threading.Lock()
        # Locks that somebody else held when asked. Kept, because a contender can only tell that a holder on
        # another host is dead by having watched its file for LEASE_SECONDS.
        self._watched: dict[str, Flock | BaseFileLock] = {}

    def acquire(self, key: str) -> Lease | None:
        """Return a lease on a (checked) key without blocking; None if somebody alive holds it. Never raises."""
        try:
            return self._acquire(key)
        except Exception as raised:  # noqa: BLE001  # whatever a lock does, compiling goes on without it
            let_pass(raised)
            _log.debug("could not take a lease on %s", key, exc_info=True)
            return Lease(key, None)

    def _acquire(self, key: str) -> Lease | None:
        if not _is_directory(self._directory):
            # filelock would make it, and those above it, with whatever permissions the umask leaves; or follow a link.
            return Lease(key, None)
        if self._kind is None:
            self._kind = lock_kind(self._directory)
        if not self._is_ours(f"{self._directory}/{key}.{self._kind}", self._kind):
            return Lease(key, None)
        with self._guard:
            lock = self._watched.pop(key, None)
        if lock is None:
            lock = _make_lock(f"{self._directory}/{key}.{self._kind}", self._kind)
        for _ in range(_ATTEMPTS):
            # Twice, since a holder that releases just now removes the file under the first attempt.
            try:
                if _try(lock):
                    return Lease(key, lock)
            except BaseException:  # a signal's, say: its traceback would keep the lock, and with it the key
                with suppressed(Exception):
                    _release(lock)
                raise
        with self._guard:
            self._watched.setdefault(key, lock)
        return None

    def holder(self, key: str) -> int | None:
        """Return the pid of the process of this host that holds a (checked) key; None if it can't be known.

        Never raises. What isn't known: a process on another host, or one that has no pid here.
        """
        with suppressed(Exception):
            path = f"{self._directory}/{key}.{self._kind}"
            if self._kind == FLOCK:
                return _locker(os.stat(path).st_ino, self._trust)
            with self._guard:
                lock = self._watched.get(key)
            owner: Any = getattr(lock, "owner", None)
            if owner is not None and owner.hostname == socket.gethostname():
                return int(owner.pid)
        return None

    def _is_ours(self, path: str, kind: str) -> bool:
        """Whether what lies at a lease's name, if anything does, may be waited for."""
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return True
        if status.st_uid not in self._trust.uids:
            return False
        # Somebody may hold it right now, and then two compile: better than everybody waiting for a stranger.
        return kind != FLOCK or not status.st_mode & _OTHERS or folders.remove(path)


def _locker(inode: int, trust: Trust) -> int | None:
    """Return whose ``flock`` a file is under, by proc_locks(5), which lists those with a pid here.

    Strangers may have any number of locks there, also on files that have the same number on other filesystems.
    """
    with opened("/proc/locks", "rb") as file:
        listed = file.read(MAX_LOCKS)
    for line in listed.splitlines():
        fields = line.split()
        # A line with an arrow is of a process that waits for the lock.
        if len(fields) > 5 and fields[1] == b"FLOCK" and fields[5].rpartition(b":")[2] == b"%d" % inode:
            pid = int(fields[4])
            with suppressed(OSError):  # it has no number here, or has ended
                if os.stat(f"/proc/{pid}").st_uid in trust.uids:
                    return pid
    return None


def filesystem_kind(path: str) -> str:
    """Return the kind of filesystem a path is on, as the kernel names it (``"ext4"``, ``"nfs4"``), or ``"unknown"``."""
    return mount_of(path)[0]


def mount_of(path: str) -> tuple[str, frozenset[str]]:
    """Return the kind of filesystem a path is on and the options that it is mounted with; ``"unknown"`` and none."""
    with suppressed(OSError):
        with opened("/proc/self/mountinfo", "rb") as mounts:
            lines = mounts.read().decode("utf-8", "surrogateescape").splitlines()
        return find_mount(lines, os.path.realpath(path))
    return "unknown", frozenset()


def find_mount(lines: list[str], path: str) -> tuple[str, frozenset[str]]:
    """Return what :func:`mount_of` does for the mount that holds ``path``, from lines of proc_pid_mountinfo(5)."""
    best, kind, options = -1, "unknown", frozenset[str]()
    for line in lines:
        left, dash, right = line.partition(" - ")
        fields, more = left.split(" "), right.split(" ")
        if not dash or len(fields) < 6:  # the mount point is the fifth, its options are the sixth
            continue
        point = _unescape(fields[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        # At equal length the later line wins: it was mounted on top.
        if inside and len(point) >= best:
            best, kind = len(point), more[0]
            options = frozenset((fields[5] + "," + (more[2] if len(more) > 2 else "")).split(","))
    return kind, options


def lock_kind(path: str) -> str:
    """Return which lock will be used for leases in a directory: :data:`FLOCK` or :data:`LEASE`."""
    return FLOCK if filesystem_kind(path) in LOCAL else LEASE


def _make_lock(path: str, kind: str) -> Flock | BaseFileLock:
    if kind == FLOCK:
        return Flock(path)
    # Imported here: most processes never need it.
    import filelock

    # Others read who holds it. Without a mode, filelock leaves that to the process's umask, and lets nobody else write.
    umask = layout.UMASK.value
    mode: dict[str, Any] = {} if umask is None else {"mode": layout.FILE_MODE & ~umask}
    # A filelock too old for it raises here, and then there is no lock.
    return filelock.SoftFileLease(path, thread_local=False, lease_duration=LEASE_SECONDS, **mode)


def _try(lock: Flock | BaseFileLock) -> bool:
    if isinstance(lock, Flock):
        return lock.acquire()
    import filelock

    try:
        lock.acquire(blocking=False)
    except filelock.Timeout:
        return False
    return True


def _release(lock: Flock | BaseFileLock) -> None:
    if isinstance(lock, Flock):
        lock.release()
    else:
        lock.release(force=True)


def _is_directory(path: str) -> bool:
    with suppressed(OSError):
        return stat.S_ISDIR(os.lstat(path).st_mode)
    return False


def _identity(path: str) -> tuple[int, int] | None:
    with suppressed(OSError):
        status = os.lstat(path)
        return status.st_dev, status.st_ino
    return None


def _unescape(text: str) -> str:
    """Undo the kernel's octal escapes of space, tab, newline and backslash."""
    return re.sub(r"\\(040|011|012|134)", lambda code: chr(int(code[1], 8)), text)
