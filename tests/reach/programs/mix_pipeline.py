"""mix: guvectorize, stencil, linear algebra, closures and objmode."""

import numpy as np
from numba import guvectorize, njit, objmode, stencil
from shown import show


@guvectorize(["void(float64[:], float64[:])"], "(n)->(n)")
def centred(a, out):
    m = a.mean()
    for i in range(a.size):
        out[i] = a[i] - m


@stencil
def diff(a):
    return a[1] - a[-1]


def make(k):
    @njit
    def weighted(a):
        return a * k

    return weighted


weighted = make(0.5)


@njit
def run(a):
    d = weighted(diff(a))
    with objmode(n="int64"):
        n = len(str(d.size))
    return d @ d, n


show("centred", centred(np.arange(6.0).reshape(2, 3)))
show("run", run(np.arange(6.0) ** 2))
