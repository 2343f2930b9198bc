"""stencil: cval, neighborhood, standard_indexing, out."""

import numpy as np
from numba import stencil
from shown import show


@stencil(cval=7.5)
def edge(a):
    return a[-1] + a[1]


@stencil(neighborhood=((-2, 2),))
def window(a):
    s = 0.0
    for i in range(-2, 3):
        s += a[i]
    return s


@stencil(standard_indexing=("w",))
def weighted(a, w):
    return a[-1] * w[0] + a[1] * w[1]


show("edge", edge(np.arange(5.0)))
show("window", window(np.arange(8.0)))
show("weighted", weighted(np.arange(5.0), np.array([2.0, 3.0])))
out = np.full(5, -1.0)
edge(np.arange(5.0), out=out)
show("out", out)
