"""vectorize: dynamic (DUFunc), grown by new types."""

import numpy as np
from numba import vectorize
from shown import show


@vectorize
def twice(a):
    return a * 2


show("int", twice(np.arange(3)))
show("types", twice.types)
show("float", twice(np.arange(3.0)))
show("f4", twice(np.arange(3, dtype=np.float32)))
show("complex", twice(1j))
show("types", twice.types)
