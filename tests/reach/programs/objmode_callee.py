"""objmode: inside a callee, in a loop, with exceptions."""

from numba import njit, objmode
from shown import raised, show

LOG = []


def log(x):
    LOG.append(x)
    if x > 2:
        raise ValueError("too large")


@njit
def step(i):
    with objmode():
        log(i)
    return i * 2


@njit
def loop(n):
    s = 0
    for i in range(n):
        s += step(i)
    return s


show("loop", loop(3))
show("log", LOG)
raised("raises", loop, 5)
