"""Lorentz vectors inside compiled code: an extension registered through numba_extensions."""

import numba
import vector
from _digest import show


@numba.njit
def mass(px, py, pz, energy):
    return vector.obj(px=px, py=py, pz=pz, E=energy).mass


@numba.njit
def boosted(px, py, pz, energy):
    one = vector.obj(px=px, py=py, pz=pz, E=energy)
    return (one + one.boost(vector.obj(px=0.1, py=0.2, pz=0.3, E=5.0))).pt


show("mass", mass(1.0, 2.0, 3.0, 10.0))
show("boosted", boosted(1.0, 2.0, 3.0, 10.0))
