"""Text for programs of tests: many small, distinct functions, and what makes the compiler impossible."""

from __future__ import annotations

FORBID = """
def forbid():
    from numba.core import event
    class Refuse(event.Listener):
        def on_start(self, e):
            raise AssertionError("the compiler was asked")
        def on_end(self, e):
            pass
    event.register("numba:run_pass", Refuse())
"""
"""A listener does it: a function in the place of one of Numba's would count for what is identified."""

_SHAPES = [
    "def {n}(x):\n    return x * {k} + 1\n",
    "def {n}(x):\n    s = 0\n    for i in range({k}):\n        s += i * x\n    return s\n",
    "def {n}(x):\n    if x > {k}:\n        return x - {k}\n    return x + {k}.5\n",
    "def {n}(x):\n    a = (x, {k}, x * 2)\n    return a[0] + a[1] - a[2]\n",
    "def {n}(x):\n    y = math.sin(x) + {k}\n    return math.sqrt(y * y)\n",
    "def {n}(x):\n    while x < {k}:\n        x = x * 2 + 1\n    return x\n",
    "def {n}(x):\n    return max(x, {k}) + min(x, {k}) * K\n",
    "def {n}(x, y={k}):\n    return (x + y) // 3 + (x % {k})\n",
    "def {n}(x):\n    t = 0.0\n    for i in range(4):\n        if i & 1:\n            t += x\n        else:\n            t -= {k}\n    return t\n",
    "def {n}(x):\n    return int(x) ^ {k}\n",
]


def functions(count: int, decorator: str = "@njit") -> str:
    """Return a module that defines ``f0``..``f<count-1>``, all different, and ``ALL``: each to be called with one number."""
    head = "import math\nfrom numba import njit, vectorize\nK = 7\n"
    blocks = [
        f"{decorator}\n" + _SHAPES[index % len(_SHAPES)].format(n=f"f{index}", k=index + 2) for index in range(count)
    ]
    return head + "\n".join(blocks) + f"\nALL = [{', '.join(f'f{index}' for index in range(count))}]\n"


def caller(module: str, argument: str = "3", *, gate: bool = False) -> str:
    """Return a main program that calls ``ALL`` of ``module`` and prints the results.

    With ``gate`` it says "ready" once Numba is imported and waits for the file named by its first argument.
    """
    wait = (
        ("print('ready', flush=True)\nwhile not os.path.exists(sys.argv[1]):\n    time.sleep(0.002)\n") if gate else ""
    )
    return (
        f"import os, sys, time\nfrom {module} import ALL\n{wait}"
        f"for function in ALL:\n    print(function.__name__, repr(function({argument})), flush=True)\n"
    )


def held_back(gate: object) -> str:
    """Return the beginning of a module whose import in a worker ends once there is a file at *gate*, and not before."""
    return (
        "import os, sys, time\n"
        f"while not (sys.argv[0].endswith('main.py') or os.path.exists({str(gate)!r})):\n    time.sleep(0.02)\n"
    )
