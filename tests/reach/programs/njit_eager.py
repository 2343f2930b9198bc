"""njit: eager, one and several declared signatures."""

import numpy as np
from numba import float64, int64, njit
from shown import show


@njit("float64(float64, float64)")
def add(a, b):
    return a + b


@njit([int64(int64), float64(float64)])
def square(a):
    return a * a


@njit("float64[:](float64[::1])")
def cumulated(a):
    out = np.empty_like(a)
    total = 0.0
    for i in range(a.size):
        total += a[i]
        out[i] = total
    return out[::1]


show("add", add(1, 2.5))
show("square", (square(3), square(1.5)))
show("cumulated", cumulated(np.arange(4.0)))
show("signatures", square.signatures)
