"""cfunc: called through ctypes and by scipy-like callbacks."""

import ctypes
import math

from numba import cfunc, njit
from shown import show


@njit
def helper(x):
    return math.exp(-x)


@cfunc("float64(float64)")
def integrand(t):
    return helper(t) / (t * t + 1)


@cfunc("int64(int64, int64)")
def add(a, b):
    return a + b


show("integrand", integrand.ctypes(1.0))
show("add", add.ctypes(2, 3))
function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(add.address)
show("address", function(4, 5))
