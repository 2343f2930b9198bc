"""Reading small JSON files that somebody else may have written: bounded, and from a regular file only.

The package ``json`` compiles six patterns when it is imported, and half of it is for writing: 2 ms, in processes that
read a file or two. What it reads with is a module of its own, in C.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any, Final

from nbcache.passing import let_pass
from nbcache.trust import OPEN_FLAGS

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbcache.trust import Trust


def read_json(
    path: str, limit: int, trust: Trust | None = None, opener: Callable[[str, int], int] = os.open
) -> tuple[Any, os.stat_result] | None:
    """Return what a file of at most ``limit`` bytes holds, and its status; None for anything else. Never raises.

    With ``trust``, only from a file that passes the rule. What it holds is just JSON of any shape. ``opener`` is what
    opens it, such as a folder's own.
    """
    try:
        fd = opener(path, OPEN_FLAGS)
    except OSError as raised:
        let_pass(raised)
        return None
    try:
        return read_json_from(fd, limit, trust)
    finally:
        os.close(fd)


def read_json_from(fd: int, limit: int, trust: Trust | None = None) -> tuple[Any, os.stat_result] | None:
    """Return what :func:`read_json` does, from an open descriptor, which stays open. Never raises."""
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            return None
        if trust is not None and not trust.allows(status, fd):
            return None
        return parsed(read_up_to(fd, status.st_size)), status
    except (OSError, ValueError, RecursionError) as raised:
        let_pass(raised)
        return None


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no JSON")


class _Rules:
    """What the scanner in C asks a decoder for: numbers, strings, lists and dicts as Python has them."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, staticmethod(_no_number)


def _scanner() -> Callable[[str, int], tuple[Any, int]]:
    try:
        from _json import make_scanner
    except ImportError:  # a Python that keeps it elsewhere
        from json import JSONDecoder

        return JSONDecoder(parse_constant=_no_number).raw_decode
    found: Callable[[str, int], tuple[Any, int]] = make_scanner(_Rules)  # type: ignore[arg-type]  # attributes are all
    return found


_scan: Final = _scanner()
_SPACE: Final = " \t\n\r"


def parsed(data: bytes) -> Any:
    """Return what JSON in UTF-8 says, as `json.loads` does, but for NaN and infinities, which are no JSON.

    Raises ValueError, and RecursionError for what is nested too deeply.
    """
    text = data.decode().strip(_SPACE)
    try:
        found, end = _scan(text, 0)
    except StopIteration as exc:
        raise ValueError(f"no value at character {exc.value}") from None
    if end != len(text):
        raise ValueError(f"more than one value, at character {end}")
    return found


def read_up_to(fd: int, most: int) -> bytes:
    """Return the next ``most`` bytes, fewer at the end of the file. Raises OSError."""
    parts: list[bytes] = []
    while most > 0:
        part = os.read(fd, min(most, 1 << 20))
        if not part:
            break
        parts.append(part)
        most -= len(part)
    return b"".join(parts)
