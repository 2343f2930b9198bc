"""guvectorize: called from jitted code."""

import numpy as np
from numba import guvectorize, njit
from shown import show


@guvectorize("(n),(n)->()")
def dot(a, b, out):
    out[0] = 0
    for i in range(a.shape[0]):
        out[0] += a[i] * b[i]


@guvectorize(["void(float64[:], float64[:])"], "(n)->(n)")
def half(a, out):
    for i in range(a.shape[0]):
        out[i] = a[i] / 2


@njit
def user(a, b):
    out = np.zeros(1)
    dot(a, b, out[0:1].reshape(()))
    h = np.zeros_like(a)
    half(a, h)
    return out, h


show("user", user(np.arange(3.0), np.ones(3)))
