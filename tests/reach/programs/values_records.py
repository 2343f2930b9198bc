"""values: records and structured arrays."""

import numpy as np
from numba import njit
from shown import show

T = np.dtype([("id", np.int32), ("pos", np.float64, (2,)), ("name", "S4")], align=True)


@njit
def moved(a):
    for i in range(a.size):
        a[i].id += 1
        a[i].pos[0] += 0.5
    return a


@njit
def one(r):
    return r.id * 2, r["pos"][1]


@njit
def columns(a):
    return a.id.sum() + a["pos"].sum()


a = np.zeros(2, T)
show("moved", moved(a))
show("one", one(a[1]))
show("columns", columns(a))
r = np.rec.array([(1, 2.0), (3, 4.0)], dtype=[("x", "i8"), ("y", "f8")])


@njit
def rec(a):
    return a.x[0] + a[1].y


show("rec", rec(r))
