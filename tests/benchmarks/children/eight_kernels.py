"""Eight kernels, from the first decorator to the last launch, by processor time, on a GPU that isn't there.

numba-cuda's own cache refuses the one that reshapes an array, which is compiled on that side; ``seven ms`` is without it.
"""

import json
import math
import os
import time
import warnings

import numpy as np
from nbtest import fakegpu
from numba import cuda, float32, njit
from numba.cuda import dispatcher

warnings.simplefilter("ignore")
fakegpu.install((9, 0))
dispatcher._Kernel.launch = lambda *_args: None
cached = {"cache": True} if os.environ.get("BENCH_CACHE") == "1" else {}
a = np.ones(64, np.float32)
start = time.process_time()


@cuda.jit(device=True)
def scaled(v):
    return v * 3


@cuda.jit(device=True)
def nested(v):
    return scaled(v) + scaled(v + 1)


@njit
def both(v):
    return v * v


@cuda.jit(**cached)
def plain(x):
    x[cuda.grid(1)] *= 2


@cuda.jit(**cached)
def shared(x):
    s = cuda.shared.array(64, float32)
    s[cuda.threadIdx.x] = x[cuda.grid(1)]
    cuda.syncthreads()
    x[cuda.grid(1)] = s[63 - cuda.threadIdx.x]


@cuda.jit(**cached)
def calling(x):
    x[cuda.grid(1)] = nested(x[cuda.grid(1)])


@cuda.jit(**cached)
def for_both(x):
    x[cuda.grid(1)] = both(x[cuda.grid(1)])


@cuda.jit(**cached)
def cooperative(x):
    x[cuda.grid(1)] += 1
    cuda.cg.this_grid().sync()
    x[cuda.grid(1)] += x[0]


@cuda.jit
def reshaping(x):
    y = x.reshape((2, x.size // 2))
    y[0, 0] = 1


@cuda.jit(fastmath=True, **cached)
def fast(x):
    x[cuda.grid(1)] = math.sin(x[cuda.grid(1)]) / x[cuda.grid(1)]


@cuda.jit(max_registers=24, **cached)
def narrow(x):
    x[cuda.grid(1)] = math.cos(x[cuda.grid(1)])


decorated = time.process_time()
plain[1, 64](a)
first = time.process_time()
for kernel in (shared, calling, for_both, cooperative, fast, narrow):
    kernel[1, 64](a)
seventh = time.process_time()
reshaping[1, 64](a)
end = time.process_time()
times = {
    "ms": end - start,
    "seven ms": seventh - start,
    "decorators ms": decorated - start,
    "first ms": first - decorated,
    "further ms": (seventh - first) / 6,
}
print(json.dumps({name: seconds * 1e3 for name, seconds in times.items()}))
