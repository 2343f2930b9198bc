"""jitclass: constructor, methods and attribute access from Python."""

import numpy as np
from numba import float64, int64
from numba.experimental import jitclass
from shown import show


@jitclass([("n", int64), ("values", float64[:])])
class Bag:
    def __init__(self, n):
        self.n = n
        self.values = np.zeros(n)

    def add(self, by):
        self.values += by
        return self.values.sum()

    def scaled(self, by=2.0):
        return self.values * by


bag = Bag(3)
show("add", bag.add(1.5))
show("add int", bag.add(1))
show("n", bag.n)
bag.n = 7
show("n", bag.n)
show("values", bag.values)
show("scaled", bag.scaled())
show("scaled", bag.scaled(3.0))
show("second", Bag(2).values)
