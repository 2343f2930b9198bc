"""Packages that declare that they extend Numba: read out of their metadata, without the time that its order takes.

Gives the same answer as `importlib.metadata`, or leaves it to that.
"""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import os
import sys
from typing import Any, Final

from nbcache.passing import let_pass

GROUP: Final = b"numba_extensions"
_CHUNK: Final = 1 << 16
OURS: Final = (b"init", b"=", b"_nbcache:extend")


def declares_extensions() -> bool:
    """Whether any installed distribution, but for this one, may extend Numba."""
    return declarations() != []


def declarations() -> list[tuple[str, str]] | None:
    """Path and text of what declares an extension of Numba, None if that can't be told.

    Looks where `importlib.metadata` does. A hundred distributions are read in 2 ms; `importlib.metadata` takes ten
    times as long to put them in order.
    """
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_distributions")]
    if finders != [importlib.machinery.PathFinder] or not _is_original(importlib.metadata.entry_points):
        return None
    found = []
    for folder in sys.path:
        declared = _declared_in(folder)
        if declared is None:
            return None
        found += declared
    return found


def _is_original(function: Any) -> bool:
    return getattr(function, "__module__", "") == importlib.metadata.__name__


def _declared_in(folder: str) -> list[tuple[str, str]] | None:
    try:
        names = os.listdir(folder or ".")
    except NotADirectoryError:
        return None  # an archive
    except OSError as raised:
        let_pass(raised)
        return []
    found = []
    for name in names:
        if _is_metadata(name.lower()):
            path = f"{folder or '.'}/{name}/entry_points.txt"
            text = _extending(path)
            if text is None:
                return None
            if text:
                found.append((path, text))
    return found


def _is_metadata(name: str) -> bool:
    return name.endswith((".dist-info", ".egg-info")) or name == "egg-info"


def _extending(path: str) -> str | None:
    """What a distribution declares if that extends Numba, "" if it doesn't, None if it can't be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # a file object takes as long again
        try:
            text = b"".join(iter(lambda: os.read(fd, _CHUNK), b""))
        finally:
            os.close(fd)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as raised:
        let_pass(raised)
        return None
    if GROUP not in text:
        return ""
    entries = text.partition(b"[" + GROUP + b"]")[2].partition(b"[")[0]
    extends = text.count(GROUP) > 1 or tuple(entries.split()) != OURS
    return text.decode("utf-8", "surrogateescape") if extends else ""
