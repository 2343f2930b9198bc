"""typed: Dict whose types come from its first item; tuple keys; array values."""

import numpy as np
from numba import njit, typed
from shown import show

d = typed.Dict()
d[1, 2] = np.arange(2)
d[3, 4] = np.arange(3)


@njit
def total(d):
    s = 0
    for (a, b), v in d.items():
        s += a * b + v.sum()
    return s


show("total", total(d))
show("item", d[3, 4])
