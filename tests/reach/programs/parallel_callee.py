"""parallel: called from serial code and from another parallel function."""

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


a = np.arange(6.0).reshape(3, 2)
show("serial", serial(a))
show("outer", outer(a))
show("rows", rows(a))
