"""njit: NumPy functions on arrays."""

import numpy as np
from numba import njit
from shown import show


@njit
def several(a):
    b = np.sort(a)
    return b, np.unique(a), np.cumsum(a), np.argmax(a), np.where(a > 2, a, -a), np.concatenate((a, b))


@njit
def shapes(a):
    m = a.reshape((2, 3))
    return m.T.copy(), np.vstack((m, m)), m.sum(axis=0), np.zeros((2, 2)), np.ones_like(m), np.linspace(0, 1, 3)


@njit
def fancy(a, i):
    return a[i], a[a > 1], a[::-1].copy()


show("several", several(np.array([3, 1, 2, 3, 0, 5])))
show("shapes", shapes(np.arange(6.0)))
show("fancy", fancy(np.arange(5), np.array([0, 2])))
