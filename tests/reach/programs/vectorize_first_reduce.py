"""vectorize: a DUFunc whose first use is a method."""

import numpy as np
from numba import vectorize
from shown import raised, show


@vectorize
def larger(a, b):
    return a if a > b else b


raised("reduce", larger.reduce, np.arange(5))
raised("outer", larger.outer, np.arange(2.0), np.arange(3.0))
a = np.zeros(3)
raised("at", larger.at, a, np.array([0, 1]), np.array([2.0, 3.0]))
show("a", a)
