"""njit: inlined callees, on the IR and by LLVM."""

from numba import njit
from shown import show


@njit(inline="always")
def always(x):
    return x * 2


@njit(forceinline=True)
def by_llvm(x):
    return x + 7


def when_small(expr, caller, callee):
    return True


@njit(inline=when_small)
def asked(x):
    return x - 1


@njit
def user(x):
    return always(x) + by_llvm(x) + asked(x)


show("user", user(5))
show("always", always(2.5))
