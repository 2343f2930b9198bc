"""processes: multiprocessing with fork, before and after compiling in the parent."""

import multiprocessing

import numpy as np
from numba import njit, vectorize
from shown import show


@njit
def early(x):
    return x + 1


@njit
def late(x):
    return x * 2


@vectorize
def kernel(x):
    return x - 1


def task(x):
    return early(x), late(x), kernel(np.arange(2.0)).tolist()


if __name__ == "__main__":
    show("parent", early(1))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        show("children", pool.map(task, range(3)))
