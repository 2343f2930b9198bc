"""Why Numba asks for the code of a function, and how it calls that."""

from __future__ import annotations

from typing import Any

from numba.core import config

from nbcache.process import is_profiled


def is_called(owner: Any) -> bool:
    """Whether a dispatcher is being called, and will execute what it is given at once.

    It keeps the types of its arguments until then. Where there are none, nobody knows.
    """
    return bool(getattr(owner, "_types_active_call", None))


def are_shown() -> bool:
    """Whether somebody is to be shown the calls of compiled code, which Numba does for entry points alone."""
    return is_profiled() or bool(getattr(config, "ENABLE_SYS_MONITORING", False))
