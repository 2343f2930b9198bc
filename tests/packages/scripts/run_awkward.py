"""Ragged arrays in compiled code: types and lowering that belong to another package."""

import awkward as ak
import numba
import numpy as np
from _digest import show

events = ak.Array([{"pt": [float(i), i / 2.0][: i % 3], "charge": i % 2} for i in range(40)])


@numba.njit
def total(array):
    out = 0.0
    for event in array:
        for pt in event.pt:
            out += pt * event.charge
    return out


@numba.njit
def build(builder, array):
    for event in array:
        builder.begin_list()
        for pt in event.pt:
            builder.append(pt * 2)
        builder.end_list()
    return builder


show("total", total(events))
show("build", np.asarray(ak.flatten(build(ak.ArrayBuilder(), events).snapshot())))
