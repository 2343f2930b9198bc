"""random: functions that were imported by their own names, of the generators that everybody shares."""

from random import gauss, randint, seed

import numpy as np
from numba import njit
from numpy.random import normal
from shown import show


@njit
def drawn(n):
    seed(n)
    np.random.seed(n)
    return gauss(0, 1), randint(0, 10), normal(0, 1)


show("drawn", drawn(3))
