"""parallel: array expressions and array reductions."""

import numpy as np
from numba import njit
from shown import show


@njit(parallel=True)
def fused(a, b):
    c = a * 2 + b
    d = np.sqrt(c * c)
    return d


@njit(parallel=True)
def reduced(a):
    return a.sum(), a.min(), a.max(), np.argmin(a), np.prod(a), a.mean()


@njit(parallel=True)
def made(n):
    return np.arange(n) + np.ones(n), np.zeros((n, 2))


show("fused", fused(np.arange(4.0), np.ones(4)))
show("reduced", reduced(np.arange(1.0, 5.0)))
show("made", made(3))
