"""njit: a chain of callees with globals."""

import math

from numba import njit
from shown import show

K = 3
WEIGHTS = (1.0, 2.5, 4.0)


@njit
def inner(x):
    return x + K


@njit
def middle(x):
    return inner(x) * WEIGHTS[1] + math.sin(0.0)


@njit
def outer(n):
    s = 0.0
    for i in range(n):
        s += middle(i)
    return s


show("outer", outer(10))
show("middle", middle(2))
show("inner", inner(2))
