"""linear algebra: products, solve, inverse, determinant."""

import numpy as np
from numba import njit
from shown import show


@njit
def products(a, b):
    return a @ b, np.dot(a[0], b[0]), np.vdot(a[1], b[1]), np.outer(a[0], b[0])


@njit
def solved(a, b):
    return np.linalg.solve(a, b), np.linalg.inv(a), np.linalg.det(a), np.linalg.norm(a)


a = np.array([[2.0, 1.0], [1.0, 3.0]])
show("products", products(a, np.eye(2)))
show("solved", solved(a, np.array([1.0, 2.0])))
