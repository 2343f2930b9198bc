"""A canary: what was compiled is called with made-up arguments, in a process that may die of it."""

from __future__ import annotations

import faulthandler
import os
import signal
from typing import Any, Final

from numba.core import types

from nbcache.glue.publishing.refusals import Refused
from nbcache.glue.publishing.type_data import type_data
from nbcache.glue.requests import carrying_out
from nbcache.protocol.requests import Request
from nbcache.published.examples import CannotMakeUp, example

SECONDS: Final = 10
"""How long it may run [s]."""
_DEATHS: Final = frozenset(
    {signal.SIGILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGTRAP, signal.SIGABRT}
)
"""What only code that is broken, or makes no sense of its arguments, dies of."""


def crash(request: Request) -> str | None:
    """Call what a request had compiled, in a child of this process; return the name of the signal that it died of.

    "" where it came back or raised an exception; None where it went on for too long, or no arguments can be made up.
    What it prints is lost.
    """
    public, args = carrying_out.compiled_for(request)
    try:
        made = [example(type_data(typ)) for typ in args if not isinstance(typ, types.Omitted)]
    except (Refused, CannotMakeUp):
        return None
    child = os.fork()
    if child == 0:
        _call(public, made)
    _, status = os.waitpid(child, 0)
    if status == 0:
        return ""
    died = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    return signal.Signals(died).name if died in _DEATHS else None


def _call(function: Any, args: list[Any]) -> None:
    """Call it, and end this process."""
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):
            os.dup2(nowhere, fd)
        faulthandler.disable()
        signal.alarm(SECONDS)
        function(*args)
    except BaseException:  # noqa: BLE001, S110  an exception is the function's own business
        pass
    finally:
        os._exit(0)
