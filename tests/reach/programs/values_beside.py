"""values: enumerations and named tuples whose methods and annotations use what nobody can identify."""

import datetime as dt
import enum
import inspect
import threading
import typing

import numpy as np
from numba import njit
from shown import show


class Frame:
    capsule, lock = dt.datetime_CAPI, threading.Lock()


def here():
    return inspect.currentframe().f_code.co_filename


class Framed:
    def frame(self):
        return Frame(), here()


class Colour(Framed, enum.Enum):
    RED = 1
    BLUE = 2

    def __init__(self, number):
        self.made = Frame(), here


class Level(enum.IntEnum):
    LOW = 10
    HIGH = 20

    def to_frame(self) -> Frame:
        return Frame()


class Context(typing.NamedTuple):
    shape: tuple[int, int]
    close: np.ndarray | Frame
    mode: Colour = Colour.BLUE

    def frame(self, where=here):
        return Frame(), where()


class Shifted(Context):
    def __new__(cls, shape, close):
        return super().__new__(cls, shape, close, Colour(here and 1))


ORIGIN = Context((1, 2), 0.5)


@njit
def first(context, level):
    if context.mode is Colour.RED:
        return context.close[0] + level.value
    return ORIGIN.close + Level.HIGH.value


@njit
def other(context, mode=Colour.RED):
    made = Context(context.shape, context.close, mode)
    return made.close, made.mode is Colour.RED


@njit
def looked_up(name):
    return (Colour["BLUE"] if name else Colour.RED).value


show("first", first(Context((1, 1), np.ones(2), Colour.RED), Level.LOW))
show("second", first(Shifted((1, 1), np.ones(2)), Level.LOW))
show("default", first(Context((1, 1), np.ones(2)), Level.LOW))
show("other", other(Context((1, 1), 2.5)))
show("looked up", looked_up(1))
