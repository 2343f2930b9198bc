"""jitclass: operators and special methods."""

from numba import float64, njit
from numba.experimental import jitclass
from shown import show


@jitclass([("v", float64)])
class Number:
    def __init__(self, v):
        self.v = v

    def __add__(self, other):
        return Number(self.v + other.v)

    def __eq__(self, other):
        return self.v == other.v

    def __hash__(self):
        return int(self.v)

    def __len__(self):
        return 3

    def __getitem__(self, i):
        return self.v * i

    def __contains__(self, x):
        return self.v == x

    def __float__(self):
        return self.v

    def __bool__(self):
        return self.v != 0


@njit
def inside(a, b):
    return (a + b).v, a == b, len(a), a[2]


a, b = Number(2.0), Number(3.5)
show("add", (a + b).v)
show("eq", (a == b, a == Number(2.0)))
show("hash", hash(a))
show("len", (len(a), a[4], 2.0 in a, float(a), bool(a)))
show("inside", inside(a, b))
