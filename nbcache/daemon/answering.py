"""Answers to requests: a request that is gone from the spool is answered, whatever came of it."""

from __future__ import annotations

import os
import time
from itertools import islice
from typing import TYPE_CHECKING, Final

from nbcache.protocol import spool

if TYPE_CHECKING:
    from nbcache.metrics.meter import Meter

REMEMBERED: Final = 10_000
"""How many files that can't be removed are known not to be looked at again."""
AGAIN_SECONDS: Final = 1.0
"""How often some of these are answered again: what kept them from being removed may be over [s]."""
AGAIN: Final = 100
"""How many of them in one turn."""


class Answers:
    """Removes requests, and remembers those that can't be removed."""

    def __init__(self, meter: Meter) -> None:
        """Have answered nothing."""
        self._meter = meter
        self._stuck: dict[str, None] = {}
        self._tried_again = 0.0

    def answer(self, path: str) -> None:
        """Let whoever asked go on; a request that can't be removed isn't looked at again."""
        self._meter.answered(path)
        if not spool.answer(path) or os.path.lexists(path):
            self.ignore(path)

    def ignore(self, path: str) -> None:
        """A request that is answered lies there still."""
        self._meter.forgotten(path)
        self._stuck[path] = None
        if len(self._stuck) > REMEMBERED:
            del self._stuck[next(iter(self._stuck))]

    def ignores(self, path: str) -> bool:
        """Whether a request is known to be answered."""
        return path in self._stuck

    def answer_again(self) -> None:
        """Answer some of what couldn't be answered: else whoever asked waits, and the request lies there for ever."""
        now = time.monotonic()
        if now - self._tried_again < AGAIN_SECONDS:
            return
        self._tried_again = now
        for path in list(islice(self._stuck, AGAIN)):
            # The next ones come first then.
            del self._stuck[path]
            self.answer(path)
