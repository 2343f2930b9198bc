"""extending: @overload_method and @overload_attribute on Numba's types."""

import numpy as np
from numba import njit, types
from numba.extending import overload_attribute, overload_method
from shown import show


@overload_method(types.Array, "doubled")
def array_doubled(a, by=2):
    def impl(a, by=2):
        return a * by

    return impl


@overload_attribute(types.Array, "first")
def array_first(a):
    def get(a):
        return a.flat[0]

    return get


@njit
def user(a):
    return a.doubled(), a.doubled(3), a.doubled(by=4), a.first


show("user", user(np.arange(1.0, 3.0)))
show("int", user(np.arange(1, 3)))
