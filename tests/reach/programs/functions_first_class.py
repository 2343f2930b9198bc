"""functions: first-class, chosen at run time, in tuples."""

from numba import float64, njit, types
from shown import show


@njit("float64(float64)")
def half(x):
    return x / 2


@njit("float64(float64)")
def twice(x):
    return x * 2


@njit
def chosen(flag, x):
    f = half if flag else twice
    return f(x)


@njit
def folded(functions, x):
    for f in functions:
        x = f(x)
    return x


show("chosen", (chosen(True, 3.0), chosen(False, 3.0)))
show("folded", folded((half, twice, twice), 3.0))
show("list", folded([half, half], 5.0))


@njit(float64(types.FunctionType(float64(float64)), float64))
def applied(f, x):
    return f(f(x))


show("applied", (applied(half, 8.0), applied(twice, 8.0)))
