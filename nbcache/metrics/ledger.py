"""Counters over all usage records of a store, cheap to ask for again and again.

What records add up to only ever grows: a record that is folded is in the sum from then on. So these are counters in
Prometheus' sense, wherever they are read and however often a daemon was started meanwhile. The one moment at which
records are in the sum *and* still there, while somebody folds, is noticed and waited for.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from nbcache.store import layout, reasons, usage
from nbcache.store.folders import Folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbcache.store.usage import Record

READ_BYTES: Final = 64 << 20
"""How much of new records is read at once [bytes]."""
READ_SECONDS: Final = 5.0
"""How long they are listed and read at once [s]."""
_ATTEMPTS: Final = 5
_PAUSE: Final = 0.2


@dataclass(slots=True)
class Sums:
    """What records add up to."""

    processes: int = 0
    hits: int = 0
    saved_seconds: float = 0.0
    builds: int = 0
    built_seconds: float = 0.0
    published: int = 0
    uncacheable: int = 0
    evicted: int = 0
    evicted_bytes: int = 0
    waited_seconds: float = 0.0
    waits: dict[str, int] = field(default_factory=dict)
    """How often somebody was waited for, by the words of :mod:`nbcache.store.reasons`."""
    misses: dict[str, int] = field(default_factory=dict)
    """By each of :data:`nbcache.store.reasons.MISSES` that occurred."""
    errors: dict[str, int] = field(default_factory=dict)
    """By each of :data:`nbcache.store.reasons.ERRORS` that occurred."""
    checks: dict[str, int] = field(default_factory=dict)
    """By each of :data:`nbcache.store.reasons.CHECKS` that occurred."""
    complete: bool = True
    """Whether all records were read."""

    def add(self, other: Sums) -> None:
        """Add another one's."""
        for name in _NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("misses", "errors", "waits", "checks"):
            mine, more = getattr(self, name), getattr(other, name)
            for word, count in more.items():
                mine[word] = mine.get(word, 0) + count


_NUMBERS: Final = (
    "processes", "hits", "saved_seconds", "builds", "built_seconds", "published", "uncacheable", "evicted",
    "evicted_bytes", "waited_seconds",
)  # fmt: skip


def sums_of(record: Record) -> Sums:
    """Return what one record, or the sum of many, tells."""
    return Sums(
        processes=record["processes"],
        hits=record["hit_count"],
        saved_seconds=record["saved_seconds"],
        builds=record["builds_count"],
        built_seconds=record["built_seconds"],
        published=record["published"],
        uncacheable=sum(item["count"] for item in record["uncacheable"].values()),
        evicted=record["evicted"],
        evicted_bytes=record["evicted_bytes"],
        waited_seconds=record["waited_seconds"],
        waits={word: record["waits"].get(word, 0) for word in (*reasons.WAITS, reasons.IN_VAIN)},
        misses=reasons.misses(record["misses"]),
        errors=_by_word(record["errors"], reasons.error),
        checks=_by_word(record["checks"], reasons.check),
    )


def _by_word(counts: dict[str, int], word_of: Callable[[str], str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for what, count in counts.items():
        word = word_of(what)
        found[word] = found.get(word, 0) + count
    return found


class Ledger:
    """Reads each record of one store once."""

    def __init__(self, root: str) -> None:
        """Read nothing yet."""
        self._root = root
        self._known: dict[str, tuple[tuple[int, int], Sums | None]] = {}
        self._folded: tuple[tuple[int, int] | None, Sums] = (None, Sums())

    def sums(self) -> Sums:
        """Return what all records add up to now. Never raises: what can't be read is left out, and not ``complete``."""
        found = None
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(_PAUSE)
            before = self._identity()
            try:
                complete = self._read_records() & self._read_sum()
            except OSError:  # no permission, or a disk with errors
                break
            if not complete or (before == self._identity() and self._still_there()):
                found = complete
                break
        total = Sums(complete=bool(found))
        for _, each in self._known.values():
            if each is not None:
                total.add(each)
        total.add(self._folded[1])
        return total

    def _read_records(self) -> bool:
        """Read what is new, and forget what is gone; return whether that was all."""
        budget, is_new = usage.Budget(READ_BYTES, READ_SECONDS), usage.First()
        latest: dict[str, tuple[tuple[int, int], Sums | None]] = {}
        seen = 0
        with suppress(FileNotFoundError), Folder(self._root, layout.USAGE) as folder:
            for item in islice(folder.json_files(budget.allows), usage.MAX_RECORDS):
                seen += 1
                with suppress(OSError):
                    status = item.stat(follow_symlinks=False)
                    if not is_new(status):
                        continue
                    identity = (status.st_mtime_ns, status.st_size)
                    known = self._known.get(item.name)
                    if known is None or known[0] != identity:
                        if not budget.allows(min(status.st_size, usage.MAX_RECORD)):
                            continue
                        known = (identity, self._load(folder, item.name))
                    latest[item.name] = known
        self._known = latest
        return not budget.over and seen < usage.MAX_RECORDS

    @staticmethod
    def _load(folder: Folder, name: str) -> Sums | None:
        found = usage.load(name, opener=folder.open)
        return None if found is None else sums_of(found[0])

    def _read_sum(self) -> bool:
        """Read the sum if it changed; return whether that was possible, or there is none."""
        identity = self._identity()
        if identity is None:
            self._folded = (None, Sums())
        elif identity != self._folded[0]:
            # What can't be read now may be read later: that isn't nothing.
            if not os.access(f"{self._root}/{layout.USAGE_TOTAL}", os.R_OK):
                return False
            total = usage.read_total(self._root)
            self._folded = (identity, Sums() if total is None else sums_of(total))
        return True

    def _still_there(self) -> bool:
        """Whether none of the records that were read is gone: then nobody was folding them."""
        unseen = set(self._known)
        in_time = usage.Budget(seconds=READ_SECONDS).allows
        with suppress(OSError), Folder(self._root, layout.USAGE) as folder:
            for item in folder.json_files(in_time):
                unseen.discard(item.name)
                if not unseen:
                    break
        return not unseen

    def _identity(self) -> tuple[int, int] | None:
        with suppress(OSError):
            status = os.lstat(f"{self._root}/{layout.USAGE_TOTAL}")
            return status.st_mtime_ns, status.st_ino
        return None
