"""cfunc: arrays through pointers; cfuncs called by jitted code."""

import ctypes

import numpy as np
from numba import carray, cfunc, njit, types
from shown import show


@cfunc(types.float64(types.CPointer(types.float64), types.intp))
def total(pointer, n):
    a = carray(pointer, (n,))
    return a.sum()


@cfunc("float64(float64)")
def half(x):
    return x / 2


@njit
def apply(f, x):
    return f(x) + 1


a = np.arange(4.0)

show("total", total.ctypes(a.ctypes.data_as(ctypes.POINTER(ctypes.c_double)), 4))
show("apply", apply(half, 3.0))
