"""functions: what calls a function for one signature alone, whose code is bound to a class or a large array."""

from collections import namedtuple
from enum import Enum

import numpy as np
from numba import float64, int64, njit
from shown import show

LARGE = np.arange(300_000, dtype=np.float64)
Pair = namedtuple("Pair", "a b")


class Kind(Enum):
    A = 1
    B = 2


@njit(int64(float64))
def kind(x):
    if x > 1.0:
        return Kind.A.value
    return Kind.B.value


@njit((float64,))
def pair(x):
    return Pair(x, 1)


@njit(float64(int64))
def item(i):
    return LARGE[i]


@njit
def kinds(x):
    return kind(x) * 2


@njit
def pairs(x):
    return pair(x).a


@njit
def items(i):
    return item(i) + 1


show("kinds", (kinds(1.0), kinds(2.0)))
show("pairs", pairs(2.0))
show("items", items(5))
