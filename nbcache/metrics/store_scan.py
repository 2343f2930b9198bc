"""What is to be measured of a store, looked at now: counters, sizes, daemons. Plain numbers.

Nothing here raises for what a filesystem does: a store that can't be used is a :class:`Look` that says so.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final

from nbcache.config import Settings
from nbcache.metrics.ledger import Ledger
from nbcache.protocol import heartbeats
from nbcache.store import layout, quarantine
from nbcache.store.directory import Store
from nbcache.store.folders import Folder
from nbcache.store.opened import Refusal
from nbcache.store.usage import Record

MOST_FAILURES: Final = 10_000
"""How many failures are counted; daemons keep a tenth of that."""


@dataclass(slots=True)
class Look:
    """A store at one moment."""

    root: str
    problem: str | None = None
    """Why the store can't be used: then there are no other numbers."""
    taken: float = 0.0
    """Unix time [s]."""
    sums: Record | None = None
    """What usage records add up to; None while not all of them were ever read: a part of them is no counter."""
    complete: bool = False
    """Whether :attr:`sums` are those of now."""
    entries: int = 0
    size: int = 0
    """[bytes]"""
    limit: int = 0
    """[bytes]; 0 for none."""
    free: int = 0
    """What the filesystem has left for this user [bytes]."""
    failures: int = 0
    quarantined: int = 0
    """Entries that are skipped because programs crashed in them."""
    daemons: int = 0
    """Those that are alive."""
    workers: int = 0
    busy: int = 0
    queued: int = 0
    """Requests that no worker has begun."""


class Looker:
    """Looks at one store, again and again."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        """Look at nothing yet. ``settings`` says which store, and its limit."""
        self._settings = settings
        self._ledger: Ledger | None = None
        self._sums: Record | None = None
        self._root = ""

    def look(self, seconds: float = 0.0) -> Look:
        """Return how it is now; takes as long as a listing of the store where no daemon counts its entries.

        Of usage records, what is read at once is bounded; ``seconds`` is how long to go on until that was all [s].
        """
        settings = self._settings()
        root = os.path.realpath(settings.dir or "")
        # The store's own words would be about how it is opened here.
        if not os.path.lexists(root) or (os.path.isdir(root) and not os.path.isdir(f"{root}/{layout.OBJECTS}")):
            return Look(root, f"no cache in {root}", time.time())
        store = Store.open(settings._replace(readonly=True))
        if isinstance(store, Refusal):
            return Look(root, store.reason, time.time())
        if self._ledger is None or self._root != store.path:
            self._ledger, self._root, self._sums = Ledger(store.path), store.path, None
        found = Look(root, None, time.time(), limit=settings.max_size)
        self._add_up(found, self._ledger, seconds)
        _look_at_daemons(store, found)
        if not found.entries:
            for info in store.scan():
                found.entries += 1
                found.size += info.size
        found.failures = _count(store.path, layout.FAILED)
        found.quarantined = _quarantined(store)
        with suppress(OSError):
            status = os.statvfs(store.path)
            found.free = status.f_bavail * status.f_frsize
        return found

    def _add_up(self, found: Look, ledger: Ledger, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        before = None
        while True:
            sums, complete = ledger.sums()
            if complete:
                self._sums = sums
            # What this user may not read doesn't come by waiting.
            if complete or sums == before or time.monotonic() >= deadline:
                break
            before = sums
        found.sums, found.complete = self._sums, complete


def _look_at_daemons(store: Store, found: Look) -> None:
    alive = [each for each in heartbeats.read(store.path, store.trust) if each.alive]
    found.daemons = len(alive)
    found.workers = sum(max(0, each.workers) for each in alive)
    found.busy = sum(max(0, each.busy) for each in alive)
    # Each of them sees the same requests.
    found.queued = max((each.queue for each in alive), default=0)
    counted = max(alive, key=lambda each: each.beat, default=None)
    if counted is not None:
        found.entries, found.size = counted.entries, counted.size


def _quarantined(store: Store) -> int:
    """How many entries are there that are skipped; crashes are remembered for long after one was built again."""
    condemned = [each for each in quarantine.read(store.path, store.trust).values() if each.condemned]
    return sum(any(entry.digest == each.digest for entry in store.find(each.key)) for each in condemned)


def _count(root: str, name: str) -> int:
    with suppress(OSError), Folder(root, name) as folder:
        return sum(1 for _ in islice(folder.json_files(), MOST_FAILURES))
    return 0
