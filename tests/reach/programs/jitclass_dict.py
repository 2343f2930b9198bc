"""jitclass: instances as values of a typed Dict."""

from numba import int64, njit, typed, types
from numba.experimental import jitclass
from shown import show


@jitclass([("v", int64)])
class Item:
    def __init__(self, v):
        self.v = v


@njit
def total(table):
    s = 0
    for key in table:
        s += key * table[key].v
    return s


table = typed.Dict.empty(types.int64, Item.class_type.instance_type)
for i in range(3):
    table[i] = Item(i * 10)
show("total", total(table))
show("item", table[2].v)
