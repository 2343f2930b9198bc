"""recursion: functions that call one another, where a package numbers the names of what is compiled by itself."""

import uuid

from numba import njit
from numba.core.bytecode import FunctionIdentity
from shown import show


@njit
def even(n):
    if n == 0:
        return True
    return odd(n - 1)


@njit
def odd(n):
    if n == 0:
        return False
    return even(n - 1)


class Drawn:
    def __next__(self):
        return uuid.uuid4().int


FunctionIdentity._unique_ids = Drawn()  # as PyTensor does when it is imported
show("even", even(10))
show("odd", odd(7))
