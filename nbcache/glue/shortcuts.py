"""What Numba does before its first look at an argument, done without the modules and files that it takes.

Each gives the same answer as Numba's own way, or leaves it to that.
"""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import os
import sys
from typing import Any, Final

from nbcache.passing import let_pass

GROUP: Final = b"numba_extensions"
OURS: Final = (b"init", b"=", b"nbcache.client.hook:init_extension")


class NumPy:
    """Stands in for the module ``numpy`` where Numba looks at arrays: ``numpy.ma`` isn't imported for it.

    As long as nobody has imported that, no array is a masked one.
    """

    class _NoMaskedArrays:
        class MaskedArray:
            pass

    def __init__(self, numpy: Any) -> None:
        self._numpy = numpy

    def __getattr__(self, name: str) -> Any:
        if name == "ma" and "numpy.ma" not in sys.modules:
            return self._NoMaskedArrays
        return getattr(self._numpy, name)


def declares_extensions() -> bool:
    """Whether any installed distribution, but for this one, may extend Numba. Looks where `importlib.metadata` does.

    A hundred distributions are read in 2 ms; `importlib.metadata` takes ten times as long to put them in order.
    """
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_distributions")]
    if finders != [importlib.machinery.PathFinder] or not _is_original(importlib.metadata.entry_points):
        return True
    return any(map(_declares, sys.path))


def _is_original(function: Any) -> bool:
    return getattr(function, "__module__", "") == importlib.metadata.__name__


def _declares(folder: str) -> bool:
    try:
        names = os.listdir(folder or ".")
    except NotADirectoryError:
        return True  # an archive
    except OSError as raised:
        let_pass(raised)
        return False
    return any(_extends(f"{folder or '.'}/{name}/entry_points.txt") for name in names if _is_metadata(name.lower()))


def _is_metadata(name: str) -> bool:
    return name.endswith((".dist-info", ".egg-info")) or name == "egg-info"


def _extends(path: str) -> bool:
    try:
        with open(path, "rb", buffering=0) as file:
            text = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as raised:
        let_pass(raised)
        return True
    if GROUP not in text:
        return False
    entries = text.partition(b"[" + GROUP + b"]")[2].partition(b"[")[0]
    return text.count(GROUP) > 1 or tuple(entries.split()) != OURS
