"""exceptions: the language's, the user's and NumPy's, from callees."""

import numpy as np
from numba import njit
from shown import raised, show


class Odd(Exception):
    pass


@njit
def check(x):
    if x == 1:
        raise Odd("odd", 1)
    if x == 2:
        raise ValueError("two")
    if x == 3:
        raise IndexError
    if x == 4:
        raise KeyError("value", x)
    return 10 // x


@njit
def outer(x):
    return check(x) + 1


for x in range(6):
    raised(f"outer {x}", outer, x)
show("fine", outer(5))


@njit
def key(a, i):
    return np.zeros(a)[i]


raised("negative", key, -1, 0)
