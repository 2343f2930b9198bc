"""``NBCACHE_PROGRESS``: one line on standard error, if that is a terminal, about what is compiled or waited for.

It is drawn over while something goes on, a few times a second at most, and erased at the end. Nothing of it raises, and
where standard error is no terminal, nothing is written.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from nbcache.passing_exceptions import suppressed
from nbcache.process import os, time

if TYPE_CHECKING:
    from nbcache.protocol.profiles import Profile

PAUSE_SECONDS: Final = 0.2
_WIDEST: Final = 200
_ERASE: Final = "\r\x1b[K"


class Progress:
    """Of one process."""

    def __init__(self) -> None:
        """Write nothing yet."""
        self._ready: set[tuple[str, str]] = set()
        self._profile: Profile | None = None
        self._workers = 0
        self._drawn_at = 0.0
        self._is_drawn = False
        self._open = 0

    def began(self, profile: Profile, workers: int) -> None:
        """So many *workers* were asked for all of a profile."""
        self._profile, self._workers = profile, workers

    def says(self, doing: str, name: str) -> None:
        """Tell what is being done with the function of this name."""
        now = time.monotonic()
        if now - self._drawn_at >= PAUSE_SECONDS:
            self._drawn_at = now
            self._write(f"{_ERASE}{self._line(doing, name)[: self._width()]}")
            self._is_drawn = True

    def ready(self, name: str, signature: str) -> None:
        """This function was loaded or compiled."""
        self._ready.add((name, signature))

    def begin(self) -> None:
        """Something is compiled from now on, perhaps inside something else."""
        self._open += 1

    def end(self) -> None:
        """That is over; erase the line after the outermost one."""
        self._open = max(0, self._open - 1)
        self.erase()

    def erase(self) -> None:
        """Erase the line, unless something is compiled."""
        if self._is_drawn and not self._open:
            self._is_drawn = False
            self._write(_ERASE)

    def _line(self, doing: str, name: str) -> str:
        words = f"nbcache: {doing} {name}"
        if self._profile is None:
            return words
        units = self._profile.units
        # What a loaded function was built upon isn't loaded by itself; and not all that is compiled is in the profile.
        done = self._profile.upon(at for at, unit in enumerate(units) if (unit.function, unit.signature) in self._ready)
        seconds = self._profile.seconds - sum(units[at].seconds for at in done)
        workers = f"{self._workers} worker{'' if self._workers == 1 else 's'}"
        return f"{words} | {len(done)} of {len(units)} functions ready, {seconds:.0f} s of compiling left, {workers}"

    @staticmethod
    def _width() -> int:
        with suppressed(OSError, AttributeError, ValueError):
            # A terminal that says nothing of itself has no columns.
            return max(20, (os.get_terminal_size(2).columns or _WIDEST) - 1)
        return _WIDEST

    @staticmethod
    def _write(text: str) -> None:
        out: Any = sys.stderr
        with suppressed(Exception):  # a stream of the program's may raise what it likes
            if out is not None and out.isatty():
                out.write(text)
                out.flush()
