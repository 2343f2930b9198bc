"""The metrics of a running daemon: looked up in the background, told at once to whoever asks."""

from __future__ import annotations

import logging
import threading
from itertools import chain
from typing import TYPE_CHECKING, Final

from nbcache.metrics import families
from nbcache.metrics.exposing import Exposer
from nbcache.metrics.looking import Look, Looker

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbcache.config import Settings
    from nbcache.metrics.exposing import Address
    from nbcache.metrics.meter import Meter

LOOK_SECONDS: Final = 10.0
"""How long after a look at the store the next one begins [s]."""

_log = logging.getLogger("nbcache")


class DaemonMetrics:
    """Tells what a daemon counts, and how its store was lately. No method raises.

    A filesystem that hangs holds up the next look at it and nothing else: ``nbcache_look_timestamp_seconds`` then says
    how old the last one is.
    """

    def __init__(self, address: Address, settings: Callable[[], Settings], meter: Meter) -> None:
        """Do nothing yet."""
        self._looker = Looker(settings)
        self._settings = settings
        self._meter = meter
        self._last: Look | None = None
        self._stopped = threading.Event()
        self._exposer = Exposer(address, self._render)
        self._thread = threading.Thread(target=self._run, name="nbcache look", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()
        self._exposer.start()

    def close(self) -> None:
        """End it; a look that hangs is left behind."""
        self._stopped.set()
        self._exposer.close()

    def _run(self) -> None:
        failed = False
        while not self._stopped.is_set():
            try:
                self._last = self._looker.look()
                failed = False
            except Exception:  # noqa: BLE001  to be watched must not end what is watched
                _log.log(
                    logging.DEBUG if failed else logging.WARNING,
                    "could not read the store for its metrics; serving the last figures",
                    exc_info=True,
                )
                failed = True
            self._stopped.wait(LOOK_SECONDS)

    def _render(self, accept: str) -> tuple[bytes, str]:
        last = self._last
        of_store = () if last is None else families.of_store(last)
        own = families.of_daemon(self._settings().dir or "", self._meter.read())
        return families.text(chain(of_store, own), accept)
