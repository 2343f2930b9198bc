"""recursion: that changes types on the way."""

from numba import njit
from shown import show


@njit
def widening(x, n):
    if n <= 0:
        return 0.5
    return widening(x * 1.5, n - 1) + 1


@njit
def search(a, low, high, x):
    if low >= high:
        return -1
    middle = (low + high) // 2
    if a[middle] == x:
        return middle
    if a[middle] < x:
        return search(a, middle + 1, high, x)
    return search(a, low, middle, x)


show("widening", widening(1, 3))
show("search", search((1, 3, 5, 7), 0, 4, 5))
