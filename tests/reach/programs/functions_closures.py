"""functions: closures over Dispatchers and values, made by a factory."""

from numba import njit
from shown import show


@njit
def base(x):
    return x + 0.5


def make(f, k):
    @njit
    def made(x):
        return f(x) * k

    return made


two, three = make(base, 2), make(base, 3)
four = make(two, 4)
show("made", (two(1), three(1), four(1)))


@njit
def inner_closure(n):
    k = n * 2

    def add(x):
        return x + k

    return add(1) + add(2)


show("inner", inner_closure(3))


@njit
def mapped(n):
    return [base(x) for x in range(n)], list(map(lambda x: x * 2, [1, 2]))


show("mapped", mapped(2))
