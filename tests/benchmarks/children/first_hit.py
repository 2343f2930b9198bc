"""The first call of a process after ``import numba``, of a small function."""

import json
import os
import time

import numpy as np
from numba import njit

CACHE = os.environ.get("BENCH_CACHE") == "1"


@njit(cache=CACHE)
def mean_square(values):
    total = 0.0
    for value in values:
        total += value * value
    return total / len(values)


data = np.arange(10.0)
start = time.perf_counter()
mean_square(data)
print(json.dumps({"ms": (time.perf_counter() - start) * 1e3}))
