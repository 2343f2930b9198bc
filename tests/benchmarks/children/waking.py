"""The first decorator and the first call of a process after ``import numba``; with an argument, nothing is collected."""

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
start = time.perf_counter()


@njit(cache=CACHE)
def mean_square(values):
    total = 0.0
    for value in values:
        total += value * value
    return total / len(values)


mean_square(data)
print(json.dumps({"ms": (time.perf_counter() - start) * 1e3}))
