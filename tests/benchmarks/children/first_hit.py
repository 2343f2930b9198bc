"""The first call of a process after ``import numba``, of a small function, and its decorator, which wakes nbcache.

With an argument, nothing is collected meanwhile.
"""

import gc
import json
import os
import sys
import time

import numpy as np
from numba import njit

CACHE = os.environ.get("BENCH_CACHE") == "1"
data = np.arange(10.0)
if len(sys.argv) > 1:
    gc.disable()
started = time.perf_counter()


@njit(cache=CACHE)
def mean_square(values):
    total = 0.0
    for index in range(len(values)):
        total += values[index] * values[index]
    return total / len(values)


decorated = time.perf_counter()
mean_square(data)
ended = time.perf_counter()
print(json.dumps({"ms": (ended - decorated) * 1e3, "with waking ms": (ended - started) * 1e3}))
