"""arguments: defaults, varargs, keywords, tuples of mixed types."""

import numpy as np
from numba import njit
from shown import show


@njit
def many(a, b=2, *rest):
    return a + b, len(rest)


@njit
def summed(first, *rest):
    s = first
    for x in rest:
        s += x
    return s


@njit
def keyword(a, scale=3):
    return a * scale


@njit
def named(x, y=1.5, z="z"):
    return x, y, z


@njit
def spread(t):
    return many(*t)


show("many", (many(1), many(1, 5), many(1, 5, 6, 7)))
show("summed", (summed(1, 2), summed(1.5, 2, 3)))
show("keyword", (keyword(2), keyword(2, scale=5.0)))
show("named", (named(1), named(1, z="w"), named(y=2, x=np.float32(1))))
show("spread", spread((1, 2, 3, 4)))
