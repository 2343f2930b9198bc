"""Eleven kinds of compiled things, decorators included: first use of each, in one process or of those that are named.

    python kinds.py [KIND...]

What a kind takes depends on what others before it have loaded already, so one is measured in a process of its own.
"""

import functools
import json
import os
import resource
import sys
import time

import numpy as np
from numba import cfunc, float64, guvectorize, int64, njit, prange, typed, vectorize
from numba.experimental import jitclass

CACHE = os.environ.get("BENCH_CACHE") == "1"
ROWS = np.arange(12.0).reshape(3, 4)
KINDS = {}


def kind(name):
    """Have the function that follows measured under a name."""
    return functools.partial(KINDS.setdefault, name)


@kind("njit")
def plain():
    @njit(cache=CACHE)
    def norm(values):
        return np.sqrt((values * values).sum())

    norm(ROWS)


@kind("vectorize eager")
def eager_ufunc():
    @vectorize(["float64(float64, float64)"], cache=CACHE)
    def eager(a, b):
        return a * b + 1

    eager(ROWS, ROWS)


@kind("vectorize dynamic")
def dynamic_ufunc():
    @vectorize(cache=CACHE)
    def dynamic(a, b):
        return a * b + 2

    dynamic(ROWS, ROWS)


@kind("vectorize parallel")
def threaded_ufunc():
    @vectorize(["float64(float64, float64)"], target="parallel", cache=CACHE)
    def threaded(a, b):
        return a * b + 3

    threaded(ROWS, ROWS)


@kind("guvectorize")
def gufunc():
    @guvectorize(["float64[:], float64[:]"], "(n)->()", cache=CACHE)
    def row_sum(row, out):
        out[0] = row.sum()

    row_sum(ROWS)


@kind("parallel")
def threaded_loop():
    @njit(parallel=True, cache=CACHE)
    def spread(values):
        out = np.zeros_like(values)
        for i in prange(len(values)):
            out[i] = values[i] * 2
        return out

    spread(ROWS)


@kind("cfunc")
def c_callback():
    @cfunc("float64(float64)", cache=CACHE)
    def callback(x):
        return x * 2 + 1

    callback.ctypes(2.0)


@kind("typed List")
def typed_list():
    numbers = typed.List()
    numbers.append(1.5)
    numbers.append(2.5)
    assert numbers[1] == 2.5
    assert len(numbers) == 2


@kind("typed Dict")
def typed_dict():
    table = typed.Dict.empty(int64, float64)
    table[1] = 2.0
    assert table[1] == 2.0
    assert len(table) == 1


@kind("jitclass")
def compiled_class():
    @jitclass([("x", float64)])
    class Point:
        def __init__(self, x):
            self.x = x

        def twice(self):
            return self.x * 2

    point = Point(2.0)
    assert point.twice() == 4.0
    point.x = 3.0
    assert point.x == 3.0


@kind("closures")
def closures():
    def make(k, function):
        @njit(cache=CACHE)
        def inner(x):
            return function(x) + k

        return inner

    assert make(1, make(2, njit(cache=CACHE)(lambda x: x * 2)))(3) == 9


times = {}
for name in sys.argv[1:] or KINDS:
    start = time.perf_counter()
    KINDS[name]()
    times[name] = (time.perf_counter() - start) * 1e3
times["ms"] = sum(times.values())
times["rss MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps(times))
