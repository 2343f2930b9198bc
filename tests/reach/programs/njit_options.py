"""njit: options (fastmath, error_model, boundscheck, nogil, cache)."""

import numpy as np
from numba import njit
from shown import raised, show


@njit(fastmath=True)
def total(a):
    s = 0.0
    for x in a:
        s += x
    return s


@njit(error_model="numpy")
def quotient(a, b):
    return a / b


@njit(boundscheck=True)
def item(a, i):
    return a[i]


@njit(nogil=True, cache=True)
def released(a):
    return a.sum()


@njit(fastmath={"nnan", "ninf"}, no_cpython_wrapper=False)
def largest(a):
    return a.max()


show("total", total(np.arange(8.0)))
show("quotient", quotient(1.0, 0.0))
show("item", item(np.arange(3), 2))
raised("outside", item, np.arange(3), 7)
show("released", released(np.arange(5)))
show("largest", largest(np.arange(5.0)))
