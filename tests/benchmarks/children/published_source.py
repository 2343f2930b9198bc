"""The functions that the benchmark of published functions publishes."""

import numpy as np
from numba import njit


@njit
def scaled(values, factor):
    return np.sqrt(values * factor + 1.0)


@njit
def total(values):
    result = 0.0
    for value in values:
        result += value
    return result


@njit
def added(a, b):
    return a + b


@njit
def ranked(values, weights):
    order = np.argsort(values)
    cumulated = np.cumsum(weights[order])
    return np.searchsorted(cumulated, cumulated[-1] / 2.0), np.median(values), np.histogram(values, 20)[0]


SIGNATURES = {
    "scaled": "f8[::1](f8[::1], f8)",
    "total": "f8(f8[::1])",
    "added": "f8(f8, f8)",
    "ranked": "(f8[::1], f8[::1])",
}
