"""Asking a daemon for what the store doesn't have, and waiting for the answer: never longer than allowed."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from nbcache.protocol import heartbeats, spool

if TYPE_CHECKING:
    from nbcache.glue.units import Unit
    from nbcache.store.directory import Store

_log = logging.getLogger("nbcache")
_POLL_SECONDS: Final = (0.002, 0.1)
LOOK_SECONDS: Final = 1.0
"""How long what the daemons said of themselves is believed [s]."""


class Daemons:
    """The daemons of one store, as one process sees them."""

    def __init__(self, store: Store) -> None:
        """Look at nothing yet."""
        self._store = store
        self._looked = -LOOK_SECONDS
        self._alive: list[heartbeats.Heartbeat] = []

    def delay(self) -> float | None:
        """How long a request would wait for a worker [s]; None if no daemon is alive."""
        now = time.monotonic()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            found = heartbeats.read(self._store.path, self._store.trust)
            self._alive = [each for each in found if each.alive and not each.draining]
        return min((each.delay for each in self._alive), default=None)

    def build(self, unit: Unit, deadline: float) -> bool:
        """Have a unit built; return whether there may be an entry now.

        Returns at *deadline* (``time.monotonic``) at the latest, and as soon as it is known that nothing will come.
        """
        from nbcache.glue.requested import UnaskableError, request_for

        known = spool.failure(self._store.path, unit.key)
        if known is not None:
            _log.info("%s is not asked for: %s", unit.name, known.reason)
            return False
        try:
            request = request_for(unit)
        except UnaskableError as exc:
            _log.info("%s can't be asked for: %s", unit.name, exc)
            return False
        path = spool.submit(self._store.path, request)
        if path is None:
            _log.info("%s can't be asked for: nothing can be written into the spool", unit.name)
            return False
        return self._wait(unit, path, deadline)

    def _wait(self, unit: Unit, path: str, deadline: float) -> bool:
        pause, longest = _POLL_SECONDS
        while spool.waits(path):
            now = time.monotonic()
            if now >= deadline:
                _log.info("%s: no answer in time", unit.name)
                return False
            if self.delay() is None:
                _log.info("%s: no daemon is alive any more", unit.name)
                return False
            time.sleep(min(pause, deadline - now))
            pause = min(pause * 1.2, longest)
        known = spool.failure(self._store.path, unit.key)
        if known is not None:
            _log.info("%s was not built: %s", unit.name, known.reason)
        return known is None
