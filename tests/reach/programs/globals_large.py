"""globals: an array of more than a megabyte."""

import numpy as np
from numba import njit
from shown import show

LARGE = np.arange(300_000, dtype=np.float64)


@njit
def item(i):
    return LARGE[i] + LARGE.size


@njit
def total(n):
    return LARGE[:n].sum()


show("item", item(5))
show("total", total(1000))
