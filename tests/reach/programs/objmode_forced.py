"""objmode: forceobj functions, with and without a lifted loop."""

from numba import jit
from shown import show


@jit(forceobj=True)
def joined(items):
    return "-".join([str(x) for x in items])


@jit(forceobj=True, looplift=True)
def lifted(n):
    names = {"a": n}
    s = 0
    for i in range(n):
        s += i
    return s, names["a"]


show("joined", joined([3, 1, 2]))
show("lifted", lifted(5))
