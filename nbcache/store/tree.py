"""The directories of a store: making them with the right permissions, and judging those that are there."""

from __future__ import annotations

import errno
import stat
from typing import Final

from nbcache.passing import suppressed
from nbcache.process import os
from nbcache.store import layout
from nbcache.store.content import read_up_to, reading
from nbcache.trust import Trust

GONE: Final = frozenset({errno.ENOENT, errno.ESTALE, errno.ENOTDIR})
_TREE: Final = (
    (layout.LAYOUT, layout.DIR_MODE),
    (layout.ANSWERS, layout.DIR_MODE),
    (layout.FAILED, layout.DIR_MODE),
    (layout.LEASES, layout.DIR_MODE),
    (layout.DAEMON, layout.DIR_MODE),
    # Open to everybody who may read, and sticky: a client whose uid may not write entries still asks for them
    # (requests/), tells what it crashed with (trials/), leaves what it compiled (profiles/; all in a directory of its
    # own there) and that it used them (usage/), or eviction would take what only such clients use. Nothing that lies
    # there is trusted for where it lies.
    # Whoever wants it otherwise changes the mode: it is set only when the directory is made.
    (layout.REQUESTS, layout.DROP_MODE),
    (layout.USAGE, layout.DROP_MODE),
    (layout.TRIALS, layout.DROP_MODE),
    (layout.PROFILES, layout.DROP_MODE),
    # Last: where this one is, the others are.
    (layout.OBJECTS, layout.DIR_MODE),
)


def real_path(given: str, trust: Trust) -> str:
    """Return the path without links of a directory that somebody named, which needn't be there.

    Whoever made a link on the way says which directory it is, and even one that a trusted user owns may hold what
    others wrote: an archive of theirs that was unpacked there. So it has to be somebody's who is trusted. Raises
    OSError, ValueError: why not.
    """
    path = os.path.realpath(given)
    if path == given:
        return path
    from nbcache.importing import Paths  # there are seldom links

    return Paths(trust, absent=True).directory(os.path.join(os.getcwd(), given))


SHARED_PLACE: Final = (
    ". Others could put another store in its place: chmod +t on it prevents that, and so does mounting the store alone"
    " (subPath in Kubernetes); see docs/hpc.md and docs/containers.md"
)
"""What to do about a directory above a store that others may write, as project directories and volumes are."""


def prepare(path: str, given: str, trust: Trust, *, readonly: bool) -> str | None:
    """Make the store if need be and look at what is there; return what is wrong. May raise OSError."""
    name = f"NBCACHE_DIR={given}"
    made = False
    try:
        status = os.stat(path)
    except FileNotFoundError:
        if readonly:
            return f"{name} does not exist and NBCACHE_READONLY is set"
        made = make_root(path)
        status = os.stat(path)
    if not stat.S_ISDIR(status.st_mode):
        return f"{name} is not a directory"
    problem = trust.path_problem(path)
    if problem is not None:
        above = problem.startswith("lies in") and "is writable by" in problem
        return f"{name} {problem}{SHARED_PLACE if above else ''}"
    if not readonly:
        # A full or read-only disk doesn't keep anybody from reading what is there.
        with suppressed(OSError):
            make_tree(path, tag_root=made)
    inner = inner_problem(path, trust)
    return inner and f"{name}: its {inner}"


def inner_problem(path: str, trust: Trust) -> str | None:
    """Say what is wrong with the directories between the root and the shards, those that exist."""
    for inner in (layout.LAYOUT, layout.OBJECTS):
        if os.path.lexists(f"{path}/{inner}"):
            problem = trust.directory_problem(f"{path}/{inner}")
            if problem is not None:
                return f"{inner} {problem}"
    return None


class Inside:
    """Which directories inside a store are trusted. Each is judged once: nobody but a trusted owner can make one that
    passed any worse.
    """

    def __init__(self, root: str, trust: Trust) -> None:
        """``root`` is a store's, opened and judged."""
        self._root = root
        self._trust = trust
        self._fine = {""}

    def read(self, directory: str, file: str, most: int) -> bytes | str | None:
        """Return what a file holds, *most* bytes at most; what is wrong with it; or None if it isn't there.

        Raises OSError for what can't be read.
        """
        path = f"{self._root}/{directory}/{file}"
        try:
            problem = self.problem(directory)
            if problem is not None:
                os.lstat(f"{self._root}/{directory}")  # with what isn't there nothing is wrong
                return problem
            with reading(path) as (fd, status):
                return self._trust.file_problem(status, fd) or read_up_to(fd, min(status.st_size, most))
        except OSError as error:
            if error.errno == errno.ELOOP:
                return "is a symbolic link: none is followed"
            if error.errno in GONE:
                return None
            raise

    def problem(self, name: str) -> str | None:
        """Say what is wrong with the directory of this name, or those between it and the root. Never raises."""
        if name in self._fine:
            return None
        problem = self.problem(name.rpartition("/")[0])
        if problem is None:
            path = f"{self._root}/{name}"
            found = self._trust.directory_problem(path)
            problem = found and f"lies in {path}, which {found}"
            if problem is None:
                self._fine.add(name)
        return problem


def make_root(path: str) -> bool:
    """Make a directory and those above it; return whether it was this process that made it."""
    parent = os.path.dirname(path)
    if parent != path and not os.path.isdir(parent):  # a program with a mock in the place of os.stat has none at all
        make_root(parent)
    from nbcache.store import atomic  # most processes make nothing

    return atomic.make_directory(path)


def names() -> list[str]:
    """Return the names of the directories in a store, those inside others first."""
    return sorted((name for name, _ in _TREE), key=len, reverse=True)


def missing(path: str) -> list[str]:
    """Return those directories of a store that aren't there."""
    return [name for name, _ in _TREE if not os.path.isdir(f"{path}/{name}")]


def links(path: str) -> list[str]:
    """Return those directories of a store that are symbolic links: nothing behind them is looked at."""
    return [name for name, _ in _TREE if os.path.islink(f"{path}/{name}")]


def make_tree(path: str, *, tag_root: bool = False, whole: bool = False) -> None:
    """Make the directories inside an existing root, as far as they are missing, and mark them as a cache.

    ``tag_root`` says that this process made the root. Without ``whole``, the others are taken for granted where the
    entries' directory is. Any number of processes may do this at once. Raises OSError.
    """
    if os.path.isdir(f"{path}/{layout.OBJECTS}") and not (whole and missing(path)):
        return
    from nbcache.store import atomic

    # A directory that held other things before must not be left out of backups because a cache moved in.
    tag_root = tag_root or set(os.listdir(path)) <= {layout.LAYOUT, layout.TAG}
    for name, mode in _TREE:
        atomic.make_directory(f"{path}/{name}", mode)
    tag = f"{path}/{layout.TAG}" if tag_root else f"{path}/{layout.LAYOUT}/{layout.TAG}"
    atomic.write_file(tag, layout.TAG_TEXT, durable=False)


def may_write(path: str) -> bool:
    """Whether entries may be written: asked of the nearest directory that exists."""
    for name in (f"{path}/{layout.OBJECTS}", path):
        if os.path.isdir(name):
            effective = os.access in os.supports_effective_ids
            return os.access(name, os.W_OK | os.X_OK, effective_ids=effective)
    return False
