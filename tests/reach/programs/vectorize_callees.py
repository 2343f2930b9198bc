"""vectorize: kernels that call jitted functions, and several outputs' worth of types."""

import numpy as np
from numba import njit, vectorize
from shown import show


@njit
def step(x):
    return x + 1 if x > 0 else x - 1


@vectorize
def stepped(x):
    return step(step(x))


@vectorize(["boolean(float64)", "boolean(int64)"])
def positive(x):
    return step(x) > 0


show("stepped", stepped(np.array([-1.0, 0.0, 2.0])))
show("positive", (positive(np.array([-1.0, 2.0])), positive(np.array([-1, 2]))))
show("datetime", stepped(np.int8(3)))
