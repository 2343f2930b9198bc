"""First calls of 200 distinct small functions, after one that pays for the process."""

import json
import resource
import statistics
import time

from first_one import first
from many import ALL

first(1)
times = []
for function in ALL:
    start = time.perf_counter()
    function(3)
    times.append((time.perf_counter() - start) * 1e3)
print(
    json.dumps(
        {
            "ms": statistics.median(times),
            "sum ms": sum(times),
            "rss MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
    )
)
