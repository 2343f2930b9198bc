"""System calls of Linux that Python has no names for: namespaces, mounts, Landlock, filters. All raise OSError.

Numbers and structures are those of the kernel's ``include/uapi``.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct
from collections.abc import Iterable
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

_PIDFD_SEND_SIGNAL: Final = 424
_PIDFD_OPEN: Final = 434
_MOUNT_SETATTR: Final = 442
_IO_URING_SETUP: Final = 425
_CLONE3: Final = 435
_NEW_CGROUP: Final = 0x02000000
_AT_FDCWD: Final = -100
_RECURSIVE: Final = 0x8000
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_LANDLOCK_BENEATH: Final = 1
_LANDLOCK_WRITING: Final = (0x1FF2, 0x3FF2, 0x7FF2)
"""Everything that changes files, as versions 1, 2 and 3 of Landlock know it: write, make, remove; move; cut."""
_LANDLOCK_EXECUTING, _LANDLOCK_READING = 0x1, 0xC
_LANDLOCK_FILE: Final = 0x4006
"""What of all that can be allowed of a file: writing, reading, cutting."""
_LANDLOCK_TCP, _LANDLOCK_TCP_SINCE = 0x3, 4
_LANDLOCK_SCOPED, _LANDLOCK_SCOPED_SINCE = 0x3, 6
"""Abstract sockets and signals: neither reaches those who are not restricted alike."""
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
    prlimit: int
    keyrings: tuple[int, int, int]
    attributes: tuple[int, ...]
    """What sets modes, owners, dates and extended attributes."""


_NEW_ATTRIBUTES: Final = (452, 463, 466)
_NUMBERS: Final = {
    "x86_64": _Machine(
        0xC000003E, 0x40000000, 56, 272, 41, 53, 302, (248, 249, 250),
        (90, 91, 92, 93, 94, 132, 188, 189, 190, 197, 198, 199, 235, 260, 261, 268, 280, *_NEW_ATTRIBUTES),
    ),
    "aarch64": _Machine(
        0xC00000B7, 0x40000000, 220, 97, 198, 199, 261, (217, 218, 219),
        (5, 6, 7, 14, 15, 16, 52, 53, 54, 55, 88, *_NEW_ATTRIBUTES),
    ),
}  # fmt: skip
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


def pidfd_open(pid: int) -> int:
    """Return a descriptor that stands for a process, whatever becomes of its number. Linux 5.3.

    Python's own is there only where it was built with a kernel's headers as young as that; conda's wasn't.
    """
    return _call("syscall", _PIDFD_OPEN, pid, 0)


def pidfd_kill(pidfd: int) -> None:
    """Kill the process that a descriptor stands for."""
    _call("syscall", _PIDFD_SEND_SIGNAL, pidfd, signal.SIGKILL, None, 0)


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


def restrict(writing: Iterable[str], reading: Iterable[str] | None = None, *, tcp: bool = False) -> None:
    """Let this thread, and what it starts, change nothing but what is beneath these places: landlock(7), Linux 5.13.

    Nor, where the kernel is new enough, cut a file short (6.2), speak TCP (6.7; with *tcp* it may), or signal a process
    that isn't restricted alike (6.12). With *reading*, it opens nothing else than what is beneath these, and executes
    nothing. It needs no rights but NO_NEW_PRIVILEGES, can't be undone, and can be done once more. What it doesn't know
    of is for :func:`refuse_ways_out`.
    """
    version = _call("syscall", _LANDLOCK_CREATE, None, 0, 1)
    written = _LANDLOCK_WRITING[min(version, len(_LANDLOCK_WRITING)) - 1]
    rules = struct.pack(
        "<3Q",
        written | (0 if reading is None else _LANDLOCK_READING | _LANDLOCK_EXECUTING),
        _LANDLOCK_TCP if version >= _LANDLOCK_TCP_SINCE and not tcp else 0,
        _LANDLOCK_SCOPED if version >= _LANDLOCK_SCOPED_SINCE else 0,
    )
    # An older kernel takes more than it knows, where that is zero.
    ruleset = _call("syscall", _LANDLOCK_CREATE, rules, len(rules), 0)
    try:
        for rights, places in ((written, writing), (_LANDLOCK_READING, reading or ())):
            for place in places:
                fd = os.open(place, os.O_PATH | os.O_CLOEXEC)
                try:
                    allowed = rights if os.path.isdir(place) else rights & _LANDLOCK_FILE
                    _call("syscall", _LANDLOCK_ADD, ruleset, _LANDLOCK_BENEATH, struct.pack("<Qi", allowed, fd), 0)
                finally:
                    os.close(fd)
        prctl(NO_NEW_PRIVILEGES, 1)
        _call("syscall", _LANDLOCK_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def refuse_ways_out(*, alone: bool = True) -> None:
    """Refuse what leads out of namespaces, for this process and what it starts: seccomp(2). Needs NO_NEW_PRIVILEGES.

    All sockets but those of the network, which is an empty one: a socket with a path is reached through a read-only
    filesystem just as well, whatever is behind it. Further namespaces of users and cgroups, in which there are rights
    to mount what is writable, and most holes of past years. Keyrings, which are a user's and not a namespace's.
    io_uring, which does what it is told without system calls.

    Where this process isn't *alone* in its namespaces, also what Landlock doesn't hinder: to set modes, owners, dates
    and extended attributes of files, and limits of other processes.
    """
    if os.uname().machine not in _NUMBERS:
        raise OSError(errno.ENOSYS, f"not known how on {os.uname().machine}")
    program = _assembled(_filter(_NUMBERS[os.uname().machine], alone=alone))
    block = ctypes.create_string_buffer(program)
    header = struct.pack("<H6xQ", len(program) // 8, ctypes.addressof(block))
    _call("prctl", _SECCOMP, _FILTER, header, 0, 0)


_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _MASK, _ANSWER = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_Line = tuple[int, str, str, int]


def _filter(numbers: _Machine, *, alone: bool) -> list[_Line]:
    """A program over struct seccomp_data (number, architecture, ..., arguments from 16 on): what, where to."""
    refused = _IO_URING_SETUP, *numbers.keyrings, *(() if alone else numbers.attributes)
    return [
        (_LOAD, "", "", 4),
        (_EQUAL, "", "refuse", numbers.architecture),
        (_LOAD, "", "", 0),
        (_AT_LEAST, "refuse", "", numbers.foreign),
        *((_EQUAL, "refuse", "", number) for number in refused),
        # Its flags are in memory, where they can't be looked at; the C library then takes the older one.
        (_EQUAL, "absent", "", _CLONE3),
        (_EQUAL, "flags", "", numbers.clone),
        (_EQUAL, "flags", "", numbers.unshare),
        (_EQUAL, "socket", "", numbers.socket),
        (_EQUAL, "allow" if alone else "limit", "", numbers.prlimit),
        (_EQUAL, "pair", "allow", numbers.socketpair),
        (_LOAD, "flags", "", 16),
        (_ANY_BIT, "refuse", "allow", NEW_USER | _NEW_CGROUP),
        # prlimit64(pid, ...), 0 for this process
        (_LOAD, "limit", "", 16),
        (_EQUAL, "allow", "refuse", 0),
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
