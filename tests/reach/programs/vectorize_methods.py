"""vectorize: reduce, accumulate, outer, at, reduceat of an eager ufunc."""

import numpy as np
from numba import vectorize
from shown import show


@vectorize(["int64(int64, int64)", "float64(float64, float64)"], identity=0)
def plus(a, b):
    return a + b


m = np.arange(6.0).reshape(2, 3)
show("reduce", (plus.reduce(np.arange(5)), plus.reduce(m, axis=1), plus.reduce(m, axis=(0, 1))))
show("accumulate", plus.accumulate(np.arange(5)))
show("outer", plus.outer(np.arange(2), np.arange(3)))
show("reduceat", plus.reduceat(np.arange(6), [0, 3]))
a = np.zeros(3, np.int64)
plus.at(a, [0, 0, 2], 1)
show("at", a)
show("identity", plus.identity)
