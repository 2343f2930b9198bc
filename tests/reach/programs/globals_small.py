"""globals: arrays, tuples, records and functions of the math module."""

import math

import numpy as np
from numba import njit
from shown import show

TABLE = np.arange(5.0)
MATRIX = np.asfortranarray(np.eye(3))
NESTED = ((1, 2), (3.5, "x"))
ROW = np.zeros(2, dtype=[("a", "i4"), ("b", "f8")])
f = math.hypot


@njit
def user(i):
    return TABLE[i], MATRIX[i, i], NESTED[1], ROW[0].a, f(3.0, 4.0)


show("user", user(1))
