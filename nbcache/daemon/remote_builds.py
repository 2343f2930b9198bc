"""Asking the helper of the remote tiers for what is to be built, and telling it what was.

In threads of their own: a helper may have to be started, tiers may take their time, and whoever decides or takes
entries from jobs waits for nobody.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from nbcache.config import Settings
from nbcache.daemon.shared_parts import Problems
from nbcache.protocol import helper
from nbcache.protocol.helper import Answer

START_SECONDS: Final = 5.0
"""How long a helper that was started is waited for [s]."""
AGAIN_SECONDS: Final = 60.0
"""How soon one that didn't answer is asked again [s]."""
LOOK_SECONDS: Final = 1.0
"""How long an answer is waited for [s]."""
_LOOKS: Final = 4
"""How many keys are asked for at once."""


class Remote:
    """The remote tiers, as one daemon sees them. Nothing here raises."""

    def __init__(self, settings: Callable[[], Settings], problems: Problems) -> None:
        """Start nobody yet. What keeps the tiers from being used is one of the daemon's *problems*."""
        self._settings = settings
        self._problems = problems
        self._reporting = threading.Lock()
        self._offers = ThreadPoolExecutor(1, "nbcache-offers")
        self._looks = ThreadPoolExecutor(_LOOKS, "nbcache-looks")
        self._met: helper.Line | None = None
        self._silent = -AGAIN_SECONDS

    def fetch(self, key: str) -> Future[None] | None:
        """Have what the tiers have under a key put into the store, if there are any; None if nobody is asked."""
        # A helper that hangs must not cost each key a second.
        if not self._settings().remote or time.monotonic() - self._silent < AGAIN_SECONDS:
            return None
        return self._looks.submit(self._fetch, key)

    def offer(self, key: str) -> None:
        """Have an entry uploaded, if there are remote tiers."""
        if self._settings().remote:
            self._offers.submit(lambda: self._line().offer(key, START_SECONDS))

    def close(self) -> None:
        """Hand nothing on any more: what is in the store goes with the next ``nbcache push``."""
        for pool in (self._offers, self._looks):
            pool.shutdown(wait=False, cancel_futures=True)

    def _fetch(self, key: str) -> None:
        line = self._line()
        answer = line.ask("fetch", key, LOOK_SECONDS, starting=START_SECONDS)
        if answer is None and not line.problem:
            self._silent = time.monotonic()
        self._report(answer, line.problem)

    def _report(self, answer: Answer | None, problem: str) -> None:
        if answer is None:
            why = problem or "its helper doesn't answer"
        else:
            why = answer.why if answer.state == helper.FAILED else ""
        refused = answer.why if answer is not None and answer.state == helper.REFUSED else ""
        with self._reporting:
            self._problems.report(
                "remote", f"the remote cache can't be used; building what is not in the store: {why}" if why else None
            )
            if refused:
                self._problems.report("refused", f"an entry of the remote cache was refused: {refused}")

    def _line(self) -> helper.Line:
        """The line to the helper of the settings as they are now: with another key, there is another one."""
        line = helper.Line(self._settings())
        if self._met is None or self._met.place != line.place:
            self._met = line
        return self._met
