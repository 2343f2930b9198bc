"""functions: Dispatchers as arguments, lazy ones too."""

from numba import njit
from shown import show


@njit
def inc(x):
    return x + 1


@njit
def sq(x):
    return x * x


@njit
def apply(f, x):
    return f(x)


@njit
def compose(f, g, x):
    return f(g(x))


show("apply", (apply(inc, 3), apply(sq, 3), apply(sq, 1.5)))
show("compose", compose(inc, sq, 4))
