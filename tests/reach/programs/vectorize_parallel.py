"""vectorize: target='parallel'."""

import numpy as np
from numba import vectorize
from shown import show


@vectorize(["float64(float64, float64)", "int64(int64, int64)"], target="parallel")
def add(a, b):
    return a + b


show("float", add(np.arange(5.0), 1.5))
show("int", add(np.arange(5), 1))
show("reduce", add.reduce(np.arange(5)))
