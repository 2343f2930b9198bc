"""Housekeeping, in a thread of its own: knowing what is in the store, and keeping it below its limit."""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Final

from nbcache.daemon import rebuilding
from nbcache.protocol import heartbeats, spool
from nbcache.store import quarantine

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbcache.daemon.commons import Commons

_log = logging.getLogger("nbcache")
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
        self._approval = rebuilding.Approval()
        self._swept = 0.0
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
        commons.tests.remove(commons.store, commons.audit)
        commons.meter.prune(os.path.lexists)
        counted = commons.catalogue.recount(time.monotonic() + BUDGET)
        commons.catalogue.fold_usage(time.monotonic() + BUDGET)
        self._approval.go_on(commons.store, BUDGET)
        rebuilding.have_rebuilt(commons.store, commons.audit, commons.again.append)
        if counted:
            self._evict()
        if time.monotonic() - self._swept > SWEEP_SECONDS or not self._swept:
            self._swept = time.monotonic()
            self._sweep()

    def _evict(self) -> None:
        commons = self._commons
        evicted = commons.catalogue.evict(commons.settings.max_size, BUDGET, commons.audit)
        if evicted.removed:
            commons.store.tell_evicted(evicted.removed, evicted.freed)
            _log.info("evicted %d entries to stay below the size limit; freed %d bytes", evicted.removed, evicted.freed)

    def _sweep(self) -> None:
        store = self._commons.store
        store.sweep()
        quarantine.sweep(store.path, store.trust)
        spool.sweep_answers(store.path, self._file_time())
        heartbeats.sweep(store.path, store.trust, self._file_time())
