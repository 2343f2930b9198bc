"""random: Numba's own state, seeded in jitted code."""

import random

import numpy as np
from numba import njit
from shown import show


@njit
def seeded(n):
    np.random.seed(n)
    random.seed(n)
    return np.random.random(), random.random()


@njit
def drawn(n):
    return np.random.normal(0, 1, n), np.random.randint(0, 10, n), np.random.permutation(n)


@njit
def more():
    return np.random.exponential(2.0), np.random.choice(np.arange(5), 2), random.gauss(0, 1)


show("seeded", seeded(42))
show("drawn", drawn(3))
show("more", more())


@njit
def shuffled(n):
    a = np.arange(n)
    np.random.shuffle(a)
    return a


show("shuffled", shuffled(5))
