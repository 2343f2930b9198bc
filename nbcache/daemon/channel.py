"""Messages between the daemon and the processes that it starts: JSON, with descriptors beside it.

A *channel* is one end of a pair of sockets (``SOCK_SEQPACKET``, so that a message is one packet, and comes whole or not
at all). A message is a JSON object of at most :data:`MAX_MESSAGE` bytes; what is longer (an order, an entry) is the
content of a ``memfd`` that comes along and can't be changed any more: it is *sealed*, and only that is taken.

The daemon's end never waits: neither to read nor to write, whatever is at the other end. And what it reads may be
anything: it is a message or :class:`BadMessageError`, descriptors that nobody asked for are closed.

The pair is what binds an answer to its job. Nobody can find the socket of another job: it has no name, it is handed
from the daemon to one child, and the one who forked that child closes it.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from nbcache.memory_files import memory_file
from nbcache.process import closing

MAX_MESSAGE: Final = 1 << 16
"""The longest message [bytes]."""
# <linux/fcntl.h>; Python has them where the C library that it was built with did (glibc 2.27).
_ADD_SEALS: Final = 1033
_GET_SEALS: Final = 1034
_SEALED: Final = 0xF
"""Against further seals, shrinking, growing and writing."""
_MAX_FDS: Final = 4
_CREDENTIALS: Final = struct.Struct("3i")
_ANCILLARY: Final = socket.CMSG_SPACE(_MAX_FDS * array("i").itemsize) + socket.CMSG_SPACE(_CREDENTIALS.size)


class BadMessageError(ValueError):
    """What came is no message."""


class Channel:
    """One end. Not for several threads at once."""

    def __init__(self, end: socket.socket) -> None:
        """Take over a socket."""
        self._socket = end
        self.discard: Callable[[list[int]], None] = close_all
        """Closes what came with something that is no message; to close may have to wait."""
        self.pid = 0
        """Who sent what was read last, as the kernel says; 0 before, and unless `wants_credentials` was called."""

    @classmethod
    def pair(cls) -> tuple[Channel, socket.socket]:
        """Return a channel that doesn't block, and the socket at its other end, which is to be handed on."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        return cls(ours), theirs

    @classmethod
    def of(cls, fd: int) -> Channel:
        """Return the channel that a process was started with."""
        return cls(socket.socket(fileno=fd))

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close it. May be done twice."""
        self._socket.close()

    def send(self, message: dict[str, Any], *fds: int) -> None:
        """Send a message. Raises OSError; on the daemon's end, BlockingIOError where the other one doesn't read."""
        beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))] if fds else []
        self._socket.sendmsg([json.dumps(message).encode()], beside, socket.MSG_NOSIGNAL)

    def _packet(self) -> tuple[bytes, list[tuple[int, int, bytes]], int, object]:
        return self._socket.recvmsg(MAX_MESSAGE, _ANCILLARY, socket.MSG_CMSG_CLOEXEC)

    def receive(self) -> tuple[dict[str, Any], list[int]] | None:
        """Return the next message and the descriptors with it, which are the caller's to close; None at the end.

        Raises BadMessageError, and OSError as the socket does (BlockingIOError: there is none).
        """
        try:
            packet = self._packet()
        except ConnectionResetError:
            # The other end was closed without having read all: what it said before is still there, but for gVisor's.
            try:
                packet = self._packet()
            except ConnectionResetError:
                return None
        data, beside, flags, _ = packet
        fds: list[int] = []
        for level, kind, content in beside:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds += array("i", content[: len(content) // array("i").itemsize * array("i").itemsize])
            elif (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
                self.pid = _CREDENTIALS.unpack(content)[0]
        whole = not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
        message = _parse(data) if data and whole else None
        if message is None:
            self.discard(fds)
            if data or not whole:
                raise BadMessageError("it is no JSON object, or too long")
            return None
        return message, fds


def _parse(data: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def is_in_memory(fd: int) -> bool:
    """Whether a descriptor is of a file in memory: nothing that is done with it waits for anybody."""
    try:
        fcntl.fcntl(fd, _GET_SEALS)
    except OSError:
        return False
    return True


def close_all(fds: list[int]) -> None:
    """Close descriptors."""
    for fd in fds:
        with suppress(OSError):
            os.close(fd)


@contextmanager
def sealed(data: bytes | memoryview) -> Iterator[int]:
    """Open a file in memory that holds ``data`` and can't be changed; a descriptor. Raises OSError."""
    with closing(memory_file("nbcache", data, sealable=True)) as fd:
        fcntl.fcntl(fd, _ADD_SEALS, _SEALED)
        yield fd


def unsealed(fds: list[int], most: int) -> bytes:
    """Return what the one sealed file among ``fds`` holds, if it isn't longer than ``most``. Raises BadMessageError."""
    try:
        if len(fds) != 1 or fcntl.fcntl(fds[0], _GET_SEALS) & _SEALED != _SEALED:
            raise BadMessageError("what came along is not sealed")
        size = os.fstat(fds[0]).st_size
        if size > most:
            raise BadMessageError(f"what came along is longer than {most} bytes")
        # Not read(2): who sent it shares the offset. No mapping: Linux before 6.7, and gVisor, share no sealed file.
        content = bytearray()
        while len(content) < size and (part := os.pread(fds[0], size - len(content), len(content))):
            content += part
        return bytes(content)
    except OSError as error:
        raise BadMessageError(f"what came along can't be read as a file in memory: {error}") from error
    finally:
        close_all(fds)
