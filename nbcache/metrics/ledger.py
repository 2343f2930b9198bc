"""Counters over all usage records of a store, cheap to ask for again and again.

What records add up to only ever grows: a record that is folded is in the sum from then on. So these are counters in
Prometheus' sense, wherever they are read and however often a daemon was started meanwhile. The one moment at which
records are in the sum *and* still there, while somebody folds, is noticed and waited for.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Final

from nbcache.store import layout, reasons, usage
from nbcache.store.content import stamp_of
from nbcache.store.folders import Folder
from nbcache.store.usage import Record

READ_BYTES: Final = 64 << 20
"""How much of new records is read at once [bytes]."""
READ_SECONDS: Final = 5.0
"""How long they are listed and read at once [s]."""
_ATTEMPTS: Final = 5
_PAUSE: Final = 0.2


class Ledger:
    """Reads each record of one store once."""

    def __init__(self, root: str) -> None:
        """Read nothing yet."""
        self._root = root
        self._known: dict[str, tuple[tuple[int, int], Record | None]] = {}
        self._folded: tuple[tuple[int, int, int] | None, Record] = (None, {})

    def sums(self) -> tuple[Record, bool]:
        """Return what all records add up to now, with reasons as words, and whether all were read. Never raises."""
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
        total = usage.nothing()
        for each in (self._folded[1], *(record for _, record in self._known.values())):
            usage.add(total, each or {})
        return total, bool(found)

    def _read_records(self) -> bool:
        """Read what is new, and forget what is gone; return whether that was all."""
        budget = usage.Budget(READ_BYTES, READ_SECONDS)
        latest: dict[str, tuple[tuple[int, int], Record | None]] = {}

        def is_new(name: str, status: os.stat_result) -> bool:
            known = self._known.get(name)
            if known is None or known[0] != _identity_of(status):
                return True
            latest[name] = known
            return False

        with suppress(FileNotFoundError), Folder(self._root, layout.USAGE) as folder:
            for name, record, status in usage.records(folder, budget, wanted=is_new):
                latest[name] = _identity_of(status), None if record is None else reasons.brief(record)
        self._known = {**self._known, **latest} if budget.over else latest
        return not budget.over

    def _read_sum(self) -> bool:
        """Read the sum if it changed; return whether that was possible, or there is none."""
        identity = self._identity()
        if identity is None:
            self._folded = (None, {})
        elif identity != self._folded[0]:
            # What can't be read now may be read later: that isn't nothing.
            if not os.access(f"{self._root}/{layout.USAGE_TOTAL}", os.R_OK):
                return False
            total = usage.read_total(self._root)
            self._folded = (identity, {} if total is None else reasons.brief(total))
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

    def _identity(self) -> tuple[int, int, int] | None:
        return stamp_of(f"{self._root}/{layout.USAGE_TOTAL}")


def _identity_of(status: os.stat_result) -> tuple[int, int]:
    return status.st_mtime_ns, status.st_size
