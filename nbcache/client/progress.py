"""Whether somebody gets on with what is waited for: told by the processor time that is spent on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nbcache.process import time

if TYPE_CHECKING:
    from collections.abc import Callable

LOOK_SECONDS: Final = 0.1
"""How often one looks [s]."""
LEAST: Final = 0.02
"""Which part of the time has to be spent by a processor to count: on a crowded machine it is a small one."""


class Watch:
    """Looks at one piece of work now and then; ``spent`` tells its processor time so far [s], None if it can't."""

    def __init__(self, spent: Callable[[], float | None]) -> None:
        """Begin to watch: what was spent before is no progress."""
        self._spent = spent
        self._looked = self._since = time.monotonic()
        self._last: float | None = None

    def advanced(self) -> bool:
        """Whether work was seen to be done since the last time that it was."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return False
        self._looked = now
        spent = self._spent()
        if spent is None:
            return False
        if self._last is None or spent < self._last:
            # Begun since then, seen for the first time, or gone on with by another process.
            self._last, self._since = spent, now
            return spent > 0
        if spent - self._last <= LEAST * (now - self._since):
            return False
        self._last, self._since = spent, now
        return True
