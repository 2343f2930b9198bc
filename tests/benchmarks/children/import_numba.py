"""``import numba``."""

import json
import time

import numpy  # noqa: F401, ICN001  # read from disk before the clock starts: it is half of the time and most of the noise

start = time.perf_counter()
import numba  # noqa: E402, F401

print(json.dumps({"ms": (time.perf_counter() - start) * 1e3}))
