"""How commands print: tables, sizes, times, progress. Plain text, the same on a terminal and in a pipe."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO

from nbcache import setting_syntax
from nbcache.errors import NbcacheError

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class CommandError(NbcacheError):
    """Something is wrong: the message is the one line to print, the exit status is 1."""


class UsageError(CommandError):
    """The command was asked for something that can't be: the exit status is 2."""


def printable(text: object) -> str:
    """Return `text` on one line and without control characters: names come from files that others wrote."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in str(text))


def plural(count: float, word: str) -> str:
    """Return a noun as it stands behind `count`."""
    return word if count == 1 else f"{word}s"


def table(rows: Iterable[Sequence[object]], head: Sequence[str] = (), right: str = "") -> Iterator[str]:
    """Yield the lines of a table with columns as wide as their widest cell.

    `right` says which columns are right-aligned: one character a column, ``>`` for those.
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    if head:
        cells.insert(0, list(head))
    if not cells:
        return
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    for row in cells:
        parts = [
            cell.rjust(width) if right[column : column + 1] == ">" else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(parts).rstrip()


def print_table(rows: Iterable[Sequence[object]], head: Sequence[str] = (), right: str = "") -> None:
    """Print what `table` yields."""
    for line in table(rows, head, right):
        print(line)


def size(count: float) -> str:
    """Return `count` [bytes] in words: ``1.5 MiB``."""
    for unit in _UNITS[:-1]:
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} {_UNITS[-1]}"


def duration(seconds: float) -> str:
    """Return `seconds` in words: ``45 ms``, ``3.2 s``, ``5 min``, ``2 h``, ``3 d``."""
    if seconds < 1:
        return f"{max(seconds, 0) * 1e3:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86400:.0f} d"


def seconds(text: str) -> float:
    """Return how long a text says [s], as :func:`nbcache.setting_syntax.seconds` reads it. Raises UsageError."""
    try:
        return setting_syntax.seconds(text)
    except ValueError as error:
        raise UsageError(f"not a duration: {text!r:.40} (such as 90s, 15m, 12h or 1d)") from error


def age(moment: float, now: float | None = None) -> str:
    """Return how long ago `moment` (unix time [s]) was; another host's clock may be ahead, which is ``now``."""
    passed = (time.time() if now is None else now) - moment
    return "now" if passed < 1 else duration(passed)


def ago(moment: float, now: float | None = None) -> str:
    """Return `age` as it is said of something that happened: ``5 min ago``, or ``now``."""
    passed = age(moment, now)
    return passed if passed == "now" else f"{passed} ago"


def user_name(uid: int) -> str:
    """Return a user's name; the number, where there is none."""
    import pwd  # of the commands, few name users

    try:
        return printable(pwd.getpwuid(uid).pw_name)
    except (KeyError, OSError):
        return str(uid)


def print_json(value: Any) -> None:
    """Print `value` as JSON for programs and people."""
    print(json.dumps(value, indent=2, sort_keys=True, default=str))


class Progress:
    """Counts steps on standard error when that is a terminal, and writes nothing anywhere else.

    Redrawn ten times a second at most; erased at the end, and by `clear` before something else is printed.
    """

    def __init__(self, total: int, label: str, stream: TextIO | None = None) -> None:
        """Count up to `total`; `stream` stands in for standard error."""
        self._total = total
        self._label = label
        self._out = sys.stderr if stream is None else stream
        self._shown = self._out.isatty()
        self._count = 0
        self._drawn = 0.0

    def step(self, _item: object = None) -> None:
        """Count one; anything that is passed is ignored, so that this can be a callback."""
        self._count += 1
        if self._shown and time.monotonic() - self._drawn >= 0.1:
            self._drawn = time.monotonic()
            bar = "#" * (20 * self._count // max(self._total, self._count))
            self._write(f"\r{self._label} [{bar:20s}] {self._count}/{self._total}")

    def clear(self) -> None:
        """Erase the line."""
        if self._shown and self._drawn:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
