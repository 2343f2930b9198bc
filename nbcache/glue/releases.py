"""The releases of Numba that nbcache works with. Needs none of Numba's internals, which a newer release may lack."""

from __future__ import annotations

import re

VERIFIED = ((0, 61), (0, 68))
"""The first and the last one, and all between; scripts/version-matrix tries them."""


def problem(version: str | None = None) -> str | None:
    """Why nbcache stays off with this release of Numba (default: that of this process); None for a verified one."""
    if version is None:
        import numba

        version = str(numba.__version__)
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None:
        return f"Numba {version} has a version that can't be read"
    if VERIFIED[0] <= (int(match[1]), int(match[2])) <= VERIFIED[1]:
        return None
    return f"Numba {version} is not a release that nbcache was verified with, which are {verified()}"


def verified() -> str:
    """The verified releases, in words."""
    return " to ".join(".".join(map(str, bound)) for bound in VERIFIED)
