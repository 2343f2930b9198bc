"""parallel: array reductions in prange, nested prange, chunk sizes."""

import numpy as np
from numba import get_num_threads, njit, prange, set_parallel_chunksize
from shown import show


@njit(parallel=True)
def histogram(a, n):
    out = np.zeros(n, np.int64)
    for i in prange(a.size):
        hit = np.zeros(n, np.int64)
        hit[a[i] % n] = 1
        out += hit
    return out


@njit(parallel=True)
def table(n):
    out = np.zeros((n, n))
    for i in prange(n):
        for j in prange(n):
            out[i, j] = i * 10 + j
    return out


@njit(parallel=True)
def chunked(n):
    old = set_parallel_chunksize(2)
    out = np.zeros(n)
    for i in prange(n):
        out[i] = i
    set_parallel_chunksize(old)
    return out, get_num_threads() > 0


show("histogram", histogram(np.arange(10), 3))
show("table", table(3))
show("chunked", chunked(5))
