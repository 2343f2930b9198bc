"""Who calls an entry for the first time, and who died of that: a table, ``v1/trials/<uid>/calls-1``.

A user's processes share it. It has a row for each entry, by the entry's digest, and a row has two *places*, records of
256 bytes::

    <digest of the entry, 16> <key, 32> <"I" inside, "D" died there, or 0>
    <place, 8, and number, 4, of a lifeline> <when, Unix s, 8> <function, 187>

A process that is about to call an entry on trial takes a place and empties it when the call is over, however that
ended: by a result, an exception, or the interpreter's end. It has a lock on the record's bytes (fcntl(2)) meanwhile,
which ends with the process. So an ``I`` without a lock is of a process that ended inside. Nothing else tells a crash:
no signal, no handler, no status.

Such a process crashed if its lifeline says that it ended within :data:`SOON_SECONDS` of the beginning, or, where nobody
knows when it did, if it is found that soon: then ``D`` is put into the record. Who ended later was killed, and the
place is free again. A place that a process died in stays taken, so after :data:`PLACES` deaths there is none, and the
entry is passed over.

Two entries may share a row. Then one's processes may find no place, and go on without.

Whether a process was killed after minutes or died at once leaves no trace but one. A *lifeline* is a segment of System
V shared memory that one process alone has mapped. The kernel counts who has it mapped, and notes when the last one
ceased to (``shm_dtime`` of shmctl(2)), be it by ending, by being killed, or by executing another program.
``/proc/sysvipc/shm`` says both to everybody within the same IPC namespace. A forked child doesn't inherit the mapping.
Descriptors and signals have no part in it, so nothing that a program does with these changes what is seen.

Only while an entry is called for the first time is there one, so only a process that ends there leaves one behind,
which whoever looks removes. Where there can be none (no System V memory, a filter of system calls), nothing is known.
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import math
import struct
from collections.abc import Iterator
from typing import Any, Final

from nbcache import regular_files
from nbcache.one_line import one_line
from nbcache.passing_exceptions import suppressed
from nbcache.process import opened, os, time
from nbcache.records import Record
from nbcache.store import locks

FILE: Final = "calls-1"
"""Its name has the version of its format."""
FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
PLACES: Final = 2
"""How many may be inside at once, and after how many deaths an entry is passed over."""
SOON_SECONDS: Final = 5.0
"""How long after its beginning the end of a process is laid at the door of the entry [s]."""
INSIDE, DIED, FREE = b"I", b"D", b"\0"
_ROWS: Final = 1024
_FORMAT: Final = struct.Struct("<16s32sc8sid187s")
SIZE: Final = _FORMAT.size
MAX_SIZE: Final = _ROWS * PLACES * SIZE
"""How large the table may be [bytes]."""
_FLOCK: Final = struct.Struct("@hhqqi4x")
"""``struct flock`` of fcntl(2), where a file's size has 64 bits."""
_EARLY: Final = 1.5
"""How much sooner than it began the kernel, which notes whole seconds, may say that somebody ended [s]."""


class Call(Record):
    """What a record says."""

    digest: str
    key: str
    state: bytes
    place: bytes
    segment: int
    began: float
    """[Unix s]."""
    function: str


def encode(call: Call) -> bytes:
    """Return the bytes of a record."""
    digest, key, state, place, segment, began, function = call
    name = one_line(function).encode("utf-8", "replace")[:187]
    return _FORMAT.pack(bytes.fromhex(digest), bytes.fromhex(key), state, place, segment, began, name)


def decode(data: bytes) -> Call:
    """Return what the bytes of a record say; too few say that it is free."""
    digest, key, state, place, segment, began, name = _FORMAT.unpack(data.ljust(SIZE, b"\0"))
    return Call(digest.hex(), key.hex(), state, place, segment, began, name.rstrip(b"\0").decode("utf-8", "ignore"))


def places(digest: str) -> range:
    """Return where the records of an entry are in the file."""
    row = int(digest[:8], 16) % _ROWS * PLACES * SIZE
    return range(row, row + PLACES * SIZE, SIZE)


def read(fd: int) -> Iterator[tuple[int, Call]]:
    """Yield each record that isn't free, and where it is. Raises OSError."""
    for at in range(0, MAX_SIZE, 64 * SIZE):
        data = os.pread(fd, 64 * SIZE, at)
        if not data.strip(b"\0"):
            if not data:
                return
            continue
        for offset in range(0, len(data), SIZE):
            call = decode(data[offset : offset + SIZE])
            if call.state in {INSIDE, DIED}:
                yield at + offset, call


def lock(fd: int, at: int = 0, size: int = SIZE) -> bool:
    """Lock a record, or all with a *size* of 0; return False if another process has one. Raises OSError."""
    with suppressed(BlockingIOError, PermissionError):
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, size, at)
        return True
    return _is_shared(fd, at, size)


def _is_shared(fd: int, at: int, size: int) -> bool:
    """Whether what keeps others from locking a record is a lock for reading, which anybody may have who may read.

    None of ours is one, and nobody has one of ours beside it. Raises OSError.
    """
    found = fcntl.fcntl(fd, fcntl.F_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, at, size, 0))
    return size > 0 and _FLOCK.unpack(found)[0] == fcntl.F_RDLCK


def unlock(fd: int, at: int) -> None:
    """Let go of a record. Raises OSError."""
    fcntl.lockf(fd, fcntl.LOCK_UN, SIZE, at)


def write(fd: int, at: int, data: bytes = bytes(SIZE)) -> None:
    """Write a record that is locked, or empty it. Raises OSError."""
    regular_files.write(fd, data, at=at)


def judge(fd: int, at: int) -> Call:
    """Return what a locked record says, once it was found out what became of who was inside. Raises OSError."""
    call = decode(os.pread(fd, SIZE, at))
    if call.state != INSIDE:
        return call
    ours = call.place == place()
    ended = end(call.segment, call.began) if ours else None
    if ended is None:
        # That nobody has the lock tells as much where all who share the file see the same locks.
        if locks.lock_kind(f"/proc/self/fd/{fd}") != locks.FLOCK:
            return call
        ended = time.time()
    elif ended == math.inf:
        return call  # it lives, and has lost its lock: somebody closed all of its descriptors
    else:
        remove(call.segment)
    died = -_EARLY <= ended - call.began <= SOON_SECONDS
    settled = call._replace(state=DIED if died else FREE)
    write(fd, at, encode(settled) if died else bytes(SIZE))
    return settled


def settle(fd: int, oldest: float) -> int:
    """Judge all who are inside, and forget deaths from before *oldest* [Unix s]; return how many. Raises OSError."""
    count = 0
    for at, seen in list(read(fd)):
        if (seen.state == INSIDE or seen.began < oldest) and lock(fd, at):
            try:
                call = judge(fd, at)
                if call.state == DIED and call.began < oldest:
                    write(fd, at)
                    count += 1
            finally:
                unlock(fd, at)
    return count


def is_unused(fd: int) -> bool:
    """Lock all; return whether nobody is inside, and nobody died there. Raises OSError."""
    return lock(fd, size=0) and os.fstat(fd).st_nlink > 0 and next(read(fd), None) is None


_PRIVATE, _MODE, _REMOVE, _DONT_FORK = 0, 0o600, 0, 10  # <sys/ipc.h>, <sys/mman.h>
_FAILED: Final = ctypes.c_void_p(-1).value
_SIZE: Final = 4096
_SLACK: Final = 2.0
"""The kernel notes whole seconds."""
_SEGMENT, _BYTES, _ATTACHED, _OWNER, _ENDED, _MADE = 1, 3, 6, 9, 12, 13
"""Columns of ``/proc/sysvipc/shm``."""


class Lifeline:
    """That of this process, from now until it is cut."""

    __slots__ = ("_address", "_pid", "segment")

    def __init__(self) -> None:
        """Make one. Never raises: without one, ``segment`` is -1."""
        self.segment = -1
        self._address: int | None = None
        self._pid = os.getpid()
        with suppressed(OSError, AttributeError):
            segment = _libc().shmget(_PRIVATE, _SIZE, _MODE)
            if segment < 0:
                return
            address = _libc().shmat(segment, None, 0)
            if address == _FAILED:
                _libc().shmctl(segment, _REMOVE, None)
                return
            _libc().madvise(address, _SIZE, _DONT_FORK)
            self.segment, self._address = segment, address

    def cut(self) -> None:
        """Be done with it: there is no segment any more. Never raises."""
        address, self._address = self._address, None
        if address is not None and self._pid == os.getpid():
            remove(self.segment)
            _libc().shmdt(address)


def end(segment: int, since: float) -> float | None:
    """Return when the process ended whose lifeline this is, made then [both Unix s]; infinity while it lives.

    None if nobody knows. Never raises. The number of a segment means something to this :func:`place` only.
    """
    with suppressed(OSError, ValueError), opened("/proc/sysvipc/shm", encoding="ascii") as file:
        for line in file.readlines()[1:]:
            fields = [int(field) for field in line.split()]
            # Numbers are used again: by whoever else, for whatever else.
            if (fields[_SEGMENT], fields[_BYTES], fields[_OWNER]) == (segment, _SIZE, os.geteuid()) and (
                abs(fields[_MADE] - since) <= _SLACK
            ):
                return math.inf if fields[_ATTACHED] else float(fields[_ENDED])
    return None


def remove(segment: int) -> None:
    """Remove what a process left that ended. Never raises."""
    with suppressed(OSError, AttributeError):
        _libc().shmctl(segment, _REMOVE, None)


@functools.cache
def place() -> bytes:
    """Return what segments' numbers belong to, in eight bytes: a boot and an IPC namespace. Empty if it can't be known.

    As many processes as like may have the same namespace, in containers of their own or not.
    """
    with suppressed(OSError, ValueError), opened("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = bytes.fromhex(file.read(8))
        return boot + (os.stat("/proc/self/ns/ipc").st_ino & 0xFFFFFFFF).to_bytes(4, "little")
    return b""


@functools.cache
def _libc() -> Any:
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    libc.shmat.argtypes = ctypes.c_int, ctypes.c_void_p, ctypes.c_int
    libc.shmdt.argtypes = (ctypes.c_void_p,)
    libc.madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    libc.shmget.argtypes = ctypes.c_int, ctypes.c_size_t, ctypes.c_int
    libc.shmctl.argtypes = ctypes.c_int, ctypes.c_int, ctypes.c_void_p
    return libc
