"""recursion: self-recursion, with types inferred and declared."""

from numba import int64, njit
from shown import show


@njit
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


@njit(int64(int64))
def factorial(n):
    if n <= 1:
        return 1
    return n * factorial(n - 1)


@njit
def depth(n, acc=0.0):
    if n == 0:
        return acc
    return depth(n - 1, acc + 0.5)


show("fib", fib(12))
show("factorial", factorial(10))
show("depth", depth(10, 0.0))
