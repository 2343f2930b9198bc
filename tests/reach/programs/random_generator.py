"""random: NumPy Generators as arguments."""

import numpy as np
from numba import njit
from shown import show


@njit
def drawn(rng, n):
    return rng.random(n), rng.normal(0.0, 1.0, n), rng.integers(0, 10, n)


rng = np.random.default_rng(7)
show("drawn", drawn(rng, 3))
show("after", rng.random())


@njit
def one(rng):
    return rng.standard_exponential()


show("one", one(rng))
