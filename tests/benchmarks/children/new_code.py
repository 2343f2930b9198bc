"""New code (its constant is the argument) whose library parts were compiled before: sort, histogram, median."""

import json
import sys
import time

import numpy as np
from numba import njit

SHIFT = float(sys.argv[1])


@njit
def describe(values):
    ordered = np.sort(values + SHIFT)
    counts, edges = np.histogram(ordered, 8)
    return np.median(ordered), counts.max(), edges[1]


data = np.linspace(0, 9, 50)
start = time.perf_counter()
describe(data)
print(json.dumps({"ms": (time.perf_counter() - start) * 1e3}))
