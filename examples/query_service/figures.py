"""What the service's page shows of the queries that were answered: how many a second, and how long answers took."""

from __future__ import annotations

import statistics
import threading
import time
from collections import OrderedDict, deque
from typing import Any, Final

SECONDS: Final = 10
"""The rate is that of the last so many [s]."""
TIMES: Final = 1000
"""Medians are of the last so many answers."""
QUERIES: Final = 10
"""So many queries are shown, those that were asked last."""


class Figures:
    """Figures that any thread may add to. They take the same memory however long the service runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answered = 0
        self._moments: deque[float] = deque()
        self._first: deque[float] = deque(maxlen=TIMES)
        self._later: deque[float] = deque(maxlen=TIMES)
        self._queries: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def add(self, expression: str, seconds: float, *, new: bool) -> None:
        """Note an answer, how long it took, and whether the query was compiled for it."""
        with self._lock:
            self._answered += 1
            self._moments.append(time.monotonic())
            self._forget()
            (self._first if new else self._later).append(seconds)
            query = self._queries.setdefault(expression, {"expression": expression, "answered": 0, "first": None})
            self._queries.move_to_end(expression)
            query["answered"] += 1
            query["first" if new else "latest"] = seconds
            if len(self._queries) > QUERIES:
                self._queries.popitem(last=False)

    def show(self) -> dict[str, Any]:
        """Return all figures; times are in seconds."""
        with self._lock:
            self._forget()
            return {
                "answered": self._answered,
                "queries_a_second": len(self._moments) / SECONDS,
                "first_answer": statistics.median(self._first) if self._first else None,
                "later_answer": statistics.median(self._later) if self._later else None,
                "queries": [dict(query) for query in reversed(self._queries.values())],
            }

    def _forget(self) -> None:
        while self._moments and self._moments[0] < time.monotonic() - SECONDS:
            self._moments.popleft()
