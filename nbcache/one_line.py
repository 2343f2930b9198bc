"""Text that others wrote, as one line for people: names, reasons and paths come from files and programs of others.

A newline forges a line of a log, ESC talks to the terminal that shows it, a lone surrogate can't be written at all. So
whatever is no printable character is spelt as an escape.
"""

from __future__ import annotations

import logging
from typing import Final

log: Final = logging.getLogger("nbcache")
"""Where nbcache says what it has to say."""


def first_line(error: BaseException) -> str:
    """Return the first line of an exception that says why; Numba's begin with the step of the compiler that failed."""
    lines = [line for line in map(str.strip, str(error).splitlines()) if line]
    return next((line for line in lines if not line.startswith("Failed in ")), "".join(lines[:1]))


def one_line(text: str) -> str:
    """Return the text on one line; printable characters stay as they are."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
