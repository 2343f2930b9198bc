"""The line of the .pth file, as ``site`` executes it, in a process that never imports Numba (run with -S)."""

import json
import os  # noqa: F401  # any interpreter has it by then
import sys
import time

line = open(sys.argv[1]).read()
sys.path.insert(0, sys.argv[2])
start = time.perf_counter()
exec(line)
print(json.dumps({"ms": (time.perf_counter() - start) * 1e3}))
