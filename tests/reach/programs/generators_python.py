"""generators: iterated from Python, two at a time, not to the end."""

import numpy as np
from numba import njit
from shown import show


@njit
def squares(n):
    for i in range(n):
        yield i * i


@njit
def windows(a, k):
    for i in range(a.size - k + 1):
        yield a[i : i + k].sum()


show("squares", list(squares(5)))
a, b = squares(3), squares(3)
show("interleaved", [next(a), next(b), next(a), next(b)])
show("windows", list(windows(np.arange(5.0), 2)))
show("float", next(squares(np.int32(2))))
