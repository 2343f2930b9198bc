"""Why Numba asks for the code of a function."""

from __future__ import annotations

from typing import Any


def is_called(owner: Any) -> bool:
    """Whether a dispatcher is being called, and will execute what it is given at once.

    It keeps the types of its arguments until then. Where there are none, nobody knows.
    """
    return bool(getattr(owner, "_types_active_call", None))
