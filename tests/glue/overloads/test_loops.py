"""Callers of a ufunc depend on the loops that they use, and on no others that it has by now."""

import json
import shutil

import pytest
from nbtest import proc

PROGRAM = """
import json, sys, warnings
import numpy as np
from numba import guvectorize, njit, prange, vectorize
from numba.core import event

listener = event.RecordingListener()
event.register("numba:compile", listener)
K = 3

@vectorize
def u(x):
    return x / K + 1

@vectorize(["float64(float64)", "int64(int64)"])
def frozen(x):
    return x * K + 1

@guvectorize("(n),()->(n)")
def g(a, k, out):
    for i in range(len(a)):
        out[i] = a[i] * k + K

@njit
def doubles(x):
    return u(x)

@njit
def integers(x):
    return u(x) + 1

@njit(error_model="numpy", fastmath=True)
def fast(x):
    return u(x)

@njit
def of_both(x):
    return u(x) + u(np.float32(x))

@njit
def casting(x):
    return frozen(x)

@njit
def general(a):
    out = np.zeros_like(a)
    g(a, 2, out)
    return out

LARGE = np.arange(300_000)

@vectorize(["int64(int64)"])
def of_large(x):
    return LARGE[x] * 2

@njit("int64[:](int64[:])", parallel=True)
def parallel(a):
    out = np.empty(len(a), np.int64)
    for i in prange(len(a)):
        out[i] = of_large(a[i])
    return out

def rebind():
    global K
    K = 5

does = {
    "doubles": lambda: doubles(3.0), "integers": lambda: integers(3), "both": lambda: of_both(3.0),
    "fast": lambda: fast(3.0), "casting": lambda: casting(np.int8(3)), "loop": lambda: u(3.0),
    "general": lambda: general(np.arange(2.0)).tolist(), "general32": lambda: general(np.ones(1, np.float32)).tolist(),
    "rebind": rebind, "add": lambda: u.add("float32(float64)") and None,
    "large": lambda: parallel(np.arange(3)).tolist(),
    "types": lambda: [sorted(u.types), frozen.types],
}
done = [float(a) if isinstance(a, np.generic) else a for a in (does[each]() for each in sys.argv[1:])]
print(json.dumps([done, sum(each.is_start for _time, each in listener.buffer)]))
"""


def answers(folder, *does, store="store"):
    """What the program answers, and how much is compiled in it."""
    (folder / "program.py").write_text(PROGRAM)
    outcome = proc.run([folder / "program.py", *does], store and folder / store, cwd=folder)
    assert outcome.status == 0, outcome.stderr
    return json.loads(outcome.stdout)


def test_neither_the_order_in_which_loops_came_nor_what_they_are_bound_to_counts(tmp_path):
    does = ["large", "doubles", "integers", "both", "casting", "general", "general32"]
    first, compiled = answers(tmp_path, *does, "types")
    assert compiled
    again, compiled = answers(tmp_path, *reversed(does), "types")
    assert compiled == 0
    assert again == [*first[-2::-1], first[-1]]


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A store with what the program compiles in this order and in that one."""
    folder = tmp_path_factory.mktemp("filled")
    for does in (
        ["doubles", "integers", "both", "casting", "fast"],
        ["fast"],
        ["rebind", "both"],
        ["loop", "rebind", "both"],
    ):
        answers(folder, *does)
    return folder / "store"


@pytest.mark.long
@pytest.mark.parametrize("does", [
    ("doubles", "rebind", "integers", "both"),
    ("rebind", "integers", "both"),
    ("loop", "rebind", "doubles"),
    ("rebind", "doubles", "casting"),
    ("add", "doubles", "types"),
    ("doubles", "types"),
    ("fast", "doubles"),
    ("doubles", "fast"),
], ids=" ".join)  # fmt: skip
def test_what_a_loop_was_made_from_counts(tmp_path, filled, does):
    shutil.copytree(filled, tmp_path / "store")
    plain = answers(tmp_path, *does, store=None)[0]
    assert answers(tmp_path, *does)[0] == plain
    assert answers(tmp_path, *does)[0] == plain
