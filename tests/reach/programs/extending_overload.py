"""extending: @overload of the user's own functions, with choices by type."""

import numpy as np
from numba import njit, types
from numba.extending import overload
from shown import show


def size_of(x):
    return len(x)


@overload(size_of)
def ol_size_of(x):
    if isinstance(x, types.Array):
        return lambda x: x.size
    if isinstance(x, types.BaseTuple):
        n = len(x)
        return lambda x: n
    return lambda x: 1


def joined(*args):
    return args


@overload(joined)
def ol_joined(*args):
    def impl(*args):
        return args[0] + args[-1]

    return impl


@njit
def user(x):
    return size_of(x)


show("user", (user(np.zeros(4)), user((1, 2)), user(3.5)))
show("joined", njit(lambda: joined(1, 2, 3.5))())
