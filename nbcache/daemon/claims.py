"""Keys that a job has claimed while it goes through a profile: leases, which the daemon takes and holds for it.

A job can't write the store, so it can't take a lease. What it compiles under a claim, nobody else begins: other jobs
and daemons go on with something else, and programs wait as long as it gets on (:mod:`nbcache.client.patience`). A claim
ends with its job at the latest, and a lease with its daemon.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from nbcache.store import layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbcache.store.directory import Store
    from nbcache.store.locks import Lease

MOST: Final = 16
"""How many keys one job may hold at once: one for each function inside another that is being compiled."""


class Claims:
    """Those of one job. Threads may share it."""

    def __init__(self, store: Callable[[], Store], may: Callable[[str], bool] = lambda _key: True) -> None:
        """Hold nothing yet; *may* says of a key whether this job may claim it."""
        self._store = store
        self._may = may
        self._lock = threading.Lock()
        self._held: dict[str, Lease] = {}
        self._since: dict[str, float] = {}
        """How much processor time the job had had when a key was first seen to be claimed [s]."""
        self._over = False
        self.stop = False
        """Whether the job is to end soon, because somebody waits for its worker."""

    def working(self, worked: float) -> dict[str, float]:
        """Return how much processor time each claimed key has had [s]; *worked* is that of the job."""
        return {key: worked - self._since.setdefault(key, worked) for key in list(self._held)}

    def has(self, key: str) -> bool:
        """Whether a key is claimed."""
        return key in self._held

    def take(self, key: str) -> bool | None:
        """Claim a key; return whether that is this job's now, and was not before.

        None if the job may not claim it: it needn't wait for anybody, but what it hands in may be for who asked alone.
        """
        with self._lock:
            if self._over or key in self._held:
                return False
            # What leads to rooms are no entries' keys: helpers and requests for profiles have such ones.
            if not layout.is_key(key) or layout.is_reserved(key) or len(self._held) >= MOST or not self._may(key):
                return None
            lease = self._store().lease(key)
            if lease is None:
                return False
            self._held[key] = lease
            return True

    def release(self, key: str) -> None:
        """Let others have a key."""
        with self._lock:
            lease = self._held.pop(key, None)
            self._since.pop(key, None)
        if lease is not None:
            lease.release()

    def end(self) -> None:
        """The job is over: let others have everything."""
        with self._lock:
            self._over, held = True, list(self._held.values())
            self._held.clear()
        for lease in held:
            lease.release()
