"""jitclass: instances as arguments, and in tuples."""

from numba import int64, njit
from numba.experimental import jitclass
from shown import show


@jitclass([("count", int64)])
class Counter:
    def __init__(self):
        self.count = 0

    def step(self, by):
        self.count += by


@njit
def advance(counter, n):
    for i in range(n):
        counter.step(i)
    return counter.count


@njit
def both(pair):
    return pair[0].count + pair[1].count


c, d = Counter(), Counter()
show("advance", advance(c, 5))
c.step(10)
show("count", c.count)
show("both", both((c, d)))
