"""First calls of ten functions that read one global array of 480 MB; what Numba imports for a first call is there."""

import json
import resource
import time

import numpy as np
from numba import njit

BIG = np.arange(60_000_000.0)


@njit
def first(x):
    return x - 41


def make(number):
    @njit
    def read(position):
        return BIG[position] + BIG[-1 - position] * number

    return read


first(1)
functions = [make(number) for number in range(10)]
start = time.perf_counter()
for function in functions:
    function(7)
print(
    json.dumps(
        {
            "ms": (time.perf_counter() - start) * 1e3,
            "rss MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
    )
)
