"""The time from a miss to running code: the first call of two functions of the module that the argument names."""

import importlib
import json
import sys
import time

import numba  # noqa: F401  not part of what is measured
import numpy as np

module = importlib.import_module(sys.argv[1])
numbers = np.arange(50.0)[::-1].copy()
measured = {}
for name, argument in (("trivial", 3), ("sorting", numbers)):
    started = time.perf_counter()
    getattr(module, name)(argument)
    measured[f"{name} ms"] = (time.perf_counter() - started) * 1e3
print(json.dumps(measured))
