"""vectorize: eager, several loops."""

import numpy as np
from numba import float32, float64, int64, vectorize
from shown import show


@vectorize([int64(int64, int64), float32(float32, float32), float64(float64, float64)])
def hypot2(a, b):
    return a * a + b * b


show("int", hypot2(np.arange(3), 2))
show("f4", hypot2(np.arange(3, dtype=np.float32), np.float32(1)))
show("f8", hypot2(np.arange(3.0), np.arange(3.0)[:, None]))
show("scalar", hypot2(3, 4))
show("types", hypot2.types)
show("out", hypot2(np.arange(3.0), 1.0, out=np.zeros(3)))
