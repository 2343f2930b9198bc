"""guvectorize: writable_args and several outputs."""

import numpy as np
from numba import guvectorize
from shown import show


@guvectorize(["void(float64[:], float64[:], float64[:])"], "(n),()->()", writable_args=("x",))
def negate(x, y, out):
    out[0] = 0.0
    for i in range(x.shape[0]):
        x[i] = -x[i] * y[0]
        out[0] += x[i]


@guvectorize(["void(int64[:], int64[:], int64[:])"], "(n)->(),()")
def ends(x, low, high):
    low[0] = x.min()
    high[0] = x.max()


a = np.arange(4.0)
show("out", negate(a, 2.0))
show("in", a)
show("ends", ends(np.array([[3, 1, 2], [9, 8, 7]])))
