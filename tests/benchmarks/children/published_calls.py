"""A call of a published function and of Numba's dispatcher, in turn in one process [ns]."""

import json
import statistics
import timeit

import numpy as np
import published_source as source

import nbcache

small = np.arange(8.0)
ARGUMENTS = {"added": (1.5, 2.5), "total": (small,), "scaled": (small, 2.0)}
ROUNDS, NUMBER = 15, 20_000

measured = {}
for name, arguments in ARGUMENTS.items():
    sides = {"published": nbcache.load(name), "numba": getattr(source, name)}
    found = {side: [] for side in sides}
    for function in sides.values():
        function(*arguments)
    for _ in range(ROUNDS):
        for side, function in sides.items():
            call = timeit.Timer("function(*arguments)", globals={"function": function, "arguments": arguments})
            found[side].append(call.timeit(NUMBER) / NUMBER * 1e9)
    measured |= {f"{name} {side}": statistics.median(times) for side, times in found.items()}
print(json.dumps(measured))
