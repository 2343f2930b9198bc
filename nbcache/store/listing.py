"""Looking through a whole store: what is in it, what was left over. Streams; holds one directory's names at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from nbcache.passing_exceptions import suppressed
from nbcache.process import time
from nbcache.records import Record
from nbcache.store import entry as entry_format
from nbcache.store import layout
from nbcache.store.content import reading
from nbcache.store.entry import Header
from nbcache.store.folders import Folder

STALE_SECONDS: Final = 3600.0
"""From this age a temporary or a lease belongs to nobody [s]."""
_HEADER_READ: Final = 4096


class BadEntry(Record):
    """An entry that :meth:`~nbcache.store.directory.Store.verify` found wanting."""

    path: str
    key: str
    reason: str
    """One of :data:`~nbcache.store.reasons.REJECTIONS`."""
    removed: bool


class EntryInfo(Record):
    """An entry as a listing shows it. Nothing but its name was looked at: it may be damaged."""

    path: str
    key: str
    slot: int
    size: int
    """[bytes]"""
    mtime: float
    """Unix time [s]"""

    @property
    def header(self) -> Header | None:
        """The header, read now; None when the entry is damaged, of another version or gone.

        Fit to show, not to act upon: who owns the file isn't checked.
        """
        with suppressed(OSError), reading(self.path) as (fd, _):
            found = entry_format.examine(fd, first=_HEADER_READ, eager=False)
            return None if isinstance(found, str) else found.header
        return None


def shards(root: str, where: str = layout.OBJECTS) -> list[str]:
    """Return the names of the directories of entries (or of files, by digest) that exist, sorted."""
    with suppressed(OSError), Folder(root, where) as folder:
        return sorted(item.name for item in folder.items() if layout.is_shard(item.name))
    return []


def scan(root: str, only: Iterable[str] | None = None) -> Iterator[EntryInfo]:
    """Yield the entries of a store, or of the shards ``only``. What vanishes meanwhile is left out; never raises."""
    for shard in shards(root) if only is None else only:
        with suppressed(OSError), Folder(root, f"{layout.OBJECTS}/{shard}") as folder:
            for item in list(folder.items()):
                named = layout.read_name(shard, item.name)
                if named is None:
                    continue
                with suppressed(OSError):
                    status = item.stat(follow_symlinks=False)
                    path = f"{root}/{layout.OBJECTS}/{shard}/{item.name}"
                    yield EntryInfo(path, *named, status.st_size, status.st_mtime)


def sweep(root: str, *, now: float | None = None, leases: bool = True, deadline: float = float("inf")) -> int:
    """Remove temporaries and leases that nobody touched for :data:`STALE_SECONDS`; return how many. Never raises.

    Without ``leases``, only temporaries. After ``deadline`` (of :func:`time.monotonic`) the rest is left for next time,
    in the middle of a directory as well.
    """
    limit = (time.time() if now is None else now) - STALE_SECONDS
    count = 0
    for name in _swept_directories(root):
        begun = time.monotonic()
        if begun > deadline:
            break
        # Strangers may have filled the first ones: something is left for those behind.
        in_time = _before(begun + (deadline - begun) / 2)
        anything = leases and name == layout.LEASES
        with suppressed(OSError), Folder(root, name) as folder:
            for item in folder.items(in_time):
                if not anything and not (item.name.startswith(".") and item.name.endswith(layout.TEMPORARY)):
                    continue
                with suppressed(OSError):
                    if not item.is_dir(follow_symlinks=False) and item.stat(follow_symlinks=False).st_mtime < limit:
                        count += folder.remove(item.name)
    return count


def _before(moment: float) -> Callable[[], bool]:
    return lambda: time.monotonic() <= moment


def _swept_directories(root: str) -> Iterator[str]:
    # The few where others may put things first: these are swept even by a process with little time.
    yield from (layout.LEASES, layout.USAGE, layout.REQUESTS, layout.FAILED, layout.DAEMON, layout.LAYOUT, "")
    yield layout.NAMES
    for where in (layout.OBJECTS, layout.FILES):
        for shard in shards(root, where):
            yield f"{where}/{shard}"
