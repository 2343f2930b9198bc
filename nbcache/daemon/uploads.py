"""Telling the helper of the remote tiers what jobs built.

In a thread of its own: a helper may have to be started, and whoever takes entries from jobs waits for nobody.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from nbcache import __version__
from nbcache.protocol import helper

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbcache.config import Settings

START_SECONDS: Final = 5.0
"""How long a helper that was started is waited for [s]."""
AGAIN_SECONDS: Final = 60.0
"""How soon another one is started if that came to nothing [s]."""


class Uploads:
    """What one daemon hands on. Nothing here raises."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        """Start nobody yet."""
        self._settings = settings
        self._pool = ThreadPoolExecutor(1, "nbcache-offers")
        self._started = -AGAIN_SECONDS

    def offer(self, key: str) -> None:
        """Have an entry uploaded, if there are remote tiers."""
        if self._settings().remote:
            self._pool.submit(self._offer, key)

    def close(self) -> None:
        """Hand nothing on any more: what is in the store goes with the next ``nbcache push``."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _offer(self, key: str) -> None:
        settings = self._settings()
        place = helper.meeting(settings, __version__)
        if helper.offer(place, key) or time.monotonic() - self._started < AGAIN_SECONDS:
            return
        self._started = time.monotonic()
        if helper.folder_problem(place.folder) is not None or not helper.start(settings, START_SECONDS):
            return
        while time.monotonic() - self._started < START_SECONDS:
            if helper.offer(place, key):
                return
            time.sleep(0.05)
