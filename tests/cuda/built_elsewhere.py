"""Kernels in a module that daemons can import: `module(n)` is its source with n kernels, of 20 kinds; `main(n)` a
program that launches all of them."""

_HEAD = """\
import math
import numpy as np
from numba import cuda, float32, int32, njit

SCALE = np.float32(3)

@cuda.jit(device=True)
def scaled(v):
    return v * SCALE

@cuda.jit("float32(float32)", device=True)
def eager(v):
    return v + 1

@njit
def both(v):
    return v * v - 2

def make(n):
    @cuda.jit
    def closure(x):
        x[cuda.grid(1)] = n
    return closure
"""
_AT = "i = cuda.grid(1)\n    if i < x.size:\n        x[i] = "
_KERNELS = [
    ("", _AT + "scaled(x[i])"),
    ("", _AT + "both(x[i]) + eager(x[i])"),
    ("", _AT + "x[i] * 2"),
    ("fastmath=True", _AT + "math.sqrt(x[i]) / math.sin(x[i])"),
    ("max_registers=24", _AT + "math.sin(x[i]) * math.cos(x[i])"),
    ("launch_bounds=(128, 2)", _AT + "x[i] / 3"),
    ("lineinfo=True", _AT + "x[i] / 5"),
    ("opt=False", _AT + "x[i] * 7"),
    ("lto=False", _AT + "x[i] * 8"),
    ('"void(float32[:])"', _AT + "x[i] * 9"),
    ("", "x[cuda.grid(1)] = 1\n    cuda.cg.this_grid().sync()\n    x[cuda.grid(1)] += 2"),
    (
        "",
        "s = cuda.shared.array(64, float32)\n    t = cuda.threadIdx.x\n    s[t] = x[t]\n    cuda.syncthreads()\n    x[t] = s[63 - t]",
    ),
    (
        "",
        "s = cuda.local.array(16, float32)\n    for k in range(16):\n        s[k] = x[k]\n    x[cuda.grid(1)] = s[cuda.grid(1) % 16]",
    ),
    ("", "cuda.atomic.add(x, 0, 1)\n    cuda.atomic.max(x, 1, 2)"),
    ("", "x[cuda.grid(1)] = cuda.shfl_sync(0xffffffff, x[cuda.grid(1)], 1)"),
    ("", "y = x.reshape((2, x.size // 2))\n    y[0, 0] = 1"),
    ("", _AT + "x[i] * SCALE"),
    ('shared_memory_carveout="MaxL1"', _AT + "x[i] - 4"),
    ("debug=True, opt=False", "if x[0] < 0:\n        raise ValueError('negative')\n    x[0] = 1 / x[0]"),
    ("", _AT + "math.exp(both(scaled(x[i])))"),
]


def module(count):
    """The source of a module with so many kernels."""
    found = [
        f"@cuda.jit({options})\ndef kernel{number}(x):\n    {body}\n"
        for number, (options, body) in enumerate(_KERNELS[:count])
    ]
    assert len(found) == count
    return _HEAD + "\n" + "\n".join(found)


def main(count, name="kernels_of_test"):
    """A program that launches so many kernels of the module called *name*."""
    launches = "".join(f"{name}.kernel{number}[1, 64](a)\n" for number in range(count))
    return f"import numpy as np\nimport {name}\na = np.ones(64, np.float32)\n{launches}"
