"""What others do for this process: a daemon that builds, another process that is building the same thing."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from nbcache.client import patience
from nbcache.client.asking import Daemons
from nbcache.client.patience import Patience
from nbcache.protocol import heartbeats

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbcache.client.patience import Wait
    from nbcache.config import Settings
    from nbcache.counting import Counters
    from nbcache.glue.keys.units import Unit
    from nbcache.store.directory import Store
    from nbcache.store.locks import Lease

_log = logging.getLogger("nbcache")
_POLL_SECONDS: Final = (0.005, 0.1)


class Others:
    """Everybody else at work on one store, as one process sees them. How long they are waited for: `Patience`."""

    def __init__(self, settings: Settings, store: Store, counters: Counters) -> None:
        """Look at nothing yet."""
        self._settings = settings
        self._store = store
        self._counters = counters
        self._patience = Patience(settings, counters)
        self._daemons = Daemons(store, self._patience)
        self._given_up = ""
        """The key whose lease was last waited for in vain."""

    def find(
        self,
        unit: Unit,
        load: Callable[[], Any | None],
        keep: Callable[[Callable[[], None]], None],
        *,
        is_there: bool,
    ) -> Any | None:
        """Return what *load* finds once others have built it; None if this process is to build it.

        Then *keep* is given what is to be called when that is done. No daemon is asked for what *is there* and of no
        use here: it would not be built again. Damage is another matter, and so is what programs crashed with.
        """
        settings = self._settings
        with self._patience.wait() as wait:
            found = None
            asks = settings.on_miss != "compile" and not settings.recache and not is_there
            if asks and wait.left > 0 and self._daemons.worth_asking() and self._daemons.build(unit, wait):
                found = self._came(load, wait)
            return self._wait_for_lease(unit, load, keep, wait, is_there=is_there) if found is None else found

    def _came(self, load: Callable[[], Any | None], wait: Wait) -> Any | None:
        before = self._counters.saved_seconds
        found = load()
        if found is not None:
            wait.done(self._counters.saved_seconds - before)
        return found

    def _wait_for_lease(
        self,
        unit: Unit,
        load: Callable[[], Any | None],
        keep: Callable[[Callable[[], None]], None],
        wait: Wait,
        *,
        is_there: bool,
    ) -> Any | None:
        """Single flight: whoever compiles first holds a lease, the others wait for the entry."""
        if not self._store.writable:
            return None
        before = self._store.stamp(unit.key) if is_there else None
        lease = self._store.lease(unit.key)
        waited = lease is None
        if lease is None:
            lease, found = self._outwait(unit, load, wait, before)
            if lease is None:
                return found
        kept = False
        try:
            # Published between the look-up and the lease, perhaps.
            found = self._came(load, wait) if waited or self._store.exists(unit.key) else None
            if found is None:
                keep(lease.release)
                kept = True
            return found
        finally:
            if not kept:
                lease.release()

    def _outwait(
        self, unit: Unit, load: Callable[[], Any | None], wait: Wait, seen: tuple[int, int, int] | None
    ) -> tuple[Lease | None, Any | None]:
        """Wait until somebody's lease is over or their entry is there, whichever is first; (None, None) if neither."""
        if wait.left <= 0 or self._is_stuck():
            return None, None
        pause, longest = _POLL_SECONDS
        watch = patience.Watch(lambda: self._spent(unit.key))
        while wait.left > 0:
            wait.sleep(pause)
            pause = min(pause * 1.5, longest)
            if watch.advanced():
                wait.progress()
            stamp = self._store.stamp(unit.key)
            if stamp != seen:
                seen = stamp
                found = self._came(load, wait)
                if found is not None:
                    return None, found
            lease = self._store.lease(unit.key)
            if lease is not None:
                return lease, None
        _log.info("%s: stopped waiting for the process that is building it", unit.name)
        self._given_up = unit.key
        return None, None

    def _is_stuck(self) -> bool:
        """Whether somebody's lease was waited for in vain, and is held still."""
        lease = self._store.lease(self._given_up) if self._given_up else None
        if lease is not None:
            lease.release()
            self._given_up = ""
        return self._given_up != ""

    def _spent(self, key: str) -> float | None:
        """How much processor time whoever holds a key's lease has had [s]."""
        holder = self._store.lease_holder(key)
        # A daemon holds it for a job, and its own time says nothing.
        spent = self._daemons.spent(key)
        if spent is None and holder is not None:
            return heartbeats.processor_time(holder)
        return spent
