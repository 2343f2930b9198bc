"""Making system calls of programs fail, each at random: the other side of ``tests/faults/injector.c``."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import struct
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest

from nbtest import proc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

SOURCE = proc.ROOT / "tests/faults/injector.c"
EVERYTHING = (1 << 64) - 1
OWN, CHILDREN = 0, 1
_CALLS, _PATHS, _LENGTH = 512, 12, 512
_HEAD = struct.Struct("=4I2QiI")
_WANTED = _HEAD.size
_FAILED = _WANTED + _CALLS
_BROKEN = _FAILED + 2 * 8 * _CALLS
_SPARED = _BROKEN + _PATHS * _LENGTH
_SIZE = _SPARED + _PATHS * _LENGTH
_ON, _LEFT, _PID = struct.Struct("=I"), struct.Struct("=Q"), struct.Struct("=i")
_LEFT_AT, _PID_AT = 24, 32

_LOOKING = frozenset({"open", "openat", "stat", "lstat", "newfstatat", "statx", "access", "faccessat", "readlink", "readlinkat", "statfs"})  # fmt: skip
_READING = frozenset({"read", "pread64", "fstat", "getdents64", "flock", "fcntl", "mmap", "fgetxattr", "fstatfs", "inotify_add_watch"})  # fmt: skip
_CHANGING = frozenset({"mkdir", "mkdirat", "rmdir", "unlink", "unlinkat", "chmod", "fchmod", "fchmodat", "utimensat", "rename", "renameat", "renameat2", "link", "linkat", "truncate"})  # fmt: skip
_WRITING = frozenset({"write", "pwrite64", "fsync", "fdatasync", "ftruncate", "fallocate"})
_NEW = frozenset({"pipe", "pipe2", "dup", "dup2", "dup3", "fcntl", "socket", "socketpair", "accept4", "memfd_create", "eventfd2", "epoll_create", "epoll_create1", "inotify_init", "inotify_init1", "pidfd_open"})  # fmt: skip

FAULTS: dict[int, frozenset[str]] = {
    errno.EIO: _LOOKING | _READING | _CHANGING | _WRITING,
    errno.ESTALE: _LOOKING | _READING | _CHANGING | _WRITING,
    errno.ENOSPC: _CHANGING - {"unlink", "unlinkat", "rmdir"} | _WRITING | {"open", "openat"},
    errno.EMFILE: _NEW | {"open", "openat"},
    errno.EACCES: _LOOKING | _CHANGING | {"inotify_add_watch"},
}
"""What each error is an answer to: it is given to no other call."""


class Plan(NamedTuple):
    """What is to fail."""

    error: int
    every: int
    """One of so many calls."""
    broken: tuple[Path, ...]
    """What lies below these fails; where there are no descriptors left, of all others too, but what is `spared`."""
    spared: tuple[Path, ...] = ()
    children: bool = True
    """Whether processes that the first one starts are concerned."""
    left: int = EVERYTHING
    calls: frozenset[str] = frozenset()
    """Those of `FAULTS` that fail; all if empty."""


class Injector:
    """One control file. What runs under it: `command`."""

    def __init__(self, program: Path, path: Path, seed: int) -> None:
        """Make it; nothing fails yet."""
        self._program = program
        self._path = path
        self._numbers = _numbers(program)
        path.write_bytes(bytes(_SIZE))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _SIZE)
        self._map[: _HEAD.size] = _HEAD.pack(0, 0, 1, 0, seed, 0, 0, 0)

    def command(self, argv: Iterable[str]) -> list[str]:
        """What to execute instead of *argv*."""
        return [str(self._program), str(self._path), *map(str, argv)]

    @property
    def pid(self) -> int:
        """The command's."""
        return _PID.unpack_from(self._map, _PID_AT)[0]

    @property
    def left(self) -> int:
        """How many may still fail."""
        return _LEFT.unpack_from(self._map, _LEFT_AT)[0]

    @contextmanager
    def failing(self, plan: Plan) -> Iterator[None]:
        """Make calls fail within."""
        seed = struct.unpack_from("=Q", self._map, 16)[0]
        anywhere = plan.error == errno.EMFILE
        wanted = bytearray(_CALLS)
        for name in plan.calls or FAULTS[plan.error]:
            if name in self._numbers:
                wanted[self._numbers[name]] = 1
        self._map[_WANTED : _WANTED + _CALLS] = bytes(wanted)
        self._paths(_BROKEN, plan.broken)
        self._paths(_SPARED, plan.spared)
        head = _HEAD.pack(1, plan.error, plan.every, anywhere, seed, plan.left, self.pid, plan.children)
        self._map[4 : _HEAD.size] = head[4:]
        _ON.pack_into(self._map, 0, 1)
        try:
            yield
        finally:
            _ON.pack_into(self._map, 0, 0)

    def failed(self) -> dict[tuple[int, str], int]:
        """How often which call was made to fail so far, of the command and of what it started."""
        counts = struct.unpack_from(f"={2 * _CALLS}Q", self._map, _FAILED)
        return {
            (who, name): count
            for who in (OWN, CHILDREN)
            for name, number in self._numbers.items()
            if (count := counts[who * _CALLS + number])
        }

    def _paths(self, at: int, paths: Iterable[Path]) -> None:
        block = b"".join(os.fsencode(path).ljust(_LENGTH, b"\0") for path in paths)
        assert len(block) <= _PATHS * _LENGTH
        self._map[at : at + _PATHS * _LENGTH] = block.ljust(_PATHS * _LENGTH, b"\0")


def compiled(folder: Path) -> Path:
    """Compile the injector; skip where there is no compiler, or a kernel that can't."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler, for the program that makes system calls fail")
    program = folder / "injector"
    done = subprocess.run(
        [compiler, "-O2", "-Wall", "-o", str(program), str(SOURCE)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"the program that makes system calls fail can't be compiled: {done.stderr[:200]}")
    Injector(program, folder / "tried", 1)
    tried = subprocess.run([str(program), str(folder / "tried"), "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"system calls can't be made to fail here: {tried.stderr[:200]}")
    return program


def _numbers(program: Path) -> dict[str, int]:
    said = subprocess.run([str(program), "--calls"], capture_output=True, text=True, check=True).stdout
    return {name: int(number) for number, name, _about in map(str.split, said.splitlines())}
