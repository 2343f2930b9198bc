"""strings: methods, formatting, slicing, in and out."""

from numba import njit
from shown import show


@njit
def methods(s):
    return s.upper(), s.replace("a", "b"), s.find("n"), s[1:3], s + "!", s * 2, len(s), s == "banana"


@njit
def more(s):
    return s.split(","), ",".join(["x", s]), s.strip(), s.startswith("a"), s.isdigit(), s.zfill(8), "b" in s


@njit
def numbers(n):
    return str(n), hash("abc") != 0


@njit
def chars(s):
    return [ord(c) for c in s], chr(233)


show("methods", methods("banana"))
show("more", more("a,b"))
show("numbers", numbers(7))
show("chars", chars("aé€😀"))
