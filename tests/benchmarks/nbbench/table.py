"""The table: medians, spread, ratios."""

from __future__ import annotations

import os
import platform
import statistics
from typing import TYPE_CHECKING

from nbbench.sides import NBCACHE, OWN, PLAIN, SIDES

if TYPE_CHECKING:
    from nbbench.measures import Samples


def machine() -> str:
    """Describe this machine in one line."""
    cpu = platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            cpu = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), cpu)
    except OSError:
        pass
    import numba

    try:
        import scipy

        with_scipy = f"SciPy {scipy.__version__}"
    except ImportError:
        with_scipy = "no SciPy"
    return (
        f"{cpu}, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}; Python {platform.python_version()}, "
        f"Numba {numba.__version__}, {with_scipy}"
    )


def cell(values: list[float]) -> str:
    """Return a median with the least and the greatest value."""
    if not values:
        return "-"
    digits = 3 if statistics.median(values) < 1 else 2 if statistics.median(values) < 100 else 0
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def _ratio(values: list[float], base: list[float]) -> str:
    return f"{statistics.median(values) / statistics.median(base):.2f}" if values and base else "-"


def head() -> str:
    """Return the line above the rows: medians with least and greatest, and how many times nbcache's the others are."""
    return f"{'':52} {NBCACHE:>26} {OWN:>26} {PLAIN:>26}  own/nbcache  plain/nbcache"


def rows(samples: Samples) -> list[str]:
    """Return a line per row of ``samples``."""
    lines = []
    for name, by_side in samples.items():
        cells = " ".join(f"{cell(by_side.get(side, [])):>26}" for side in SIDES)
        own, plain = (_ratio(by_side.get(side, []), by_side.get(NBCACHE, [])) for side in (OWN, PLAIN))
        lines.append(f"{name:52} {cells}  {own:>11}  {plain:>13}")
    return lines
