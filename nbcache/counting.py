"""Counters of one process.

A snapshot of :class:`Counters` is what goes into the process's usage record; its fields are described in
:mod:`nbcache.store.usage`.
"""

from __future__ import annotations

import sys
import threading
from typing import Any, Final

from nbcache.process import os, time
from nbcache.store import reasons

WAITS: Final = (0.1, 1.0, 10.0)
"""Waiting is counted by these upper bounds [s]; what took longer under ``inf``."""
IN_VAIN: Final = "in vain"
"""Beside them: how often what was waited for didn't come."""


class Counters:
    """What one process hit, missed and built. Any thread may count at any time; a forked child starts from nothing."""

    def __init__(self) -> None:
        """Start counting now."""
        # Re-entrant: the garbage collector may run somebody's finalizer, which compiles, in the middle of counting.
        self._lock = threading.RLock()
        self._reset()
        # Otherwise the child's record would tell everything the parent's tells once more.
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def hit(self, key: str, function: str, saved_seconds: float, source: str = "") -> None:
        """Count a use of an entry, and the compilation [s] it saved.

        *source*: the layer that it came from, and the processor it is for if that isn't this process's target.
        """
        del function  # the entry itself tells
        with self._lock:
            if source:
                _increase(self._sources, source)
            self._saved += saved_seconds
            self._hit_count += 1
            if key in self._hits or len(self._hits) < reasons.MAX_KEYS:
                self._hits[key] = self._hits.get(key, 0) + 1

    def miss(self, reason: str) -> None:
        """Count a look-up that found nothing to use."""
        with self._lock:
            _increase(self._misses, reason)

    def uncacheable(self, reason: str, function: str) -> None:
        """Count a function that can't be cached; the first few are kept by name."""
        with self._lock:
            item = self._uncacheable.get(reason)
            if item is None:
                if len(self._uncacheable) >= reasons.MAX_REASONS:
                    return
                item = self._uncacheable[reason] = {"count": 0, "functions": []}
            item["count"] += 1
            if self._examples < reasons.MAX_EXAMPLES and function not in item["functions"]:
                item["functions"].append(function[: reasons.MAX_TEXT])
                self._examples += 1

    def built(self, key: str, function: str, seconds: float) -> None:
        """Count a compilation here and how long it took [s]."""
        from nbcache.store import usage

        with self._lock:
            self._is_test |= function.startswith(usage.SELF_TEST)
            self._builds_count += 1
            self._built += seconds
            if len(self._builds) < reasons.MAX_KEYS:
                self._builds.append({"key": key, "function": function[: reasons.MAX_TEXT], "seconds": seconds})

    def published(self, key: str) -> None:
        """Count an entry that went into the store."""
        del key  # among the builds
        with self._lock:
            self._published += 1

    def waited(self, seconds: float, *, came: bool) -> None:
        """Count how long somebody else's compilation was waited for [s], and whether it came."""
        with self._lock:
            self._waited += seconds
            _increase(self._waits, next((f"{most:g}" for most in WAITS if seconds <= most), "inf"))
            if not came:
                _increase(self._waits, IN_VAIN)

    def error(self, what: str) -> None:
        """Count a fault that was turned into a miss."""
        with self._lock:
            _increase(self._errors, what)

    @property
    def saved_seconds(self) -> float:
        """How much compilation the hits saved so far [s]."""
        return self._saved

    @property
    def average_build(self) -> float:
        """How long a compilation took on average so far [s]; 0 before the first one."""
        return self._built / self._builds_count if self._builds_count else 0.0

    @property
    def empty(self) -> bool:
        """Whether nothing was counted that is worth writing down."""
        return self._is_test or not (
            self._hit_count or self._misses or self._uncacheable or self._builds_count or self._errors
        )

    def snapshot(self) -> dict[str, Any]:
        """Return everything counted so far as JSON-able data: a usage record but for host and version."""
        with self._lock:
            return {
                "pid": os.getpid(),
                "start": self._start,
                "end": time.time(),
                "argv0": (sys.argv[0] if getattr(sys, "argv", None) else "")[: reasons.MAX_TEXT],
                "hits": dict(self._hits),
                "hit_count": self._hit_count,
                "saved_seconds": self._saved,
                "builds": [dict(item) for item in self._builds],
                "builds_count": self._builds_count,
                "built_seconds": self._built,
                "sources": dict(self._sources),
                "misses": dict(self._misses),
                "uncacheable": {
                    reason: {"count": item["count"], "functions": list(item["functions"])}
                    for reason, item in self._uncacheable.items()
                },
                "errors": dict(self._errors),
                "published": self._published,
                "waited_seconds": self._waited,
                "waits": dict(self._waits),
            }

    def _reset(self) -> None:
        self._start = time.time()
        self._is_test = False
        self._hits: dict[str, int] = {}
        self._hit_count = 0
        self._saved = 0.0
        self._sources: dict[str, int] = {}
        self._builds: list[dict[str, Any]] = []
        self._builds_count = 0
        self._built = 0.0
        self._misses: dict[str, int] = {}
        self._uncacheable: dict[str, dict[str, Any]] = {}
        self._examples = 0
        self._errors: dict[str, int] = {}
        self._published = 0
        self._waited = 0.0
        self._waits: dict[str, int] = {}

    def _after_fork(self) -> None:
        # A new lock: another thread of the parent may have held the old one at the moment of the fork.
        self._lock = threading.RLock()
        self._reset()


def _increase(counts: dict[str, int], name: str) -> None:
    name = name[: reasons.MAX_TEXT]
    if name in counts or len(counts) < reasons.MAX_REASONS:
        counts[name] = counts.get(name, 0) + 1
