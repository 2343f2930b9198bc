"""A call of an already loaded function, and the same under cProfile [ns]."""

import cProfile
import json
import os
import timeit

from numba import njit

CACHE = os.environ.get("BENCH_CACHE") == "1"


@njit(cache=CACHE)
def add(a, b):
    return a + b


add(1, 2)
plain = min(timeit.repeat(lambda: add(1, 2), number=200_000, repeat=7)) / 200_000 * 1e9
profile = cProfile.Profile()
profile.enable()
profiled = min(timeit.repeat(lambda: add(1, 2), number=50_000, repeat=5)) / 50_000 * 1e9
profile.disable()
print(json.dumps({"ns": plain, "ns under cProfile": profiled}))
