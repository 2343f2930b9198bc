"""Keeping a store in order: evicting, folding, sweeping; what :meth:`Store.gc`, :meth:`Store.tidy` and others do.

Who removes entries knows what published names refer to, and is alone while it removes (:mod:`nbcache.store.pins`).
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from nbcache.process import time
from nbcache.store import evict, first_askers, folders, layout, listing, pins, usage, usage_sums

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nbcache.file_trust import Trust
    from nbcache.store.listing import EntryInfo
    from nbcache.store.locks import Lease


class Store(Protocol):
    """What is needed of a :class:`nbcache.store.directory.Store`, one that this process may write."""

    path: str
    trust: Trust

    def scan(self) -> Iterator[EntryInfo]:
        """Yield every entry."""

    def exists(self, key: str) -> bool:
        """Whether something lies under a key."""

    def lease(self, key: str) -> Lease | None:
        """Return a lease on a key, without waiting."""


def gc(
    store: Store, limit: int, *, dry_run: bool, removed: Callable[[str, int, int], None] = lambda *_: None
) -> evict.Plan:
    """Evict what is more than ``limit`` [bytes], after folding usage records; with ``dry_run``, only say what.

    *removed* is called as :func:`evict.apply` says.
    """
    entries = list(store.scan())
    known = {info.key for info in entries}
    if not dry_run:
        # First: what was summed up needn't be read record by record.
        usage_sums.fold_all(store.path, known.__contains__)
    used = usage.last_use(usage.read(store.path), known.__contains__)
    if dry_run:
        return _plan(store, entries, limit, used, pins.read(store.path, store.trust))
    with pins.held(store.lease, store.path, store.trust, patience=pins.PATIENCE_SECONDS) as pinned:
        decided = _plan(store, entries, limit, used, pinned)
        _apply(store, decided, removed)
    return decided


def _plan(
    store: Store,
    entries: list[EntryInfo],
    limit: int,
    used: dict[str, float],
    pinned: pins.Pins,
    *,
    shards: list[str] | None = None,
) -> evict.Plan:
    """Decide what to evict, of the whole store or of the *shards* that the entries are in."""
    files = pins.size(store.path, pinned, shards)
    decided = evict.plan(entries, limit, time.time(), used, pinned, asker=_asker(store.path), files=files)
    return replace(decided, expired=len(pinned.expired))


def _apply(store: Store, decided: evict.Plan, removed: Callable[[str, int, int], None] = lambda *_: None) -> None:
    """Evict what was decided, and leave word of it."""
    count, size = evict.apply(decided, removed)
    if count:
        record = {"processes": 0, "evicted": count, "evicted_bytes": size, "end": time.time()}
        usage.write(store.path, record)


def _asker(root: str) -> Callable[[EntryInfo], int]:
    """Return what tells whose share an entry counts against, in a store that several users' requests fill."""
    if not first_askers.has_begun(root):
        return lambda _info: first_askers.OWNER

    def asker(info: EntryInfo) -> int:
        header = info.header
        return first_askers.OWNER if header is None else first_askers.asker(header)

    return asker


def sweep(store: Store, deadline: float = float("inf")) -> int:
    """Remove what :func:`nbcache.store.listing.sweep` does, and files that no published name refers to; return how
    many.
    """
    count = listing.sweep(store.path, deadline=deadline)
    if listing.shards(store.path, layout.FILES):
        with pins.held(store.lease, store.path, store.trust, deadline=deadline) as pinned:
            count += pins.collect(store.path, pinned)[0]
    return count


def clear(store: Store, namespace: str | None = None) -> tuple[int, int]:
    """Remove every entry that no published name refers to, and temporaries of any age; return how many, and bytes.

    With a *namespace*, only its entries.
    """
    count = size = 0
    with pins.held(store.lease, store.path, store.trust, patience=pins.PATIENCE_SECONDS) as pinned:
        if pinned.problem is not None:
            return 0, 0
        for info in store.scan():
            if info.key not in pinned.entries and (namespace is None or _namespace(info) == namespace):
                first_askers.removing(info.path)
                if folders.remove(info.path):
                    count, size = count + 1, size + info.size
    listing.sweep(store.path, now=float("inf"), leases=False)
    return count, size


def _namespace(info: EntryInfo) -> object:
    return None if info.header is None else info.header.extra.get("namespace")


def tidy(store: Store, max_size: int, seconds: float) -> bool:
    """Do in ``seconds`` [s] what :meth:`Store.tidy` says; return whether all of it was done."""
    begun = time.monotonic()
    names = list({*listing.shards(store.path), *listing.shards(store.path, layout.FILES)})
    random.shuffle(names)
    entries: list[EntryInfo] = []
    seen = files = 0
    for name in names:
        entries.extend(listing.scan(store.path, [name]))
        files += pins.size(store.path, shards=[name])
        seen += 1
        # Half of the time: the rest has to be done as well.
        if time.monotonic() > begun + seconds / 2:
            break
    budget = usage.at_exit(begun + seconds - time.monotonic())
    limit = max(1, max_size * seen // len(names)) if max_size > 0 and names else 0
    if 0 < limit < files + sum(info.size for info in entries):
        # Reading usage takes time too; not worth it while there is room.
        known = {info.key for info in entries}
        used = usage.last_use(usage.read(store.path, budget, store.trust), known.__contains__)
        # Where not all of it could be read, what was used just now isn't known: others will, once more is summed up.
        if not budget.over:
            with pins.held(store.lease, store.path, store.trust, deadline=begun + seconds) as pinned:
                _apply(store, _plan(store, entries, limit, used, pinned, shards=names[:seen]))
    sweep(store, begun + seconds)
    # A key is looked for while there is time, and else kept.
    usage_sums.fold(store.path, lambda key: not budget.in_time or store.exists(key), budget=budget, trust=store.trust)
    return seen == len(names) and not budget.over
