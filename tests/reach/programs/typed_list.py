"""typed: List from Python, every method."""

from numba import typed, types
from shown import raised, show

l = typed.List([3, 1, 2])
show("list", list(l))
l.append(5)
l.extend([7, 8])
l.insert(1, 9)
show("grown", list(l))
show("pop", (l.pop(), l.pop(0)))
show("index", (l.index(2), l.count(1), len(l), 5 in l, 50 in l))
l.sort()
show("sorted", list(l))
l.reverse()
show("reversed", list(l))
show("item", (l[0], l[-1]))
l[0] = 77
show("slice", list(l[1:3]))
l[0:1] = typed.List([4])
show("set", list(l))
del l[0]
l.remove(2)
show("left", list(l))
c = l.copy()
show("eq", (c == l, c != l, c < l))
l.clear()
show("empty", len(l))
raised("pop", l.pop)
raised("item", lambda: c[99])
e = typed.List.empty_list(types.float64)
e.append(1)
show("float", list(e))
show("text", str(c))
