"""guvectorize: target='parallel'."""

import numpy as np
from numba import guvectorize
from shown import show


@guvectorize(["void(float64[:], float64[:])", "void(int64[:], int64[:])"], "(n)->()", target="parallel")
def total(x, out):
    out[0] = 0
    for i in range(x.shape[0]):
        out[0] += x[i]


show("float", total(np.arange(12.0).reshape(4, 3)))
show("int", total(np.arange(12).reshape(4, 3)))
