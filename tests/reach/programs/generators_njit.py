"""generators: consumed by jitted code, delegated, with return."""

from numba import njit
from shown import show


@njit
def fibonacci(limit):
    a, b = 0, 1
    while a < limit:
        yield a
        a, b = b, a + b
    return


@njit
def total(limit):
    s = 0
    for x in fibonacci(limit):
        s += x
    return s


@njit
def odd(limit):
    for x in fibonacci(limit):
        if x % 2:
            yield x


show("total", total(100))
show("odd", list(odd(50)))
show("expression", sum(odd(20)))
