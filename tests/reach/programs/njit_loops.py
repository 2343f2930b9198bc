"""njit: tuples of mixed types, nested loops, print and assert."""

import numpy as np
from numba import njit
from shown import raised, show


@njit
def pairs(n):
    out = []
    for i in range(n):
        for j in range(i):
            if (i + j) % 2:
                out.append((i, float(j)))
    return out


@njit
def swap(t):
    a, b, c = t
    return c, b, a


@njit
def says(x):
    print("inside", x)
    assert x > 0, "positive"
    return x


show("pairs", pairs(4))
show("swap", swap((1, 2.5, np.arange(2))))
show("says", says(4))
raised("assert", says, -1)
