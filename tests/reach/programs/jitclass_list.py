"""jitclass: instances in typed and reflected lists."""

from numba import int64, njit, typed
from numba.experimental import jitclass
from shown import show


@jitclass([("v", int64)])
class Item:
    def __init__(self, v):
        self.v = v


@njit
def total(items):
    s = 0
    for item in items:
        s += item.v
    return s


items = typed.List()
for i in range(4):
    items.append(Item(i))
show("total", total(items))
show("first", items[1].v)
items.pop()
show("total", total(items))


@njit
def made(n):
    return [Item(i) for i in range(n)][1].v


show("made", made(3))
