"""What one daemon knows: the entries of the store, what it built, what failed. Decides what is evicted.

All of it is derived or for people to read: losing it costs a recount and the history, never an entry. It is kept in a
:class:`~nbcache.daemon.state.State` on local disk, whose promises hold here too: nothing raises.

How it is kept
--------------
One value for each directory of the store (a *shard*, the first two digits of a key), so that reconciling a directory
with what is known of it is one read, one comparison and one write, however many entries there are. ::

    STATE_VERSION = 3

    shard/ab    {key: [last use, [[slot, size, mtime, created, compile seconds, asked], ...]]}
    sums        {"ab": [entries, bytes, compile seconds]}      of each shard, written along with it
    cursor      "ab"                                           the shard counted last
    counted     Unix time of the end of the last complete count
    usage       [mtime of the sum of usage records, {name of a record: its size (bytes) when it was read, ...}]

Who may wait for whom
---------------------
:meth:`~Catalogue.recount`, :meth:`~Catalogue.fold_usage` and :meth:`~Catalogue.evict` look at the shared filesystem, in
slices, and wait for one another. The rest only touches local disk and waits for nobody: those who answer requests may
call it while another thread keeps house.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nbcache.daemon import rows
from nbcache.daemon.history import History
from nbcache.daemon.rows import Entry, File, Shard
from nbcache.daemon.state import State
from nbcache.store import evict, folding, layout, listing, pins, standing, usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from nbcache.daemon.audit import Audit
    from nbcache.daemon.history import Failure, Job
    from nbcache.store import Store
    from nbcache.store.listing import EntryInfo

STATE_VERSION: Final = 3
FOLDED_AT_ONCE: Final = 500
"""How many usage records are summed up in one go."""
FOLDED_BYTES: Final = 8 << 20
"""How large these are together [bytes]."""
_SUM: Final = (int, int, float)
_SEEN: Final = (float, dict)


@dataclass(frozen=True, slots=True)
class Totals:
    """The catalogue in numbers."""

    entries: int
    """Files, that is, variants."""
    size: int
    """[bytes]"""
    compile_seconds: float
    """What building all of it took [s]."""
    counted: float
    """When the last complete count ended, Unix time [s]; 0 for never: then the others are too small."""


@dataclass(frozen=True, slots=True)
class Evicted:
    """What :meth:`Catalogue.evict` did."""

    removed: int
    """Files that went."""
    freed: int
    """[bytes], those included that turned out to be gone already."""
    spared: int
    """Files that stay for now: they changed since they were counted."""
    left: int
    """Planned files that the time didn't suffice for."""


@dataclass(frozen=True, slots=True)
class _Planned:
    """An entry's file as :func:`nbcache.store.evict.plan` wants it."""

    path: str
    key: str
    slot: int
    size: int
    mtime: float
    asked: int


class Catalogue:
    """The catalogue of one store, and the daemon's history. No method raises."""

    def __init__(self, path: str, store: Store) -> None:
        """Open the state in the directory ``path`` (on local disk; made if it doesn't exist).

        A directory of another store's catalogue is no harm: the next count puts it right.
        """
        self._store = store
        self._state = State(path, STATE_VERSION)
        self._history = History(self._state)
        self._upkeep = threading.Lock()
        self._counting: Iterator[None] | None = None
        self._folding: Iterator[None] | None = None
        self._fresh: dict[str, None] = {}
        self._amended: set[str] = set()

    @property
    def problem(self) -> str | None:
        """Why the catalogue is in memory and forgotten at the end; None while it is on disk."""
        return self._state.problem

    def close(self) -> None:
        """Give the directory back. May be done twice."""
        self._state.close()

    # What answers requests.

    def job_done(self, key: str, what: str, seconds: float, outcome: str) -> None:
        """Remember that a job ended just now. :data:`~nbcache.daemon.history.BUILT` takes back a failure of that key.

        The next :meth:`recount` looks at its entry first.
        """
        self._history.job_done(key, what, seconds, outcome)
        if layout.is_key(key):
            self._fresh[key] = None

    def failure(self, key: str, what: str, reason: str) -> None:
        """Remember that something couldn't be built."""
        self._history.failure(key, what, reason)

    def recent_jobs(self, most: int = 20) -> list[Job]:
        """Return the last jobs, the newest first."""
        return self._history.recent_jobs(most)

    def failures(self) -> list[Failure]:
        """Return what couldn't be built and wasn't since, the newest first."""
        return self._history.failures()

    def totals(self) -> Totals:
        """Return the numbers, as of the last count."""
        sums = self._sums().values()
        entries, size, seconds = (sum(column) for column in zip(*sums, strict=True)) if sums else (0, 0, 0.0)
        return Totals(entries, size, seconds, rows.number(self._state.get("counted")))

    def entries(self) -> Iterator[tuple[str, Entry]]:
        """Yield every known key and what is known of it; a shard at a time, each as it was when it was begun."""
        for shard in sorted(self._sums()):
            yield from self._load(shard).items()

    # What keeps house.

    def recount(self, deadline: float) -> bool:
        """Compare the catalogue with the store until ``deadline`` (of :func:`time.monotonic`); go on there next time.

        Returns whether a round ended with this call; the next call then begins another one. At least one step is made:
        a listing of one directory, or a look at one file. Headers are read of new and changed entries alone.
        Directories that can't be listed are left as they were known.
        """
        with self._upkeep:
            self._look_at_fresh(deadline)
            if self._counting is None:
                self._counting = self._count()
            for _ in self._counting:
                if time.monotonic() >= deadline:
                    return False
            self._counting = None
            return True

    def fold_usage(self, deadline: float) -> bool:
        """Learn from the store's usage records what was hit, in slices as :meth:`recount`; return whether it is done.

        Nothing is learnt before the first complete count: records are only believed about entries that are there, or
        whoever can write one could fill this disk. When done, old records are summed up
        (:func:`nbcache.store.folding.fold`), as clients that may not write can't; that is one step however long it
        takes, bounded by :data:`FOLDED_AT_ONCE`, :data:`FOLDED_BYTES` and the size of the sum. A crash in between
        counts some hits twice.
        """
        with self._upkeep:
            if not self._state.get("counted"):
                return True
            if self._folding is None:
                self._folding = self._fold()
            for _ in self._folding:
                if time.monotonic() >= deadline:
                    return False
            self._folding = None
            return True

    def evict(self, max_size: int, budget: float, audit: Audit | None = None) -> Evicted:
        """Remove the least recently used entries when the catalogue is larger than ``max_size`` [bytes]; 0: no limit.

        Down to :data:`nbcache.store.evict.LOW_WATER` of it. Removing stops after ``budget`` [s]; planning, which
        is only done when something is to go, takes its own time (seconds for a million entries) and touches only
        local disk. Each file is looked at before it goes: one that isn't as it was counted stays, and is counted anew.
        *audit* gets a line for each that goes.
        """
        deadline = time.monotonic() + budget
        with self._upkeep:
            if not self._store.writable or max_size <= 0 or self.totals().size <= max_size:
                return Evicted(0, 0, 0, 0)
            with pins.held(self._store.lease, self._store.path, self._store.trust) as pinned:
                return self._apply(self._plan(max_size, pinned), deadline, audit)

    def _count(self) -> Iterator[None]:
        """One round over all shards, beginning behind the one counted last; a step at each ``yield``."""
        root = self._store.path
        if not _listable(f"{root}/{layout.OBJECTS}"):
            return
        present = listing.shards(root)
        cursor = self._state.get("cursor")
        begin = sum(name <= cursor for name in present) if isinstance(cursor, str) else 0
        for shard in [*present[begin:], *present[:begin]]:
            yield from self._count_shard(shard)
        gone = set(self._sums()).difference(present)
        for shard in gone:
            self._save(shard, {})
        self._state.put({"counted": time.time()})

    def _count_shard(self, shard: str) -> Iterator[None]:
        root = self._store.path
        self._amended.clear()
        known = self._load(shard)
        found: dict[str, list[File]] = {}
        for info in listing.scan(root, [shard]):
            found.setdefault(info.key, []).append(_look_at(info, known.get(info.key)))
            yield
        if not found and known and not _listable(f"{root}/{layout.OBJECTS}/{shard}"):
            return
        # Others may have had their say about this shard since it was loaded.
        latest = self._load(shard)
        merged: Shard = {key: entry for key, entry in latest.items() if key in self._amended}
        for key, files in found.items():
            if key not in self._amended:
                before = latest.get(key, Entry())
                merged[key] = Entry(tuple(sorted(files)), before.last_use)
        if merged == latest and shard in self._sums():
            self._state.put({"cursor": shard})
        else:
            self._save(shard, merged, cursor=shard)
        yield

    def _look_at_fresh(self, deadline: float) -> None:
        for keys in _by_shard(list(self._fresh)).values():
            if time.monotonic() >= deadline:
                break
            for key in keys:
                del self._fresh[key]
            self._amend(keys)

    def _amend(self, keys: Iterable[str]) -> None:
        """Look at the files of some keys and put down what is there."""
        for shard, members in _by_shard(keys).items():
            entries = self._load(shard)
            for key in members:
                self._amended.add(key)
                before = entries.pop(key, Entry())
                files = tuple(_look_at(info, before) for info in _slots(self._store.path, key))
                if files:
                    entries[key] = Entry(files, before.last_use)
            self._save(shard, entries)

    def _fold(self) -> Iterator[None]:
        root = self._store.path
        known: set[str] = set()
        for shard in sorted(self._sums()):
            known.update(self._load(shard))
            yield
        total_time, before = self._usage_seen()
        seen, last_use, is_new = dict[str, int](), dict[str, float](), usage.First()

        def learn(record: usage.Record) -> None:
            # Of others nothing is kept, or a forger could fill the memory.
            found = usage.last_use([record], known.__contains__)
            last_use.update({key: max(when, last_use.get(key, 0.0)) for key, when in found.items()})

        for path in usage.paths(root):
            name, size = os.path.basename(path), _size(path)
            seen[name] = before.get(name, 0)
            if size != seen[name]:
                loaded = usage.load(path, is_new=is_new)
                if loaded is not None:
                    learn(loaded[0])
                seen[name] = size
            yield
        total_path = f"{root}/{layout.USAGE_TOTAL}"
        latest = _mtime(total_path)
        if latest != total_time:
            total = usage.read_total(root)
            if total is not None:
                learn(total)
            yield
        for shard in _by_shard(last_use):
            self._learn(shard, last_use)
            yield
        if self._store.writable and latest == _mtime(total_path):
            folding.fold(root, known.__contains__, most=FOLDED_AT_ONCE, budget=usage.Budget(FOLDED_BYTES))
            # What this one added to the sum, it knows.
            latest = _mtime(total_path)
        self._state.put({"usage": [latest, seen]})

    def _learn(self, shard: str, last_use: Mapping[str, float]) -> None:
        """Put down what was hit in a shard."""
        entries = self._load(shard)
        for key, entry in entries.items():
            entry.last_use = max(entry.last_use, last_use.get(key, 0.0))
        self._save(shard, entries)

    def _plan(self, max_size: int, pinned: pins.Pins) -> dict[str, dict[int, _Planned]]:
        """Return the files to remove, by key and slot, the key with the least recently used one first."""
        root = self._store.path
        files: dict[str, _Planned] = {}
        last_use: dict[str, float] = {}
        for key, entry in self.entries():
            stem = layout.stem(root, key)
            last_use[key] = entry.last_use
            for file in entry.files:
                path = stem + layout.SUFFIXES[file.slot]
                files[path] = _Planned(path, key, file.slot, file.size, file.mtime, file.asked)
        plan: dict[str, dict[int, _Planned]] = {}
        for path in evict.plan(
            files.values(), max_size, time.time(), last_use, pinned, asker=lambda planned: planned.asked
        ).remove:
            plan.setdefault(files[path].key, {})[files[path].slot] = files[path]
        return plan

    def _apply(self, plan: Mapping[str, Mapping[int, _Planned]], deadline: float, audit: Audit | None) -> Evicted:
        removed = freed = spared = left = 0
        struck: dict[str, list[int]] = {}
        for key, slots in plan.items():
            if time.monotonic() >= deadline:
                left += len(slots)
                continue
            # From the last slot to the first, since removing one moves the last into its place.
            for slot in sorted(slots, reverse=True):
                file = slots[slot]
                now = _identity(file.path)
                if now is not None and now != (file.size, file.mtime):
                    spared += 1
                    self._fresh[key] = None
                elif now is None or evict.remove_slot(file.path):
                    removed += now is not None
                    freed += file.size
                    struck.setdefault(key, []).append(slot)
                    if audit is not None and now is not None:
                        audit.record("evicted", key=key, asked=file.asked, bytes=file.size, reason=evict.REASON)
        self._strike(struck)
        return Evicted(removed, freed, spared, left)

    def _strike(self, struck: Mapping[str, Iterable[int]]) -> None:
        """Put down that slots were removed, in this order, and what :func:`evict.remove_slot` moved."""
        for shard, keys in _by_shard(struck).items():
            entries = self._load(shard)
            for key in keys:
                self._amended.add(key)
                entry = entries.pop(key, Entry())
                files = {file.slot: file for file in entry.files}
                for slot in struck[key]:
                    last = files.pop(max(files, default=slot), None)
                    if last is not None and last.slot != slot:
                        files[slot] = last._replace(slot=slot)
                if files:
                    entries[key] = Entry(tuple(sorted(files.values())), entry.last_use)
            self._save(shard, entries)

    # What is written down.

    def _load(self, shard: str) -> Shard:
        return rows.decode(self._state.get(f"shard/{shard}"))

    def _save(self, shard: str, entries: Shard, **more: object) -> None:
        sums = self._sums()
        sums.pop(shard, None)
        if entries:
            files = [file for entry in entries.values() for file in entry.files]
            sums[shard] = (len(files), sum(f.size for f in files), sum(f.compile_seconds for f in files))
        self._state.put({f"shard/{shard}": rows.encode(entries), "sums": sums, **more})

    def _sums(self) -> dict[str, tuple[int, int, float]]:
        raw = rows.mapping(self._state.get("sums"))
        found = ((shard, rows.row(row, _SUM)) for shard, row in raw.items())
        return {shard: row for shard, row in found if row is not None}

    def _usage_seen(self) -> tuple[float, dict[str, int]]:
        mtime, sizes = rows.row(self._state.get("usage"), _SEEN) or (0.0, {})
        return mtime, {name: size for name, size in sizes.items() if type(size) is int and size >= 0}


def _by_shard(keys: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key in keys:
        found.setdefault(key[: layout.SHARD], []).append(key)
    return found


def _look_at(info: EntryInfo, known: Entry | None) -> File:
    """Return what a file is, from what is known of it where it hasn't changed."""
    for file in () if known is None else known.files:
        if (file.size, file.mtime) == (info.size, info.mtime):
            return file._replace(slot=info.slot)
    header = info.header
    created, seconds = (0.0, 0.0) if header is None else (header.created, header.compile_seconds)
    asked = standing.OWNER if header is None else standing.asker(header)
    return File(info.slot, info.size, info.mtime, rows.number(created), rows.number(seconds), asked)


def _slots(root: str, key: str) -> Iterator[EntryInfo]:
    """Yield a key's files, as a reader finds them: up to the first slot that is missing."""
    for slot in range(layout.MAX_SLOTS):
        path = layout.slot_path(root, key, slot)
        identity = _identity(path)
        if identity is None:
            return
        yield listing.EntryInfo(path, key, slot, *identity)


def _identity(path: str) -> tuple[int, float] | None:
    """Return what tells a file from one that took its place: size [bytes] and modification time; None when gone."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime


def _mtime(path: str) -> float:
    identity = _identity(path)
    return 0.0 if identity is None else identity[1]


def _size(path: str) -> int:
    identity = _identity(path)
    return 0 if identity is None else identity[0]


def _listable(path: str) -> bool:
    """Whether a listing of a directory tells what is in it; one that is gone has nothing in it."""
    try:
        os.scandir(path).close()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
