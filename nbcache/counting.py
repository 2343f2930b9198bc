"""Counters of one process.

Whatever is counted is a record of its own that holds little else (:mod:`nbcache.store.usage` describes the fields). It
is added to what this process has counted so far, and handed on to whoever writes it down.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from nbcache.process import os, time
from nbcache.store import reasons


class Counters:
    """What one process hit, missed and built. Any thread may count at any time; a forked child starts from nothing."""

    def __init__(self, note: Callable[[dict[str, Any]], None] = lambda _counted: None) -> None:
        """Start counting now. *note* is called with each thing that is counted, as a part of a usage record."""
        # Re-entrant: the garbage collector may run somebody's finalizer, which compiles, in the middle of counting.
        self._lock = threading.RLock()
        self._note = note
        self._reset()
        # Otherwise the child's record would tell everything the parent's tells once more.
        if hasattr(os, "register_at_fork"):  # where nbcache stays off, somebody may ask for the counts
            os.register_at_fork(after_in_child=self._after_fork)

    def hit(self, key: str, saved_seconds: float, source: str = "") -> None:
        """Count a use of an entry, and the compilation [s] it saved.

        *source*: the layer that it came from, and the processor it is for if that isn't this process's target.
        """
        counted = {"hits": {key: 1}, "hit_count": 1, "saved_seconds": saved_seconds}
        if source:
            counted["sources"] = {source[: reasons.MAX_TEXT]: 1}
            self._count(counted)
            return
        with self._lock:  # as `reasons.add` does, in half the time
            hits = self._total["hits"]
            if key in hits or len(hits) < reasons.MAX_KEYS:
                hits[key] = hits.get(key, 0) + 1
            self._total["hit_count"] += 1
            self._total["saved_seconds"] += saved_seconds
        self._note(counted)

    def miss(self, reason: str) -> None:
        """Count a look-up that found nothing to use."""
        self._count({"misses": {reason[: reasons.MAX_TEXT]: 1}})

    def checked(self, result: str) -> None:
        """Count a hit that was checked, by what came of it: one of :data:`nbcache.store.reasons.CHECKS`."""
        self._count({"checks": {result: 1}})

    def uncacheable(self, reason: str, function: str) -> None:
        """Count a function that can't be cached; the first few are kept by name."""
        seen = {"count": 1, "functions": [function[: reasons.MAX_TEXT]]}
        self._count({"uncacheable": {reason[: reasons.MAX_TEXT]: seen}})

    def unasked(self, reason: str) -> None:
        """Count a function that other processes can't be asked for."""
        self._count({"unasked": {reason[: reasons.MAX_TEXT]: 1}})

    def built(self, key: str, function: str, seconds: float) -> None:
        """Count a compilation here and how long it took [s]."""
        from nbcache.store import usage

        self._is_test |= function.startswith(usage.SELF_TEST)
        build = {"key": key, "function": function[: reasons.MAX_TEXT], "seconds": seconds}
        self._count({"builds": [build], "builds_count": 1, "built_seconds": seconds})

    def published(self) -> None:
        """Count an entry that went into the store."""
        self._count({"published": 1})

    def waited(self, seconds: float, *, came: bool) -> None:
        """Count how long somebody else's compilation was waited for [s], and whether it came."""
        waits = {next(most for most in reasons.WAITS if seconds <= float(most)): 1}
        if not came:
            waits[reasons.IN_VAIN] = 1
        self._count({"waits": waits, "waited_seconds": seconds})

    def error(self, what: str) -> None:
        """Count a fault that was turned into a miss."""
        self._count({"errors": {what[: reasons.MAX_TEXT]: 1}})

    @property
    def hits(self) -> dict[str, int]:
        """How often each key was used so far. It goes on growing, in this process."""
        hits: dict[str, int] = self._total["hits"]
        return hits

    @property
    def saved_seconds(self) -> float:
        """How much compilation the hits saved so far [s]."""
        return float(self._total["saved_seconds"])

    @property
    def average_build(self) -> float:
        """How long a compilation took on average so far [s]; 0 before the first one."""
        count = self._total["builds_count"]
        return self._total["built_seconds"] / count if count else 0.0

    @property
    def empty(self) -> bool:
        """Whether nothing was counted that is worth writing down."""
        worth = ("hit_count", "misses", "uncacheable", "builds_count", "errors")
        return self._is_test or not any(self._total[name] for name in worth)

    def snapshot(self) -> dict[str, Any]:
        """Return everything counted so far as JSON-able data: a usage record but for host and version."""
        with self._lock:
            return {
                "pid": os.getpid(),
                "start": self._start,
                "end": time.time(),
                "argv0": program(),
                **reasons.copied(self._total),
            }

    def _count(self, counted: dict[str, Any]) -> None:
        with self._lock:
            reasons.add(self._total, counted)
        self._note(counted)

    def _reset(self) -> None:
        self._start = time.time()
        self._is_test = False
        self._total = reasons.none_counted()

    def _after_fork(self) -> None:
        # A new lock: another thread of the parent may have held the old one at the moment of the fork.
        self._lock = threading.RLock()
        self._reset()


def program() -> str:
    """Return what this process was started as."""
    return str(sys.argv[0] if getattr(sys, "argv", None) else "")[: reasons.MAX_TEXT]
