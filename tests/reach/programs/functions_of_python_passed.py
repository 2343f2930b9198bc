"""functions: one of Python's own is passed, and what a function was compiled for by it is asked for"""

from numba import njit


@njit
def of_two(function, x):
    return function(x, 1.5)


@njit
def span(x):
    return of_two(max, x) - of_two(min, x)


print(span(2.0))
print(of_two.signatures)
