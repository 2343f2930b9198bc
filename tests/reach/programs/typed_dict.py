"""typed: Dict from Python, every method."""

from numba import typed, types
from shown import raised, show

d = typed.Dict.empty(types.unicode_type, types.float64)
d["a"] = 1.5
d["b"] = 2
show("dict", dict(d))
show("get", (d["a"], d.get("b"), d.get("z"), d.get("z", 9.0), len(d), "a" in d, "z" in d))
show("keys", (list(d.keys()), list(d.values()), list(d.items())))
show("setdefault", (d.setdefault("c", 3.0), d.setdefault("a", 7.0)))
show("pop", (d.pop("a"), d.pop("zz", -1.0)))
d.update({"x": 4.0})
show("iter", list(d))
c = d.copy()
del d["b"]
show("popitem", d.popitem())
show("eq", (c == d, c != d))
d.clear()
show("empty", len(d))
raised("missing", lambda: d["q"])
raised("pop", d.pop, "q")
show("text", str(c))
