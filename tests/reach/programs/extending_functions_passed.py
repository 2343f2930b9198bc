"""extending: functions that overloads implement are passed to other functions, Numba's own and one's own"""

import math

import numpy as np
from numba import njit
from numba.extending import overload


def halved(x):
    raise NotImplementedError


@overload(halved)
def choose_halved(x):
    return lambda x: x / 2


def twice(function, x):
    raise NotImplementedError


@overload(twice)
def choose_twice(function, x):
    return lambda function, x: function(function(x))


def eighth(x):
    raise NotImplementedError


@overload(eighth)
def choose_eighth(x):
    def implementation(x):
        return twice(halved, x) / 2

    return implementation


@njit
def applied(function, x):
    return function(x)


@njit
def quarter(x):
    return twice(halved, x)


@njit
def sixteenth(x):
    return eighth(x) / 2


@njit
def through(x):
    return applied(halved, x) + applied(math.sqrt, x) + applied(np.sin, x) + applied(abs, x)


@njit
def reduced(a):
    return applied(np.sum, a) + applied(len, a)


print(quarter(3.0), sixteenth(3.0), through(4.0), reduced(np.arange(4.0)))
