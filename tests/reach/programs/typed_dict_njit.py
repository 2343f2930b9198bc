"""typed: Dict made, passed and returned by jitted code; dict literals."""

from numba import njit, typed, types
from shown import show


@njit
def counts(words):
    d = typed.Dict.empty(types.unicode_type, types.int64)
    for w in words:
        d[w] = d.get(w, 0) + 1
    return d


@njit
def literal():
    d = {"x": 1, "y": 2}
    d["z"] = 3
    return d


@njit
def comprehended(n):
    return {i: i * i for i in range(n)}


show("counts", dict(counts(typed.List(["a", "b", "a"]))))
show("literal", dict(literal()))
show("comprehended", dict(comprehended(4)))
