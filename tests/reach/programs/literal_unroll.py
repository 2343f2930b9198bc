"""literals: literal_unroll over mixed tuples; constant dictionaries and lists."""

import numpy as np
from numba import literal_unroll, njit
from shown import show

MIXED = (1, 2.5, "text", 3j)


@njit
def total(t):
    s = 0.0
    for x in literal_unroll(t):
        s += len(str(x)) if isinstance(x, str) else abs(x)
    return s


@njit
def heterogeneous():
    n = 0
    for x in literal_unroll(MIXED):
        n += 1
    return n


@njit
def constants():
    d = {"a": 1, "b": 2.5, "c": "x"}
    l = [1, "two", 3.0]
    return d["b"], l[1], len(l)


show("total", total((1, 2.5, np.float32(3))))
show("heterogeneous", heterogeneous())
show("constants", constants())
