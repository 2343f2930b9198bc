"""arguments: Optional, None, omitted, keyword and variable arguments."""

from numba import float64, int64, njit, optional
from shown import show


@njit(float64(optional(float64)))
def or_zero(x):
    return 0.0 if x is None else x


@njit
def maybe(x):
    if x > 0:
        return x
    return None


@njit
def uses(x, y=None):
    if y is None:
        return x
    return x + y


@njit(optional(int64)(int64))
def returns(n):
    return None if n == 0 else n


show("or_zero", (or_zero(None), or_zero(2.5)))
show("maybe", (maybe(1), maybe(-1)))
show("uses", (uses(1), uses(1, None), uses(1, 2)))
show("returns", (returns(0), returns(3)))
