"""vectorize: ufuncs called from jitted code, and from Python after that."""

import numpy as np
from numba import njit, vectorize
from shown import show


@vectorize
def dynamic(a, b):
    return a * b + 1


@vectorize(["float64(float64)"])
def eager(a):
    return a / 2


@njit
def user(a):
    return dynamic(a, 2) + eager(a), dynamic(3, 4)


show("user", user(np.arange(3.0)))
show("types", dynamic.types)
show("python", dynamic(np.arange(3.0), 2))
show("int", dynamic(np.arange(3), 2))


@njit
def reduces(a):
    return dynamic.reduce(a)


show("reduce", reduces(np.arange(4.0)))
