"""Compute capabilities of NVIDIA's GPUs, as people and requests write them: ``8.0``, ``9.0a``.

numba-cuda compiles for the capability of a device. From 9.0 on it takes the target that is for this one alone, which
NVIDIA marks with an ``a``. So ``9.0`` and ``9.0a`` mean the same here, and ``8.0a`` doesn't exist.
"""

from __future__ import annotations

import re
from typing import Final

Capability = tuple[int, int, str]
"""Major and minor number, and the suffix of what runs on that alone: ``(9, 0, "a")``."""

_SPECIFIC_FROM: Final = (9, 0)
_PATTERN: Final = r"([0-9]{1,2})\.([0-9])(a?)"


def of_device(major: int, minor: int) -> Capability:
    """Return what numba-cuda compiles for on a device."""
    return major, minor, "a" if (major, minor) >= _SPECIFIC_FROM else ""


def named(text: str) -> Capability:
    """Return the compute capability that a text means. Raises ValueError, with one line that says why."""
    # Compiled here: whoever finds kernels in a store reads no names.
    match = re.fullmatch(_PATTERN, text.strip(), re.ASCII)
    if match is None:
        raise ValueError(f"{text.strip()[:40]!r} is no compute capability such as 8.0 or 9.0a")
    found = of_device(int(match[1]), int(match[2]))
    if match[3] and not found[2]:
        raise ValueError(f"there is no {match[0]}: numba-cuda compiles for {spelt(found)}")
    return found


def spelt(cc: tuple[object, ...]) -> str:
    """Return a compute capability for people: ``9.0a``."""
    return f"{cc[0]}.{cc[1]}{''.join(map(str, cc[2:]))}"
