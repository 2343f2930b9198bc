"""System calls of Linux that Python has no names for: namespaces, mounts, capabilities, filters. All raise OSError.

Numbers and structures are those of the kernel's ``include/uapi``.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import Final, NamedTuple

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
_CLONE3: Final = 435
_NEW_CGROUP: Final = 0x02000000
_AT_FDCWD: Final = -100
_RECURSIVE: Final = 0x8000
_CAPABILITIES: Final = 0x20080522


class _Machine(NamedTuple):
    architecture: int
    """As the kernel's audit calls it."""
    foreign: int
    """The first number of another calling convention."""
    clone: int
    unshare: int
    socket: int
    socketpair: int
    keyrings: tuple[int, int, int]


_NUMBERS: Final = {
    "x86_64": _Machine(0xC000003E, 0x40000000, 56, 272, 41, 53, (248, 249, 250)),
    "aarch64": _Machine(0xC00000B7, 0x40000000, 220, 97, 198, 199, (217, 218, 219)),
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


def bind(path: str, what: str | None = None) -> None:
    """Make a file or directory a mount of its own, which shows *what*, or what is there: mount(2)."""
    _call("mount", os.fsencode(what or path), os.fsencode(path), None, _BIND, None)


def drop_capabilities() -> None:
    """Give up every capability, for this process and what it starts."""
    prctl(NO_NEW_PRIVILEGES, 1)
    _call("capset", struct.pack("<Ii", _CAPABILITIES, 0), bytes(24))


def refuse_ways_out() -> None:
    """Refuse what leads out of namespaces, for this process and what it starts: seccomp(2). Needs NO_NEW_PRIVILEGES.

    All sockets but those of the network, which is an empty one: a socket with a path is reached through a read-only
    filesystem just as well, whatever is behind it. Further namespaces of users and cgroups, in which there are rights
    to mount what is writable, and most holes of past years. Keyrings, which are a user's and not a namespace's.
    io_uring, which does what it is told without system calls.
    """
    if os.uname().machine not in _NUMBERS:
        raise OSError(errno.ENOSYS, f"not known how on {os.uname().machine}")
    program = _assembled(_filter(_NUMBERS[os.uname().machine]))
    block = ctypes.create_string_buffer(program)
    header = struct.pack("<H6xQ", len(program) // 8, ctypes.addressof(block))
    _call("prctl", _SECCOMP, _FILTER, header, 0, 0)


_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _MASK, _ANSWER = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_Line = tuple[int, str, str, int]


def _filter(numbers: _Machine) -> list[_Line]:
    """A program over struct seccomp_data (number, architecture, ..., arguments from 16 on): what, where to."""
    return [
        (_LOAD, "", "", 4),
        (_EQUAL, "", "refuse", numbers.architecture),
        (_LOAD, "", "", 0),
        (_AT_LEAST, "refuse", "", numbers.foreign),
        *((_EQUAL, "refuse", "", number) for number in (_IO_URING_SETUP, *numbers.keyrings)),
        # Its flags are in memory, where they can't be looked at; the C library then takes the older one.
        (_EQUAL, "absent", "", _CLONE3),
        (_EQUAL, "flags", "", numbers.clone),
        (_EQUAL, "flags", "", numbers.unshare),
        (_EQUAL, "socket", "", numbers.socket),
        (_EQUAL, "pair", "allow", numbers.socketpair),
        (_LOAD, "flags", "", 16),
        (_ANY_BIT, "refuse", "allow", NEW_USER | _NEW_CGROUP),
        # socket(family, type, ...)
        (_LOAD, "socket", "", 16),
        *((_EQUAL, "allow", "", family) for family in _FAMILIES[:-1]),
        (_EQUAL, "allow", "refuse", _FAMILIES[-1]),
        # socketpair(family, type, ...)
        (_LOAD, "pair", "", 24),
        (_MASK, "", "", 0xF),
        (_EQUAL, "allow", "", _PAIRS[0]),
        (_EQUAL, "allow", "refuse", _PAIRS[1]),
        (_ANSWER, "allow", "", _ALLOW),
        (_ANSWER, "refuse", "", _ERROR | errno.EPERM),
        (_ANSWER, "absent", "", _ERROR | errno.ENOSYS),
    ]


def _assembled(lines: list[_Line]) -> bytes:
    places = {name: at for at, (code, name, _, _) in enumerate(lines) if code in {_LOAD, _ANSWER} and name}
    jumps = {_EQUAL, _AT_LEAST, _ANY_BIT}

    def distances(at: int, *names: str) -> tuple[int, ...]:
        return tuple(places[name] - at - 1 if name else 0 for name in names)

    return b"".join(
        struct.pack("<HBBI", code, *(distances(at, yes, no) if code in jumps else (0, 0)), value)
        for at, (code, yes, no, value) in enumerate(lines)
    )
