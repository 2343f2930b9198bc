"""stencil: called from jitted code, defined outside and inside."""

import numpy as np
from numba import njit, stencil
from shown import show


@stencil
def mean3(a):
    return (a[-1] + a[0] + a[1]) / 3


@njit
def smoothed(a, n):
    for _ in range(n):
        a = mean3(a)
    return a


@njit
def inside(a):
    return stencil(lambda a: a[-1] + a[1])(a)


show("smoothed", smoothed(np.arange(6.0), 2))
show("inside", inside(np.arange(5.0)))
