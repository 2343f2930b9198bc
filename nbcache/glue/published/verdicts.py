"""Why a function can't be published."""

from __future__ import annotations


class Refused(Exception):  # noqa: N818  a verdict, not a malfunction
    """Something that a node without Numba can't do; ``str()`` is the reason."""
