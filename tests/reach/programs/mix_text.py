"""mix: strings, typed Dict, generator, namedtuple and recursion."""

from collections import namedtuple

from numba import njit, typed, types
from shown import show

Token = namedtuple("Token", "kind value")


@njit
def tokens(text):
    i = 0
    while i < len(text):
        if text[i].isdigit():
            n = 0
            while i < len(text) and text[i].isdigit():
                n = n * 10 + ord(text[i]) - 48
                i += 1
            yield Token("n", n)
        else:
            yield Token(text[i], 0)
            i += 1


@njit
def counted(text):
    d = typed.Dict.empty(types.unicode_type, types.int64)
    for t in tokens(text):
        d[t.kind] = d.get(t.kind, 0) + 1
    return d


@njit
def value(text):
    total, sign = 0, 1
    for t in tokens(text):
        if t.kind == "n":
            total += sign * t.value
        elif t.kind == "-":
            sign = -1
        else:
            sign = 1
    return total


show("tokens", list(tokens("1+23")))
show("counted", dict(counted("1+2-3")))
show("value", value("12+30-2"))
