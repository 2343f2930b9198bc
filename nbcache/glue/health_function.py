"""A function that nobody has compiled yet, for `nbcache health`."""

from __future__ import annotations

from typing import Any

from numba import njit


def adder(name: str, number: int):
    """A compiled function that adds *number* to an integer, called *name* ("module:qualname"), as if typed just now."""
    module, _, qualname = name.partition(":")
    namespace: dict[str, Any] = {"__name__": module}
    exec(f"def {qualname}(x):\n    return x + {number}\n", namespace)  # noqa: S102  a few words of our own
    return njit(namespace[qualname])
