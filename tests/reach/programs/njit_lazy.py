"""njit: lazy, several signatures of one function."""

import numpy as np
from numba import njit
from shown import show


@njit
def scale(x, by=2):
    return x * by


show("int", scale(3))
show("float", scale(3.5, 3))
show("complex", scale(1j, by=2.0))
show("array", scale(np.arange(3.0)))
show("f32", scale(np.arange(3, dtype=np.float32), np.float32(2)))
show("bool", scale(True))
show("signatures", len(scale.signatures))
