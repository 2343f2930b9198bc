"""Why a function can't be published."""

from __future__ import annotations

from typing import Final

OBJECT_MODE: Final = "it runs Python code of its own (objmode), which needs Numba: leave that to its caller"


class Refused(Exception):  # noqa: N818  a verdict, not a malfunction
    """Something that a node without Numba can't do; ``str()`` is the reason, and what to do."""
