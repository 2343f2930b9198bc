"""origins: a module imported by name, a function that wraps another."""

import functools
import sys
import types

from numba import njit
from shown import show

module = types.ModuleType("made_up")
exec("from numba import njit\nK = 5\n@njit\ndef inside(x):\n    return x * K\n", module.__dict__)
sys.modules["made_up"] = module
inside = module.inside


@njit
def user(x):
    return inside(x) + 1


def logged(f):
    @functools.wraps(f)
    def wrapper(*args):
        return f(*args)

    return wrapper


@logged
@njit
def wrapped(x):
    return user(x)


show("wrapped", wrapped(2))
show("inside", inside(2.5))
