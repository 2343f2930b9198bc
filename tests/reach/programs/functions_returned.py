"""functions: returned from jitted code, held by a structure of tuples."""

from numba import njit
from shown import show


@njit
def one():
    return 1


@njit
def two():
    return 2


@njit
def pick():
    return one, two


@njit
def total():
    f, g = pick()
    return f() + g()


show("total", total())

f, g = pick()
show("returned", (f is one, g()))


class Holder:
    @staticmethod
    @njit
    def static(x):
        return x - 1


show("static", Holder.static(3))
