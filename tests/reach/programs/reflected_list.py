"""reflected: lists in and out, changed in place, nested."""

from numba import njit
from shown import show


@njit
def grow(l):
    l.append(l[0] + 1)
    l.sort()
    return l


@njit
def nested(l):
    s = 0
    for inner in l:
        for x in inner:
            s += x
    return s, [[s], [1]]


a = [3, 1, 2]
show("grow", grow(a))
show("in place", a)
show("float", grow([1.5]))
show("nested", nested(((1, 2), (3, 4))))


@njit
def methods(l):
    l.extend([5, 6])
    l.insert(0, 9)
    l.reverse()
    x = l.pop()
    l.remove(5)
    return l[1:], x, l.index(6), l.count(6), 6 in l, len(l)


show("methods", methods([1, 2]))
