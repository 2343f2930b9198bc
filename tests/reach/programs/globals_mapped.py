"""globals: arrays in files, a small one and one of more than a megabyte, in a function that is inlined as well."""

import os

import numpy as np
from numba import njit
from shown import show


def mapped(size):
    path = f"{size}-{os.getpid()}.npy"
    np.save(path, np.arange(size, dtype=np.float64))
    os.replace(path, f"{size}.npy")
    return np.load(f"{size}.npy", mmap_mode="r")


SMALL, LARGE = mapped(300), mapped(300_000)


@njit
def small(i):
    return SMALL[i] + SMALL.size


@njit
def total(n):
    return LARGE[:n].sum()


@njit(inline="always")
def inlined(i):
    return SMALL[i] + LARGE[i]


@njit
def caller(i):
    return inlined(i) + 1


@njit
def rows():
    return SMALL[1:3], LARGE


show("small", small(5))
show("total", total(1000))
show("caller", caller(7))
few, all_of_it = rows()
show("few", few)
show("all", (type(all_of_it).__name__, all_of_it is LARGE, all_of_it[-1]))
