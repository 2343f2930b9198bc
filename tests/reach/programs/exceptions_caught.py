"""exceptions: try, except, finally and else in jitted code."""

from numba import njit
from shown import raised, show


@njit
def check(x):
    if x < 0:
        raise ValueError("negative")
    return x


@njit
def guarded(x):
    done = 0
    try:
        y = check(x)
    except Exception:
        y = -1
        done += 10
    else:
        done += 1
    finally:
        done += 100
    return y, done


@njit
def again(x):
    try:
        return check(x)
    except Exception:
        raise KeyError("again")


show("fine", guarded(3))
show("caught", guarded(-3))
raised("again", lambda: again(-1))
