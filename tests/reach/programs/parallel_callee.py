"""parallel: called from serial code, from another parallel function, and calling by the index of the loop."""

import numpy as np
from numba import njit, prange
from shown import show


@njit(parallel=True)
def rows(a):
    out = np.empty(a.shape[0])
    for i in prange(a.shape[0]):
        out[i] = a[i].sum()
    return out


@njit
def serial(a):
    return rows(a).sum()


@njit(parallel=True)
def outer(a):
    return rows(a * 2) + rows(a)


@njit
def put(a, i, value):
    a[i] = value


@njit(parallel=True)
def filled(n):
    a = np.empty(n)
    for i in prange(n):
        put(a, i, 1.5 * n)
    return a


a = np.arange(6.0).reshape(3, 2)
show("serial", serial(a))
show("outer", outer(a))
show("rows", rows(a))
show("filled", filled(4))
put(a[0], np.uint64(1), 7.0)
show("put", a)
