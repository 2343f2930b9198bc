"""typed: Set from Python and in jitted code, where this Numba has one."""

from numba import njit, typed, types
from shown import raised, show

if hasattr(typed, "Set"):
    s = typed.Set.empty(types.int64)
    for x in (3, 1, 2):
        s.add(x)
    s.discard(1)
    show("set", sorted(s))
    show("in", (2 in s, 1 in s, len(s)))
    c = s.copy()
    c.add(9)
    show("copy", (len(s), len(c)))
    lazy = typed.Set()
    lazy.add(2.5)
    show("lazy", list(lazy))

    @njit
    def grown(s, n):
        for i in range(n):
            s.add(i * 10)
        return len(s)

    show("grown", grown(s, 3))
    raised("remove", s.remove, 12345)


@njit
def distinct(a):
    s = set(a)
    s.add(100)
    s.discard(1)
    return len(s), 100 in s


show("distinct", distinct((1, 2, 2, 3)))
