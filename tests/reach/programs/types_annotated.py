"""types: locals, type casts, typeof, isinstance and hasattr in jitted code."""

import numpy as np
from numba import float32, int8, njit, typeof
from shown import show


@njit(locals={"s": float32})
def summed(a):
    s = 0
    for x in a:
        s += x
    return s


@njit
def cast(x):
    return int8(x), float32(x), np.float64(x), bool(x), complex(x)


@njit
def asked(x):
    if isinstance(x, str):
        return 1
    if hasattr(x, "shape"):
        return 2
    return 3


show("summed", summed(np.arange(4.0)))
show("cast", cast(3))
show("asked", (asked("a"), asked(np.zeros(1)), asked(1.0)))
show("typeof", str(typeof((1, 2.5))))
