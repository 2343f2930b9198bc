"""strings: bytes, bytearrays, memoryviews and character arrays."""

import numpy as np
from numba import njit
from shown import show


@njit
def total(b):
    s = 0
    for x in b:
        s += x
    return s, len(b), b[0]


@njit
def first(a):
    return a[0], a[0] == a[1], len(a[1])


show("bytes", total(b"abc"))
show("bytearray", total(bytearray(b"abc")))
show("memoryview", total(memoryview(b"abc")))
show("U", first(np.array(["ab", "abc"])))
show("S", first(np.array([b"ab", b"abc"])))
