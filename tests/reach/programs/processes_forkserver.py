"""processes: multiprocessing with forkserver."""

import multiprocessing

from numba import njit
from shown import show


@njit
def work(n):
    return n * 1.5


if __name__ == "__main__":
    with multiprocessing.get_context("forkserver").Pool(1) as pool:
        show("children", pool.map(work, [3, 4]))
