"""values: namedtuples in and out, nested tuples."""

from collections import namedtuple
from typing import NamedTuple

import numpy as np
from numba import njit
from shown import show

Point = namedtuple("Point", "x y")


class Line(NamedTuple):
    a: Point
    b: Point


@njit
def middle(line):
    return Point((line.a.x + line.b.x) / 2, (line.a.y + line.b.y) / 2)


@njit
def arrays(p):
    return Point(p.x * 2, p.y + p.x)


m = middle(Line(Point(0.0, 1.0), Point(2.0, 3.0)))
show("middle", m)
show("fields", (m.x, m._fields))
show("arrays", arrays(Point(np.arange(2.0), np.ones(2))))
show("nested", njit(lambda t: t[1][0])((1, (2.5, "x"))))
