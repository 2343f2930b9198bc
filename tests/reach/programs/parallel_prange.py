"""parallel: prange with scalar reductions."""

import numpy as np
from numba import njit, prange
from shown import show


@njit(parallel=True)
def reductions(n):
    s, p, m = 0, 1.0, -1
    for i in prange(n):
        s += i
        p *= 1.0 + (i % 2)
        m = max(m, (i * 7) % 11)
    return s, p, m


@njit(parallel=True)
def fill(n):
    out = np.empty(n)
    for i in prange(n):
        out[i] = i * 2.0
    return out


show("reductions", reductions(20))
show("fill", fill(6))
