"""The Pythons that nbcache works with, and where. Asked before what others may not have, so it imports nothing."""

from __future__ import annotations

import sys
from typing import Final

VERIFIED: Final = ((3, 10), (3, 15))
"""The first and the last one, and all between; scripts/version-matrix tries them."""


def problem() -> str | None:
    """Return why nbcache stays off under this Python; None for a verified one."""
    if sys.platform != "linux":
        return f"{sys.platform} is not a system that nbcache was verified on, which is Linux"
    name, version = sys.implementation.name, sys.version_info[:2]
    has_no_gil = "t" in getattr(sys, "abiflags", "")
    if name == "cpython" and not has_no_gil and VERIFIED[0] <= version <= VERIFIED[1]:
        return None
    python = f"{'CPython' if name == 'cpython' else name} {'.'.join(map(str, version))}"
    kind = " without the GIL" if has_no_gil else ""
    return f"{python}{kind} is not a Python that nbcache was verified with: {verified()}"


def verified() -> str:
    """Return the verified Pythons, in words."""
    first, last = (".".join(map(str, bound)) for bound in VERIFIED)
    return f"CPython {first} to {last}, with the GIL, on Linux"
