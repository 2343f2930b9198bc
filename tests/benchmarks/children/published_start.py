"""From the start of a process to the first result of a function of an array."""

import sys
import time

import numpy as np

started = time.perf_counter()
values = np.arange(1000.0)
way = sys.argv[1]
if way == "published":
    import nbcache

    result = nbcache.load("scaled")(values, 2.0)
elif way == "bytes":
    import nbcache

    with open(sys.argv[2], "rb") as file:
        result = nbcache.loads(file.read(), trusted=True)(values, 2.0)
elif way == "numba":
    from published_source import scaled

    result = scaled(values, 2.0)
else:
    result = np.sqrt(values * 2.0 + 1.0)
taken = time.perf_counter() - started
assert result[4] == 3.0
# By hand: a process that only imports NumPy imports no json, and one that loads a published function does.
print(f'{{"after NumPy ms": {taken * 1e3}, "CPU ms": {time.process_time() * 1e3}}}')
