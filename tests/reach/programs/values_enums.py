"""values: Enum and IntEnum."""

from enum import Enum, IntEnum

import numpy as np
from numba import njit
from shown import show


class Colour(Enum):
    RED = 1
    BLUE = 2


class Level(IntEnum):
    LOW = 10
    HIGH = 20


@njit
def other(c):
    return Colour.BLUE if c is Colour.RED else Colour.RED


@njit
def value(l):
    return l + 1 if l == Level.LOW else l * 2


@njit
def named(c):
    return c.value


@njit
def looked_up(a):
    return a[Level.LOW - 9]


show("other", (other(Colour.RED), other(Colour.BLUE)))
show("value", (value(Level.LOW), value(Level.HIGH)))
show("named", named(Colour.BLUE))
show("index", looked_up(np.arange(3)))
