"""processes: multiprocessing with spawn."""

import multiprocessing

from numba import njit
from shown import show


@njit
def work(n):
    s = 0
    for i in range(n):
        s += i
    return s


if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        show("children", pool.map(work, [3, 4]))
    show("parent", work(5))
