"""A progress bar that compiled code updates: a type of its own around an atomic counter."""

import io

import numba
import numpy as np
from _digest import show
from numba_progress import ProgressBar


@numba.njit(nogil=True)
def walk(steps, progress):
    total = 0.0
    for step in range(steps):
        total += np.sqrt(step)
        progress.update(1)
    return total


@numba.njit(nogil=True, parallel=True)
def walk_together(steps, progress):
    out = np.zeros(steps)
    for step in numba.prange(steps):
        out[step] = step**0.5
        progress.update(1)
    return out


with ProgressBar(total=1000, file=io.StringIO()) as progress:
    show("walk", walk(500, progress))
    show("together", walk_together(500, progress))
show("steps", progress.n)
