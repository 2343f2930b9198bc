"""objmode: blocks in jitted code."""

import numpy as np
from numba import njit, objmode
from shown import show


def python_only(x):
    return {"a": x}["a"] * 2


@njit
def mixed(x):
    y = x + 1
    with objmode(z="float64", s="unicode_type"):
        z = python_only(y)
        s = f"<{y}>"
    return z + 1, s


@njit
def arrays(a):
    with objmode(out="float64[:]"):
        out = np.flip(np.fft.fft(a).real).copy()
    return out * 2


show("mixed", mixed(2.5))
show("arrays", arrays(np.arange(4.0)))
