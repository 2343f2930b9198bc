"""Geometric algebra: generated products, and multivectors as a type in compiled code."""

import clifford as cf
import numba
import numpy as np
from _digest import show
from clifford.g3 import blades, e1, e2, e3, e12, layout
from clifford.g3c import layout as conformal
from clifford.tools.g3c import generate_dilation_rotor, generate_translation_rotor


@numba.njit
def turned(x, rotor):
    return rotor * x * ~rotor


@numba.njit
def parts(x, y):
    return (x | y) + (x ^ y) * 2.0 - x(1)


rotor = np.cos(0.3) + np.sin(0.3) * e12
show("turned", turned(1.0 * e1 + 2.0 * e2 + 3.0 * e3, rotor).value)
show("parts", parts(1.0 * e1 + 0.5 * e12, 2.0 * e2 + 1.0 * e3).value)
show("inverse", (2.0 * e1 + 3.0 * e2 + 0.5).inv().value)
show("matrix", layout.get_left_gmt_matrix(e1 + e2))
show("names", len(blades))
point = conformal.MultiVector(np.r_[0.0, 1.0, 2.0, 3.0, np.zeros(28)])
move = generate_translation_rotor(conformal.blades["e1"] * 2.0) * generate_dilation_rotor(1.5)
show("moved", (move * point * ~move).value)
own, _ = cf.Cl(2, 1)
show("own", (own.blades["e1"] * own.blades["e23"] + own.scalar).value)
