"""A call of a published function and of Numba's dispatcher, in turn in one process [ns]."""

import inspect
import json
import statistics
import timeit

import numpy as np
import published_source as source

import nbcache

small = np.arange(8.0)
CALLS = {
    "added": "function(1.5, 2.5)",
    "total": "function(small)",
    "scaled": "function(small, 2.0)",
    "added, by keyword": "function({0}=1.5, {1}=2.5)",
    "added, int for float": "function(1, 2)",
}
ROUNDS, NUMBER = 15, 20_000

measured = {}
for what, text in CALLS.items():
    name = what.partition(",")[0]
    sides = {"published": nbcache.load(name), "numba": getattr(source, name)}
    statement = text.format(*inspect.signature(source.added.py_func).parameters)
    found = {side: [] for side in sides}
    for _ in range(ROUNDS):
        for side, function in sides.items():
            call = timeit.Timer(statement, globals={"function": function, "small": small})
            call.timeit(1)
            found[side].append(call.timeit(NUMBER) / NUMBER * 1e9)
    measured |= {f"{what} {side}": statistics.median(times) for side, times in found.items()}
print(json.dumps(measured))
