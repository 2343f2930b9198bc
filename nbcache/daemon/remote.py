"""Asking the helper of the remote tiers for what is to be built, and telling it what was.

In threads of their own: a helper may have to be started, tiers may take their time, and whoever decides or takes
entries from jobs waits for nobody.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from nbcache import __version__
from nbcache.protocol import helper

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from nbcache.config import Settings

START_SECONDS: Final = 5.0
"""How long a helper that was started is waited for [s]."""
AGAIN_SECONDS: Final = 60.0
"""How soon another one is started if that came to nothing, and one that didn't answer is asked again [s]."""
LOOK_SECONDS: Final = 1.0
"""How long an answer is waited for [s]."""
_LOOKS: Final = 4
"""How many keys are asked for at once."""


class Remote:
    """The remote tiers, as one daemon sees them. Nothing here raises."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        """Start nobody yet."""
        self._settings = settings
        self._offers = ThreadPoolExecutor(1, "nbcache-offers")
        self._looks = ThreadPoolExecutor(_LOOKS, "nbcache-looks")
        self._lock = threading.Lock()
        self._started = self._silent = -AGAIN_SECONDS

    def fetch(self, key: str) -> Future[None] | None:
        """Have what the tiers have under a key put into the store, if there are any; None if nobody is asked."""
        # A helper that hangs must not cost each key a second.
        if not self._settings().remote or time.monotonic() - self._silent < AGAIN_SECONDS:
            return None
        return self._looks.submit(self._fetch, key)

    def offer(self, key: str) -> None:
        """Have an entry uploaded, if there are remote tiers."""
        if self._settings().remote:
            self._offers.submit(self._offer, key)

    def close(self) -> None:
        """Hand nothing on any more: what is in the store goes with the next ``nbcache push``."""
        for pool in (self._offers, self._looks):
            pool.shutdown(wait=False, cancel_futures=True)

    def _fetch(self, key: str) -> None:
        def ask(place: helper.Meeting) -> bool:
            try:
                if helper.ask(place, "fetch", key, LOOK_SECONDS) is None:
                    self._silent = time.monotonic()
            except OSError:  # none is there
                return False
            return True

        self._with_helper(ask)

    def _offer(self, key: str) -> None:
        self._with_helper(lambda place: helper.offer(place, key))

    def _with_helper(self, tell: Callable[[helper.Meeting], bool]) -> None:
        """Tell a helper something, which answers whether one was there; start one if need be."""
        settings = self._settings()
        place = helper.meeting(settings, __version__)
        if tell(place):
            return
        with self._lock:
            now = time.monotonic()
            starts = now - self._started >= AGAIN_SECONDS
            self._started = now if starts else self._started
        if starts and (helper.folder_problem(place.folder) is not None or not helper.start(settings, START_SECONDS)):
            return
        while time.monotonic() - self._started < START_SECONDS:
            if tell(place):
                return
            time.sleep(0.05)
