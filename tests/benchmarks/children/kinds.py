"""Eleven kinds of compiled things, first use of each in one process."""

import json
import os
import resource
import time

import numpy as np
from numba import cfunc, float64, guvectorize, int64, njit, prange, typed, vectorize
from numba.experimental import jitclass

CACHE = os.environ.get("BENCH_CACHE") == "1"
ROWS = np.arange(12.0).reshape(3, 4)
times = {}


class clock:
    """Time of a block [ms]."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.start = time.perf_counter()

    def __exit__(self, *exception):
        times[self.name] = (time.perf_counter() - self.start) * 1e3


with clock("njit"):

    @njit(cache=CACHE)
    def norm(values):
        return np.sqrt((values * values).sum())

    norm(ROWS)
with clock("vectorize eager"):

    @vectorize(["float64(float64, float64)"], cache=CACHE)
    def eager(a, b):
        return a * b + 1

    eager(ROWS, ROWS)
with clock("vectorize dynamic"):

    @vectorize(cache=CACHE)
    def dynamic(a, b):
        return a * b + 2

    dynamic(ROWS, ROWS)
with clock("vectorize parallel"):

    @vectorize(["float64(float64, float64)"], target="parallel", cache=CACHE)
    def threaded(a, b):
        return a * b + 3

    threaded(ROWS, ROWS)
with clock("guvectorize"):

    @guvectorize(["float64[:], float64[:]"], "(n)->()", cache=CACHE)
    def row_sum(row, out):
        out[0] = row.sum()

    row_sum(ROWS)
with clock("parallel"):

    @njit(parallel=True, cache=CACHE)
    def spread(values):
        out = np.zeros_like(values)
        for i in prange(len(values)):
            out[i] = values[i] * 2
        return out

    spread(ROWS)
with clock("cfunc"):

    @cfunc("float64(float64)", cache=CACHE)
    def callback(x):
        return x * 2 + 1

    callback.ctypes(2.0)
with clock("typed List"):
    numbers = typed.List()
    numbers.append(1.5)
    numbers.append(2.5)
    assert numbers[1] == 2.5
    assert len(numbers) == 2
with clock("typed Dict"):
    table = typed.Dict.empty(int64, float64)
    table[1] = 2.0
    assert table[1] == 2.0
    assert len(table) == 1
with clock("jitclass"):

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
with clock("closures"):

    def make(k, function):
        @njit(cache=CACHE)
        def inner(x):
            return function(x) + k

        return inner

    assert make(1, make(2, njit(cache=CACHE)(lambda x: x * 2)))(3) == 9
times["ms"] = sum(times.values())
times["rss MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps(times))
