"""System calls of Linux that Python has no names for: namespaces, mounts, capabilities, filters. All raise OSError.

Numbers and structures are those of the kernel's ``include/uapi``; where a machine isn't in :data:`_NUMBERS`, everything
here raises ENOSYS.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import Final

NEW_USER: Final = 0x10000000
NEW_PID: Final = 0x20000000
NEW_MOUNT: Final = 0x00020000
NEW_IPC: Final = 0x08000000
NEW_NET: Final = 0x40000000

READ_ONLY: Final = 0x01
NO_SETUID: Final = 0x02
NO_DEVICES: Final = 0x04
NO_EXECUTING: Final = 0x08
_BIND: Final = 0x1000
PRIVATE: Final = 1 << 18
SLAVE: Final = 1 << 19

PARENT_DEATH_SIGNAL: Final = 1
DUMPABLE: Final = 4
SUBREAPER: Final = 36
NO_NEW_PRIVILEGES: Final = 38
_SECCOMP: Final = 22
_FILTER: Final = 2

_MOUNT_SETATTR: Final = 442
_IO_URING_SETUP: Final = 425
_AT_FDCWD: Final = -100
_RECURSIVE: Final = 0x8000
_CAPABILITIES: Final = 0x20080522

_NUMBERS: Final = {
    # machine: (audit architecture, socket, socketpair, first number of another calling convention)
    "x86_64": (0xC000003E, 41, 53, 0x40000000),
    "aarch64": (0xC00000B7, 198, 199, 0x40000000),
}
# AF_INET, AF_INET6, AF_NETLINK; and of socketpair(2), SOCK_STREAM and SOCK_SEQPACKET. The others can reach any socket
# that has a path: a session's bus, a terminal multiplexer.
_FAMILIES: Final = (2, 10, 16)
_PAIRS: Final = (1, 5)

_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def _call(function: str, *arguments: int | bytes | None) -> int:
    call = getattr(_LIBC, function)
    call.restype = ctypes.c_long
    result = call(*(ctypes.c_long(each) if isinstance(each, int) else each for each in arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")
    return int(result)


def _numbers() -> tuple[int, int, int, int]:
    try:
        return _NUMBERS[os.uname().machine]
    except KeyError:
        raise OSError(errno.ENOSYS, f"not known how on {os.uname().machine}") from None


def unshare(flags: int) -> None:
    """Put this process into new namespaces; of NEW_PID, its further children."""
    _call("unshare", flags)


def enter(namespace: int, kind: int) -> None:
    """Put this process into a namespace that is open; of NEW_PID, its further children: setns(2)."""
    _call("setns", namespace, kind)


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process."""
    _call("prctl", option, value, 0, 0, 0)


def set_mounts(path: str, flags: int, *, clear: int = 0, propagation: int = 0, recursive: bool = True) -> None:
    """Give a mount, and those below it, more flags and another propagation: mount_setattr(2), Linux 5.12."""
    attributes = struct.pack("<4Q", flags, clear, propagation, 0)
    where = os.fsencode(path)
    _call(
        "syscall", _MOUNT_SETATTR, _AT_FDCWD, where, _RECURSIVE if recursive else 0, attributes, len(attributes)
    )  # fmt: skip


def mount(kind: str, path: str, flags: int, options: str = "") -> None:
    """Add a filesystem without a device."""
    _call("mount", kind.encode(), os.fsencode(path), kind.encode(), flags, options.encode())


def bind(path: str) -> None:
    """Make a file or directory a mount of its own: mount(2)."""
    _call("mount", os.fsencode(path), os.fsencode(path), None, _BIND, None)


def drop_capabilities() -> None:
    """Give up every capability, for this process and what it starts."""
    prctl(NO_NEW_PRIVILEGES, 1)
    _call("capset", struct.pack("<Ii", _CAPABILITIES, 0), bytes(24))


def refuse_sockets() -> None:
    """Refuse all sockets but those of the network, which is an empty one: seccomp(2). Needs NO_NEW_PRIVILEGES.

    A socket with a path is reached through a read-only filesystem just as well, whatever is behind it.
    """
    program = _socket_filter()
    block = ctypes.create_string_buffer(program)
    header = struct.pack("<H6xQ", len(program) // 8, ctypes.addressof(block))
    _call("prctl", _SECCOMP, _FILTER, header, 0, 0)


def _socket_filter() -> bytes:
    """A program for the kernel's packet filter, over seccomp_data: number, architecture; from 16 on, arguments."""
    architecture, socket, socketpair, foreign = _numbers()
    load, equal, at_least, mask, answer = 0x20, 0x15, 0x35, 0x54, 0x06
    allow, refuse = 0x7FFF0000, 0x00050000 | errno.EPERM
    lines: list[tuple[int, str, str, int]] = [
        (load, "", "", 4),
        (equal, "", "refuse", architecture),
        (load, "", "", 0),
        (at_least, "refuse", "", foreign),
        (equal, "refuse", "", _IO_URING_SETUP),
        (equal, "socket", "", socket),
        (equal, "pair", "allow", socketpair),
        # socket(family, type, …)
        (load, "socket", "", 16),
        *((equal, "allow", "", family) for family in _FAMILIES[:-1]),
        (equal, "allow", "refuse", _FAMILIES[-1]),
        # socketpair(family, type, …)
        (load, "pair", "", 24),
        (mask, "", "", 0xF),
        (equal, "allow", "", _PAIRS[0]),
        (equal, "allow", "refuse", _PAIRS[1]),
        (answer, "allow", "", allow),
        (answer, "refuse", "", refuse),
    ]
    places = {name: at for at, (code, name, _, _) in enumerate(lines) if code in {load, answer} and name}

    def distance(at: int, name: str) -> int:
        return places[name] - at - 1 if name else 0

    jumps = {equal, at_least}
    return b"".join(
        struct.pack("<HBBI", code, *((distance(at, yes), distance(at, no)) if code in jumps else (0, 0)), value)
        for at, (code, yes, no, value) in enumerate(lines)
    )
