"""When a process ended, told by the kernel: whether it was killed after minutes or died at once leaves no other trace.

A *lifeline* is a segment of System V shared memory that one process alone has mapped. The kernel counts who has it
mapped, and notes when the last one ceased to (``shm_dtime`` of shmctl(2)), be it by ending, by being killed, or by
executing another program. ``/proc/sysvipc/shm`` says both to everybody within the same IPC namespace. A forked child
doesn't inherit the mapping. Descriptors and signals have no part in it, so nothing that a program does with these
changes what is seen.

Only while an entry is called for the first time is there one, so only a process that ends there leaves one behind,
which whoever looks removes. Where there can be none (no System V memory, a filter of system calls), nothing is known.
"""

from __future__ import annotations

import ctypes
import functools
import math
from typing import Any, Final

from nbcache.passing import suppressed
from nbcache.process import opened, os

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
