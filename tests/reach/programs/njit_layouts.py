"""njit: memory orders, strides, read-only and zero-dimensional arrays."""

import numpy as np
from numba import njit
from shown import show


@njit
def total(a):
    s = a.dtype.type(0)
    for x in a.flat:
        s += x
    return s


a = np.arange(12.0).reshape(3, 4)
show("C", total(a))
show("F", total(np.asfortranarray(a)))
show("A", total(a[::2, ::2]))
show("f4", total(a.astype(np.float32)))
r = a.copy()
r.setflags(write=False)
show("readonly", total(r))


@njit
def fill(a):
    a[...] = 3
    return a


show("0d", fill(np.zeros(())))
show("3d", fill(np.zeros((1, 2, 2), np.int8)))
