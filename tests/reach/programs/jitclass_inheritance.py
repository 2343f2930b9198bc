"""jitclass: specs and methods inherited from plain classes."""

from numba import float64
from numba.experimental import jitclass
from shown import show


class Shape:
    def describe(self):
        return self.area() * 10

    @property
    def side(self):
        return self.a


SPEC = [("a", float64)]


@jitclass(SPEC)
class Square(Shape):
    def __init__(self, a):
        self.a = a

    def area(self):
        return self.a * self.a


@jitclass([*SPEC, ("b", float64)])
class Oblong(Shape):
    def __init__(self, a, b):
        self.a = a
        self.b = b

    def area(self):
        return self.a * self.b


show("square", (Square(2.0).describe(), Square(3.0).side))
show("oblong", (Oblong(2.0, 3.0).describe(), Oblong(2.0, 3.0).side))
