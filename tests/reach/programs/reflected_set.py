"""reflected: sets in and out."""

from numba import njit
from shown import show


@njit
def changed(s, t):
    s.add(10)
    s.discard(1)
    return s | t, s & t, s - t, s ^ t, s <= t, len(s)


a = {1, 2, 3}
show("changed", tuple(sorted(x) if isinstance(x, set) else x for x in changed(a, {2, 3, 4})))
show("in place", sorted(a))


@njit
def floats(s):
    s.add(0.5)
    s.remove(2.5)
    return s


show("floats", sorted(floats({1.0, 2.5})))
