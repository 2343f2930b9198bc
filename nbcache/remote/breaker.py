"""When a tier is left alone: after failures it isn't asked for a while, then by one question at a time.

Two failures in a row open the breaker for :data:`FIRST_SECONDS`, which doubles each time the probe that ends it fails,
up to :data:`LONGEST_SECONDS`. A server that says it is asked too often is left alone in the same way, at once and for
less. Each pause is a little longer or shorter than said, by :data:`SPREAD`: hosts that a server failed at the same
moment don't come back at the same moment.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger("nbcache")
FAILURES: Final = 2
"""So many in a row open it."""
FIRST_SECONDS: Final = 5.0
LONGEST_SECONDS: Final = 300.0
FIRST_PAUSE: Final = 0.25
"""How long a server is left alone that says it has too much to do [s], the first time: a look-up can wait for that."""
LONGEST_PAUSE: Final = 60.0
SPREAD: Final = 0.2
"""By which part of it a pause may be longer or shorter."""
PROBE_SECONDS: Final = 10.0
"""After so long a probe that nobody reported about is taken for lost [s]."""


class Breaker:
    """The state of one tier. Threads may share it."""

    def __init__(self, label: str, clock: Callable[[], float] = time.monotonic, spread: float = SPREAD) -> None:
        """Closed: everything is let through. *label* is how the log calls the tier."""
        self._label = label
        self._clock = clock
        self._spread = spread
        self._lock = threading.Lock()
        self._failures = 0
        self._until = 0.0
        self._limited = False
        self._pause = 0.0
        self._probed = -PROBE_SECONDS
        self.why = ""
        """Why it is open; "" while it is closed."""

    def allows(self) -> bool:
        """Whether the tier may be asked now; who is told so reports how that went."""
        with self._lock:
            if not self.why:
                return True
            now = self._clock()
            if now < self._until or now < self._probed + PROBE_SECONDS:
                return False
            self._probed = now
            return True

    @property
    def is_new(self) -> bool:
        """Whether the next question finds out if anybody is there: the first one, and each probe."""
        return bool(self.why) or self._probed < 0

    @property
    def rest(self) -> float:
        """How long a server that has too much to do is left alone yet [s]; infinity if it may not be there."""
        return max(0.0, self._until - self._clock()) if self._limited else math.inf

    def succeeded(self) -> None:
        """The tier answered, whatever it said."""
        with self._lock:
            was, self.why = self.why, ""
            self._failures, self._pause, self._probed = 0, 0.0, 0.0
        if was:
            _log.warning("the remote cache %s answers again", self._label)

    def failed(self, why: str) -> None:
        """The tier didn't answer, or with an error of its own."""
        self._limited = False
        self._count(why, FAILURES, FIRST_SECONDS, LONGEST_SECONDS)

    def limited(self, why: str) -> None:
        """The tier says that it is asked too much."""
        self._limited = True
        self._count(why, 1, FIRST_PAUSE, LONGEST_PAUSE)

    def _count(self, why: str, most: int, first: float, longest: float) -> None:
        with self._lock:
            self._failures += 1
            self._probed = -PROBE_SECONDS
            if self._failures < most and not self.why:
                return
            opens, self.why = not self.why, why
            self._pause = min(longest, max(first, 2 * self._pause))
            self._until = self._clock() + self._pause * random.uniform(1 - self._spread, 1 + self._spread)  # noqa: S311
        if opens:
            _log.warning("the remote cache %s is left alone for a while: %s", self._label, why)
