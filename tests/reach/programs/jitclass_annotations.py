"""jitclass: fields from annotations, instances made in jitted code."""

from numba import njit
from numba.experimental import jitclass
from shown import show


@jitclass
class Point:
    x: float
    y: float

    def __init__(self, x, y):
        self.x = x
        self.y = y

    def norm2(self):
        return self.x**2 + self.y**2


@njit
def made(n):
    return Point(n, n + 1.0)


@njit
def norm2(p):
    p.x += 1
    return p.norm2()


p = made(2)
show("x", (p.x, p.y))
show("norm2", norm2(p))
show("method", p.norm2())
