"""vectorize: reduce, accumulate, outer, at of a DUFunc."""

import numpy as np
from numba import vectorize
from shown import show


@vectorize
def plus(a, b):
    return a + b


show("call", plus(1, 2))
show("reduce", plus.reduce(np.arange(5)))
show("accumulate", plus.accumulate(np.arange(5)))
show("outer", plus.outer(np.arange(2), np.arange(3)))
show("float", plus(np.arange(3.0), 1.0))
show("reduce float", plus.reduce(np.arange(5.0)))
a = np.zeros(3)
plus.at(a, [0, 0, 2], 1.5)
show("at", a)
