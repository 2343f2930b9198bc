"""The Pythons that nbcache works with. Asked before anything that another Python may not have, so it imports nothing."""

from __future__ import annotations

import sys
from typing import Final

VERIFIED: Final = ((3, 10), (3, 15))
"""The first and the last one, and all between; scripts/version-matrix tries them."""


def problem() -> str | None:
    """Return why nbcache stays off under this Python; None for a verified one."""
    name, version = sys.implementation.name, sys.version_info[:2]
    if name != "cpython" or "t" in getattr(sys, "abiflags", "") or not VERIFIED[0] <= version <= VERIFIED[1]:
        python = "CPython" if name == "cpython" else name
        kind = " without the GIL" if "t" in getattr(sys, "abiflags", "") else ""
        return f"{python} {'.'.join(map(str, version))}{kind} is not a Python that nbcache was verified with: {verified()}"
    return None


def verified() -> str:
    """Return the verified Pythons, in words."""
    first, last = (".".join(map(str, bound)) for bound in VERIFIED)
    return f"CPython {first} to {last}, with the GIL"
