"""guvectorize: eager, with scalar and array outputs."""

import numpy as np
from numba import float64, guvectorize, int64
from shown import show


@guvectorize([(float64[:], float64, float64[:]), (int64[:], int64, int64[:])], "(n),()->(n)")
def add(x, y, out):
    for i in range(x.shape[0]):
        out[i] = x[i] + y


@guvectorize(["void(float64[:], float64[:])"], "(n)->()")
def total(x, out):
    out[0] = x.sum()


@guvectorize(["void(float64[:,:], float64[:,:], float64[:,:])"], "(m,n),(n,p)->(m,p)")
def product(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = s


show("add", add(np.arange(6.0).reshape(2, 3), 2.0))
show("int", add(np.arange(3), 2))
show("broadcast", add(np.arange(3), np.array([10, 20])))
show("total", total(np.arange(6.0).reshape(2, 3)))
show("product", product(np.ones((2, 3)), np.ones((3, 2))))
show("axis", total(np.arange(6.0).reshape(2, 3), axis=0))
