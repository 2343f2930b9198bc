"""threads: several threads that need the same and different functions."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit, vectorize
from shown import show


@njit(nogil=True)
def shared(a):
    return (a * a).sum()


@vectorize
def kernel(x):
    return x + 0.5


def make(k):
    return njit(nogil=True)(lambda x: x * k)


with ThreadPoolExecutor(4) as pool:
    show("shared", list(pool.map(shared, [np.arange(n, dtype=float) for n in range(8)])))
    show("kernel", list(pool.map(kernel, range(4))))
    show("own", list(pool.map(lambda f: f(3), [make(k) for k in range(4)])))
