"""values: complex numbers, small integers, booleans, unsigned."""

import cmath

import numpy as np
from numba import njit
from shown import show


@njit
def root(z):
    return cmath.sqrt(z), abs(z), z.real, z.conjugate(), z**2


@njit
def bits(a, b):
    return a & b, a | b, a ^ b, ~a, a << 1


show("root", root(-1 + 0j))
show("c8", root(np.complex64(3 + 4j)))
show("array", njit(lambda a: np.exp(a) * 2)(np.array([0j, 1j])))
show("u8", bits(np.uint8(200), np.uint8(15)))
show("bool", njit(lambda a, b: (a and b, a or b, not a))(True, False))
show("i8", bits(5, 3))
