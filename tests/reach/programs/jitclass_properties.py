"""jitclass: properties, static methods, keyword arguments of the constructor."""

from numba import float64
from numba.experimental import jitclass
from shown import show


@jitclass({"w": float64, "h": float64})
class Box:
    def __init__(self, w, h=2.0):
        self.w = w
        self.h = h

    @property
    def area(self):
        return self.w * self.h

    @area.setter
    def area(self, value):
        self.h = value / self.w

    @staticmethod
    def doubled(x):
        return 2 * x


box = Box(3.0, h=4.0)
show("area", box.area)
box.area = 6.0
show("h", box.h)
show("static", (box.doubled(4), Box.doubled(1.5)))
show("default", Box(1.0).area)
