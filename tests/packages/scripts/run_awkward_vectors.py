"""Ragged arrays of vectors in compiled code: types of one package with a table of another one's functions in them."""

import awkward as ak
import numba
import vector
from _digest import show

vector.register_awkward()
pts = [[float(i + j + 1) for j in range(i % 3)] for i in range(40)]
events = vector.Array([[{"pt": pt, "phi": pt / 7, "eta": 0.5} for pt in row] for row in pts])


@numba.njit
def momentum(array):
    out = 0.0
    for event in array:
        for one in event:
            for other in event:
                out += (one + other).mag
    return out


@numba.njit
def lengths(builder, array):
    for event in array:
        builder.begin_list()
        for one in event:
            builder.real(one.rho)
        builder.end_list()
    return builder


show("momentum", momentum(events))
show("lengths", ak.to_numpy(ak.flatten(lengths(ak.ArrayBuilder(), events).snapshot())))
