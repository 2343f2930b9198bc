"""structref: proxy with constructor and fields."""

import numpy as np
from numba import njit, types
from numba.experimental import structref
from shown import show


@structref.register
class PairType(types.StructRef):
    def preprocess_fields(self, fields):
        return tuple((name, types.unliteral(typ)) for name, typ in fields)


class Pair(structref.StructRefProxy):
    def __new__(cls, left, right):
        return structref.StructRefProxy.__new__(cls, left, right)

    @property
    def left(self):
        return pair_left(self)

    @property
    def right(self):
        return pair_right(self)


@njit
def pair_left(self):
    return self.left


@njit
def pair_right(self):
    return self.right


structref.define_proxy(Pair, PairType, ["left", "right"])


@njit
def swapped(pair):
    return Pair(pair.right, pair.left)


@njit
def grow(pair):
    pair.left += 1
    return pair.left


p = Pair(1, np.arange(3.0))
show("left", p.left)
show("right", p.right)
show("grow", (grow(p), p.left))
q = swapped(p)
show("swapped", (q.left, q.right))
