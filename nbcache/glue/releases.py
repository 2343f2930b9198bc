"""The releases of Numba that nbcache works with. Imports nothing of Numba, whose newer releases may lack anything."""

from __future__ import annotations

import re
import sys

VERIFIED = ((0, 61), (0, 68))
"""The first and the last one, and all between; scripts/version-matrix tries them."""


def problem(version: str | None = None) -> str | None:
    """Why nbcache stays off with this release of Numba, which must be imported; None for a verified one."""
    version = str(sys.modules["numba"].__version__) if version is None else version
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None:
        return f"Numba {version} has a version that can't be read"
    if VERIFIED[0] <= (int(match[1]), int(match[2])) <= VERIFIED[1]:
        return None
    return f"Numba {version} is not a release that nbcache was verified with, which are {verified()}"


def verified() -> str:
    """The verified releases, in words."""
    return " to ".join(".".join(map(str, bound)) for bound in VERIFIED)
