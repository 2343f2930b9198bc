"""guvectorize: dynamic, grown by new types."""

import numpy as np
from numba import guvectorize
from shown import show


@guvectorize("(n),()->(n)")
def add(x, y, out):
    for i in range(x.shape[0]):
        out[i] = x[i] + y


ints = np.zeros(3, np.int64)
add(np.arange(3), 2, ints)
show("int", ints)
out = np.zeros(3)
add(np.arange(3.0), 2.5, out)
show("float", out)
show("types", add.types)
add(np.arange(3), 5, ints)
show("again", ints)
