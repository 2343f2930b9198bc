"""stencil: called from Python."""

import numpy as np
from numba import stencil
from shown import show


@stencil
def mean3(a):
    return (a[-1] + a[0] + a[1]) / 3


@stencil
def cross(a):
    return a[-1, 0] + a[1, 0] + a[0, -1] + a[0, 1]


show("1d", mean3(np.arange(6.0)))
show("2d", cross(np.arange(16).reshape(4, 4)))
show("f4", mean3(np.arange(6, dtype=np.float32)))
show("again", mean3(np.arange(3.0)))
