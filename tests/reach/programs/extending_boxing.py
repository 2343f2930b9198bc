"""extending: types that are boxed into classes whose own methods nothing can be said about"""

from boxed import Pair, Span
from numba import njit


@njit
def swapped(pair):
    return Pair(pair.second, pair.first)


@njit
def same(span):
    return span


@njit
def middle(span):
    return (span.low + span.high) / 2


span = same(Span(1.0, 4.0))
print(type(span) is Span, span.scaled(), middle(span))
pair = swapped(Pair(1, 2))
print(type(pair) is Pair, pair.scaled())
