"""Reading small JSON files that somebody else may have written: bounded, and from a regular file only."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Any

from nbcache.passing import let_pass
from nbcache.process import os
from nbcache.store.content import parsed, read_up_to
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


def read_json_from(
    fd: int, limit: int, trust: Trust | None = None, parse: Callable[[bytes], Any] = parsed
) -> tuple[Any, os.stat_result] | None:
    """Return what :func:`read_json` does, from an open descriptor, which stays open. Never raises.

    ``parse`` says what the content means, or raises ValueError.
    """
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            return None
        if trust is not None and not trust.allows(status, fd):
            return None
        return parse(read_up_to(fd, status.st_size)), status
    except (OSError, ValueError, RecursionError) as raised:
        let_pass(raised)
        return None
