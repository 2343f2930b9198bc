"""Housekeeping, in a thread of its own: knowing what is in the store, and keeping it below its limit.

Entries on trial are approved here when programs used them well, and built again when programs crashed in them. A
process may say of its own entries that it used them well. Whoever shares a store with the one who owns them can only
say so in a file of his own, and the owner's daemon does the rest.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Final

from nbcache.daemon.audit import Audit
from nbcache.daemon.shared_parts import Commons, Stock
from nbcache.one_line import log, one_line
from nbcache.protocol import heartbeats, requests, spool
from nbcache.protocol.requests import Request
from nbcache.store import evict, first_askers, layout, listing, pins, quarantine, upkeep, usage_sums
from nbcache.store.directory import Store
from nbcache.store.entry import Entry
from nbcache.store.quarantine import Suspect
from nbcache.store.usage import SELF_TEST

TURN_SECONDS: Final = 5.0
"""How often the store is counted on [s]."""
BUDGET: Final = 0.5
"""How long each of counting, reading usage records and evicting may take then [s]."""
SWEEP_SECONDS: Final = 3600.0
"""How often leftovers are swept [s]."""
END_SECONDS: Final = 8.0
"""How long its end is waited for [s]."""


class Housekeeping:
    """The thread. Nothing that goes wrong in it ends it: a store that is full serves nobody."""

    def __init__(self, commons: Commons, file_time: Callable[[], float]) -> None:
        """Do nothing yet; *file_time* tells the time by the clock that dates files in the store [Unix s]."""
        self._commons = commons
        self._file_time = file_time
        self._approval = Approval()
        self._swept = 0.0
        self._shards: list[str] = []
        """Those that are to be listed in this round."""
        self._sums: dict[str, tuple[int, int]] = {}
        """How many entries each shard has, and how many bytes."""
        self._keys: set[str] = set()
        """What was found in this round."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nbcache housekeeping", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Begin no other turn."""
        self._stopped.set()

    def join(self) -> None:
        """Wait for its end; a turn that hangs is left behind."""
        if self._thread.ident is not None:
            self._thread.join(END_SECONDS)

    def _run(self) -> None:
        problems = self._commons.problems
        while not self._stopped.wait(TURN_SECONDS):
            try:
                self._turn()
                problems.report("housekeeping", None)
            except Exception as error:  # noqa: BLE001  it must not end
                problems.report("housekeeping", f"internal error during housekeeping: {error!r}", error)

    def _turn(self) -> None:
        commons = self._commons
        forget_tests(commons)
        commons.meter.prune(os.path.lexists)
        counted = self._count(time.monotonic() + BUDGET)
        self._approval.go_on(commons.store, BUDGET)
        have_rebuilt(commons.store, commons.audit, commons.again.append)
        if counted is not None:
            self._keep_small(counted)
        if time.monotonic() - self._swept > SWEEP_SECONDS or not self._swept:
            self._swept = time.monotonic()
            self._sweep()

    def _count(self, deadline: float) -> set[str] | None:
        """List the store's shards until *deadline*, one at least, going on there next time.

        Returns all keys when each shard was listed once since the last time.
        """
        commons = self._commons
        while self._shards or self._begin_round(commons.store.path):
            shard = self._shards.pop()
            found = list(listing.scan(commons.store.path, [shard]))
            self._sums[shard] = len(found), sum(info.size for info in found)
            self._keys.update(info.key for info in found)
            self._tell_stock()
            if not self._shards:
                keys, self._keys = self._keys, set()
                return keys
            if time.monotonic() >= deadline:
                return None
        self._tell_stock()
        return set()

    def _begin_round(self, root: str) -> bool:
        self._shards = listing.shards(root)
        self._sums = {shard: self._sums.get(shard, (0, 0)) for shard in self._shards}
        return bool(self._shards)

    def _tell_stock(self) -> None:
        sums = self._sums.values()
        self._commons.stock = Stock(sum(entries for entries, _ in sums), sum(size for _, size in sums))

    def _keep_small(self, keys: set[str]) -> None:
        """Evict if there is too much. If not, sum up old usage records, which evicting begins with."""
        commons, store = self._commons, self._commons.store
        limit = commons.settings.max_size
        if not store.writable:
            return
        if limit <= 0 or commons.stock.size <= limit:
            # What can't be listed may have been used as well.
            usage_sums.fold(store.path, keys.__contains__ if keys else lambda _key: True)
            return
        gone: list[int] = []

        def removed(path: str, size: int, asker: int) -> None:
            gone.append(size)
            shard, name = path.split("/")[-2:]
            key, _slot = layout.read_name(shard, name) or ("", 0)
            commons.audit.record("evicted", key=key, asked=asker, bytes=size, reason=evict.REASON)

        upkeep.gc(store, limit, dry_run=False, removed=removed)
        if gone:
            log.info("evicted %d entries to stay below the size limit; freed %d bytes", len(gone), sum(gone))

    def _sweep(self) -> None:
        store = self._commons.store
        store.sweep()
        quarantine.sweep(store.path, store.trust)
        spool.sweep_answers(store.path, self._file_time())
        heartbeats.sweep(store.path, store.trust, self._file_time())


TEST_SECONDS: Final = 20.0
"""How long what a self-test built is there for who asked [s]."""


def forget_tests(commons: Commons, age: float = TEST_SECONDS) -> None:
    """Remove the entries, and the failures, of self-tests that were over so long ago [s]."""
    store = commons.store
    while commons.tests and time.monotonic() - commons.tests[0][0] >= age:
        _, key, scope = commons.tests.popleft()
        spool.forget_own_failure(store.path, key, scope)
        for entry in store.find(key):
            # The name is what who asked says. Whatever else lies under the key isn't ours to remove.
            if entry.header.function == SELF_TEST and store.remove(entry.path):
                whose = first_askers.asker(entry.header)
                commons.audit.record("removed", key=key, function=SELF_TEST, asked=whose, reason="a self-test is over")


class Approval:
    """Of one store, by its owner's daemon."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._seen: set[str] = set()

    def go_on(self, store: Store, seconds: float) -> None:
        """Approve what trusted users newly say that they used well, for so long [s]."""
        deadline = time.monotonic() + seconds
        good = quarantine.good(store.path, store.trust)
        self._seen &= good.keys()
        for digest in good.keys() - self._seen:
            if time.monotonic() > deadline:
                return
            self._seen.add(digest)
            if layout.is_key(good[digest]):
                for found in store.find(good[digest]):
                    if not found.proven and found.digest == digest:
                        quarantine.approve(found.path, digest)


def approve(store: Store, key: str, uid: int, since: float) -> None:
    """Approve what was built for a user's key since then [Unix s], and called by the one who built it."""
    for found in store.find(key, uid=uid):
        if found.header.created >= since:
            quarantine.approve(found.path, found.digest)


def have_rebuilt(store: Store, audit: Audit, asked: Callable[[Request], None]) -> None:
    """Remove what is quarantined for all, and have it built again where it says how to.

    Only what nobody is known to have used well, and no published name refers to. What is asked for is asked for in the
    name of whom it was built for: whatever others have waiting for that key takes no part in it.
    """
    quarantine.settle(store.path, store.trust)
    suspects = quarantine.read(store.path, store.trust)
    # Each key once, whatever is said of how many entries under it.
    for key in {each.key for each in suspects.values() if each.crashes >= quarantine.CRASHES}:
        for found in list(store.find(key)):
            suspect, whose = suspects.get(found.digest), first_askers.asker(found.header)
            if suspect is None or suspect.key != key or found.proven:
                continue
            if suspect.is_condemned(os.geteuid(), whose):
                with pins.held(store.lease, store.path, store.trust) as pinned:
                    if pinned.problem is None and suspect.key not in pinned.entries:
                        _have_rebuilt(store, found, suspect, audit, asked)


def _have_rebuilt(store: Store, found: Entry, suspect: Suspect, audit: Audit, asked: Callable[[Request], None]) -> None:
    header = found.header
    about = {"key": header.key, "function": header.function, "asked": first_askers.asker(header)}
    caused = {"caused": sorted(suspect.users), "reason": "programs crashed with it"}
    audit.record("quarantined", **about, **caused)
    request = _request(found)
    if not store.remove(found.path):
        return
    audit.record("removed", **about, **caused)
    if request is not None:
        audit.record("rebuilding", **about, **caused)
        asked(request)
    what = "the next program that needs it builds it" if request is None else "a daemon builds it again"
    name = one_line(header.function)
    log.warning("removed the entry of %s because %d programs crashed with it; %s", name, suspect.crashes, what)


def _request(found: Entry) -> Request | None:
    """Return what an entry can be asked for with, in the name of whom it was built for."""
    request, whose = requests.of_entry(found), first_askers.asker(found.header)
    return request and request._replace(uid=os.geteuid() if whose == first_askers.OWNER else whose)
