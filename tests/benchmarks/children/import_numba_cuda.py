"""``import numba.cuda`` after Numba, by processor time."""

import json
import time

import numba

start = time.process_time()
import numba.cuda  # noqa: E402, F401

print(json.dumps({"ms": (time.process_time() - start) * 1e3}))
