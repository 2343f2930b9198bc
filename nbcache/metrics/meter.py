"""What one daemon counts of itself, for whoever watches it. Costs next to nothing, whether anybody does or not.

The thread that serves counts, another one reads: each number is whole, and all are read under the lock.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable
from heapq import nsmallest
from itertools import accumulate
from typing import Final, NamedTuple

WAIT_BOUNDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""The upper bounds of the buckets for waiting requests [s]."""
JOB_BOUNDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""The same for jobs."""
BUILT: Final = "built"
FAILED: Final = "failed"
CRASHED: Final = "crashed"
OUTCOMES: Final = (BUILT, FAILED, CRASHED)
"""What becomes of a job; one that crashed is tried again, and what becomes of that is counted as well."""
MAX_ASKED: Final = 100_000
"""How many waiting requests are timed."""
_PRUNED: Final = 100
_PRUNE_SECONDS: Final = 60.0
MAX_WAIT: Final = 86400.0
"""The longest wait that is believed [s]: requests are dated by those who write them."""


class Distribution(NamedTuple):
    """How many of what was observed lie at or below each bound (cumulative, infinity last), and their sum."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float


class Reading(NamedTuple):
    """All that a daemon counted since it started."""

    started: float
    """Unix time [s]."""
    jobs: dict[str, int]
    """By each of :data:`OUTCOMES`."""
    job_seconds: Distribution
    waits: Distribution
    rejected: int
    longest_wait: float
    """How long the oldest request that isn't answered waits [s]; 0 when none does."""


class _Histogram:
    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def read(self) -> Distribution:
        return Distribution(self._bounds, tuple(accumulate(self._counts)), self._total)


class Meter:
    """See the module. No method raises."""

    def __init__(self) -> None:
        """Count from here on."""
        self._guard = threading.Lock()
        self._started = time.time()
        self._jobs = dict.fromkeys(OUTCOMES, 0)
        self._job_seconds = _Histogram(JOB_BOUNDS)
        self._waits = _Histogram(WAIT_BOUNDS)
        self._rejected = 0
        self._asked: dict[str, float] = {}

    def asked(self, path: str, age: float) -> None:
        """A request was read for the first time, which is ``age`` [s] old."""
        with self._guard:
            if path not in self._asked and len(self._asked) < MAX_ASKED:
                self._asked[path] = time.monotonic() - max(0.0, min(age, MAX_WAIT))

    def answered(self, path: str) -> None:
        """Nobody waits for a request any more; one that was never read isn't counted."""
        with self._guard:
            since = self._asked.pop(path, None)
            if since is not None:
                self._waits.observe(time.monotonic() - since)

    def forgotten(self, path: str) -> None:
        """A request isn't looked at any more: nobody waits for it, or somebody else answered it."""
        with self._guard:
            self._asked.pop(path, None)

    def prune(self, waits: Callable[[str], bool]) -> None:
        """Forget, of the oldest requests, those that don't wait any more: whoever asked may have taken one back."""
        with self._guard:
            oldest = nsmallest(_PRUNED, self._asked, key=self._asked.__getitem__)
            limit = time.monotonic() - _PRUNE_SECONDS
            oldest = [path for path in oldest if self._asked[path] < limit]
        for path in oldest:
            if not waits(path):
                self.forgotten(path)

    def rejected(self, path: str) -> None:
        """A request was refused: how long it waited says nothing."""
        with self._guard:
            self._rejected += 1
            self._asked.pop(path, None)

    def job(self, outcome: str, seconds: float) -> None:
        """A job ended, with one of :data:`OUTCOMES`, after so long."""
        with self._guard:
            self._jobs[outcome] += 1
            self._job_seconds.observe(seconds)

    def read(self) -> Reading:
        """Return everything counted so far."""
        with self._guard:
            oldest = min(self._asked.values(), default=None)
            return Reading(
                self._started,
                dict(self._jobs),
                self._job_seconds.read(),
                self._waits.read(),
                self._rejected,
                0.0 if oldest is None else time.monotonic() - oldest,
            )
