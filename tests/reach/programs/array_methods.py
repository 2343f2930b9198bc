"""arrays: in place, iteration, views, dtype conversion, empty arrays."""

import numpy as np
from numba import njit
from shown import show


@njit
def views(a):
    b = a.ravel()
    b[0] = 9
    return a.astype(np.int32), a.view(np.int64)[1], b.shape, a.nonzero()


@njit
def enumerated(a):
    s = 0.0
    for (i, j), x in np.ndenumerate(a):
        s += i * 10 + j + x
    for i in np.ndindex(2, 2):
        s += i[0]
    for x, y in zip(a[0], a[1]):
        s += x * y
    return s


@njit
def sorted_by(a):
    return np.argsort(a), sorted(a), np.searchsorted(np.sort(a), 2.0), a.take(np.array([0, 1]))


a = np.arange(4.0).reshape(2, 2)
show("views", views(a))
show("enumerated", enumerated(a))
show("sorted_by", sorted_by(np.array([3.0, 1.0, 2.0])))
show("empty", enumerated(np.zeros((2, 0))))
