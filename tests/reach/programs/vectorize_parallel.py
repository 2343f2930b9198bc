"""vectorize: target='parallel'."""

import numpy as np
from numba import vectorize
from shown import show


@vectorize(["float64(float64, float64)", "int64(int64, int64)"], target="parallel")
def add(a, b):
    return a + b


show("float", add(np.arange(5.0), 1.5))
show("int", add(np.arange(5), 1))
# Not add.reduce: its threads would share one accumulator, and Numba doesn't order them.
show("outer", add.outer(np.arange(5), np.arange(3)))
