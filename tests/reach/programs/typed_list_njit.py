"""typed: List made, passed and returned by jitted code."""

import numpy as np
from numba import njit, typed
from shown import show


@njit
def made(n):
    l = typed.List()
    for i in range(n):
        l.append(np.full(i, float(i)))
    return l


@njit
def sizes(l):
    return [a.size for a in l]


l = made(3)
show("sizes", sizes(l))
show("item", l[2])
nested = typed.List([typed.List([1, 2]), typed.List([3])])


@njit
def flat(nested):
    out = typed.List()
    for part in nested:
        out.extend(part)
    out.sort(reverse=True)
    return out


show("flat", list(flat(nested)))
show("strings", list(typed.List(["a", "bc"])))
show("tuples", list(typed.List([(1, 2.0), (3, 4.0)])))
