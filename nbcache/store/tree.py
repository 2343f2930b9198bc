"""The directories of a store: which there are, and making them with the right permissions."""

from __future__ import annotations

from typing import Final

from nbcache.process import os
from nbcache.store import atomic, layout

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


def make_root(path: str) -> bool:
    """Make a directory and those above it; return whether it was this process that made it."""
    parent = os.path.dirname(path)
    if parent != path and not os.path.isdir(parent):  # a program with a mock in the place of os.stat has none at all
        make_root(parent)
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
    # A directory that held other things before must not be left out of backups because a cache moved in.
    tag_root = tag_root or set(os.listdir(path)) <= {layout.LAYOUT, layout.TAG}
    for name, mode in _TREE:
        atomic.make_directory(f"{path}/{name}", mode)
    tag = f"{path}/{layout.TAG}" if tag_root else f"{path}/{layout.LAYOUT}/{layout.TAG}"
    atomic.write_file(tag, layout.TAG_TEXT, durable=False)
