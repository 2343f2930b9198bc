"""Keeps compiled code from being run in a process that compiles for a processor which this host's can't stand in for.

Compiling runs no compiled code; importing a module may. Where it calls a function that Numba compiled, the call is
refused with the reason, before anything of it is executed. Loops of ufuncs and ctypes' callbacks are called by others
than Numba: where these meet an instruction that isn't there, the process dies of SIGILL, alone.
"""

from __future__ import annotations

from typing import Any

from numba.core import config
from numba.core.dispatcher import _DispatcherBase

from nbcache.glue.keys import targets


class ForeignCodeError(RuntimeError):
    """Something was about to run code for another processor."""


def forbid_calls() -> None:
    """From here on, refuse calls of compiled functions, if this process compiles for a foreign processor."""
    if not targets.is_foreign():
        return
    lacking = ", ".join(targets.lacks(str(config.CPU_NAME)))

    def refuse(self: Any, *_args: Any, **_keywords: Any) -> Any:
        msg = (
            f"{self.py_func.__qualname__} is called, which runs code for {config.CPU_NAME}, and this host's processor "
            f"has no {lacking}: build it on one that has"
        )
        raise ForeignCodeError(msg)

    # What isn't inserted is unknown to Numba's C code, which then asks these.
    _DispatcherBase._insert = lambda *_args, **_keywords: None
    _DispatcherBase._compile_for_args = refuse
    _DispatcherBase._explain_matching_error = refuse
