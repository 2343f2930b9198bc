"""recursion: mutual, entered at either end, and from a caller."""

from numba import njit
from shown import show


@njit
def even(n):
    if n == 0:
        return True
    return odd(n - 1)


@njit
def odd(n):
    if n == 0:
        return False
    return even(n - 1)


@njit
def parity(n):
    return even(n), odd(n)


show("parity", parity(7))
show("even", even(4))
show("odd", odd(4))
