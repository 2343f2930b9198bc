"""Descriptors of files that exist in memory alone."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from nbcache.process import closing, os

if TYPE_CHECKING:
    from collections.abc import Iterator

_CLOEXEC: Final = 1  # <linux/memfd.h>, as the next
_ALLOW_SEALING: Final = 2
_MEMFD_CREATE: Final = {"x86_64": 319, "aarch64": 279}
"""The number of memfd_create(2), by processor: <asm/unistd.h>."""


def memory_file(name: str, content: bytes | memoryview = b"", *, sealable: bool = False) -> int:
    """Return a descriptor of a new file in memory, which a child that executes another program doesn't inherit.

    One that is *sealable* can be made unchangeable. Raises OSError.
    """
    fd = _empty_file(name, sealable=sealable)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(fd, rest) :]
    except BaseException:
        os.close(fd)
        raise
    return fd


def _empty_file(name: str, *, sealable: bool) -> int:
    flags = _CLOEXEC | (_ALLOW_SEALING if sealable else 0)
    make = getattr(os, "memfd_create", None)
    if make is not None:
        return int(make(name, flags))
    # Python has it where the C library that it was built with had it (glibc 2.27): not conda's, nor uv's before 2026.
    import ctypes

    kernel = ctypes.CDLL(None, use_errno=True).syscall
    number = ctypes.c_long(_MEMFD_CREATE.get(os.uname().machine, -1))  # there is no such call as -1: ENOSYS
    made = int(kernel(number, name.encode(), ctypes.c_uint(flags)))
    if made < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return made


@contextmanager
def library(name: str, data: bytes) -> Iterator[str]:
    """Put a library into memory; give the path to load it by, which is good for that alone. Raises OSError.

    Descriptors are used again, also by who closes them all (a daemon, say), and several copies of this module may be in
    one process: those of wheels. So each library gets a path that no other one has.
    """
    with closing(memory_file(name, data)) as descriptor:
        # A random number, spelt in steps that lead nowhere.
        number = int.from_bytes(os.urandom(8), "big") | 1 << 64
        steps = "".join("/." if bit == "1" else "/" for bit in f"{number:b}")
        yield f"/proc/self/fd{steps}/{descriptor}"
