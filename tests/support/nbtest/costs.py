"""What a process does instead of how long it takes: calls that a hit may make, counted where Python makes them.

``watch()`` is called in the process to be watched, before Numba is used.
"""

from __future__ import annotations

import functools
import importlib
import os
import pickle
import re
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


_LOCKS = ("fcntl.flock", "fcntl.lockf")


def watch() -> Counter[str]:
    """Count from now on; what is returned goes on counting."""
    import llvmlite.binding as llvm
    from numba.core.base import BaseContext
    from numba.core.codegen import CPUCodeLibrary
    from numba.core.typing import Context

    from nbcache import process

    counts: Counter[str] = Counter()

    def counted(owner: Any, name: str, label: str, amount: Callable[[Any], int] = lambda _result: 1) -> None:
        original = getattr(owner, name)

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            counts[label] += amount(result)
            return result

        setattr(owner, name, call)

    # Python's library asks the one, nbcache the other.
    for module in (os, process.os):
        for name in ("stat", "lstat", "fstat"):
            counted(module, name, "stats")
        for name in ("listdir", "scandir"):
            counted(module, name, "listings")
        counted(module, "pread", "bytes read", len)
    counted(pickle, "loads", "pickle loads")
    # What `re` has cached isn't counted. Before Python 3.11 the module had another name.
    counted(getattr(re, "_compiler", None) or importlib.import_module("sre_compile"), "compile", "patterns compiled")
    # Whoever puts something of his own into Numba has other keys, and what costs more: so nothing is put there.
    calls = {
        llvm.parse_bitcode.__code__: "bitcode parses",
        llvm.parse_assembly.__code__: "assembly parses",
        CPUCodeLibrary._optimize_final_module.__code__: "LLVM runs",
        BaseContext.refresh.__code__: "refreshes",
        Context.refresh.__code__: "refreshes",
    }

    def profile(frame: FrameType, event: str, _arg: object) -> None:
        if event == "call" and frame.f_code in calls:
            counts[calls[frame.f_code]] += 1

    sys.setprofile(profile)

    def audit(event: str, args: tuple[Any, ...], locks: tuple[str, ...] = _LOCKS) -> None:
        if event == "open" and isinstance(args[0], str):
            counts["files opened"] += 1
        elif event in locks:  # globals go before the interpreter tells of its end
            counts["locks"] += 1
        elif event == "import":
            counts["imports"] += 1
        elif event == "compile" and str(args[1]).startswith("<"):  # a named tuple's annotation, a dataclass's method
            counts["texts compiled"] += 1

    sys.addaudithook(audit)
    return counts
