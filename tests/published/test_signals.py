"""Signals that come while published code runs: what their handlers raise is raised after the call, as where Numba runs it."""

import pytest
from nbtest.published import accumulator, node

pytestmark = [pytest.mark.usefixtures("way"), pytest.mark.every(2)]

MODULE = """
import signal
import numpy as np
from numba import njit, types

to_itself = types.ExternalFunction("raise", types.int32(types.int32))
SIGUSR1 = int(signal.SIGUSR1)

@njit
def array(n):
    to_itself(SIGUSR1)
    return np.arange(n)

@njit
def fails(n):
    to_itself(SIGUSR1)
    raise ValueError("with a value", n)
"""

NODE = """
import signal

class Stop(BaseException):
    pass

def stop(*_):
    raise Stop("from the handler")

array, fails = nbcache.load("array"), nbcache.load("fails")
signal.signal(signal.SIGUSR1, stop)
for function in (array, fails):
    for _ in range(100):
        try:
            function(3)
            "a line of Python"
        except Stop as exc:
            assert exc.args == ("from the handler",)
        else:
            raise AssertionError(f"{function} returned, and nothing was raised")
seen = []
signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
assert array(3).tolist() == [0, 1, 2]
try:
    fails(3)
except ValueError as exc:
    assert exc.args == ("with a value", 3)
print(len(seen))
"""


def test_what_a_handler_raises_during_a_call_is_raised_and_nothing_else_happens(tmp_path):
    (tmp_path / "interrupted.py").write_text(MODULE)
    program = 'import interrupted\n[nbcache.publish(n, getattr(interrupted, n), ["(i8,)"]) for n in ("array", "fails")]'
    # While it is proved, the calls end the process, which is only told.
    accumulator(tmp_path / "store", program, tmp_path)
    assert node(tmp_path / "store", NODE, tmp_path).stdout == "2\n"


DEEP = """
import sys

array, fails = nbcache.load("array"), nbcache.load("fails")

def deep(left, function):
    return function(3) if left == 0 else deep(left - 1, function)

# From the outside in: whatever is asked for first is asked for where nearly no frame is left.
for function in (array, fails):
    for depth in range(sys.getrecursionlimit(), sys.getrecursionlimit() - 60, -1):
        try:
            deep(depth, function)
        except Exception:  # which one depends on who has no frame left
            pass
print(array(3))
"""


def test_a_first_call_where_no_frame_is_left_is_an_error(tmp_path):
    (tmp_path / "interrupted.py").write_text(MODULE.replace("to_itself(SIGUSR1)", "pass"))
    program = 'import interrupted\n[nbcache.publish(n, getattr(interrupted, n), ["(i8,)"]) for n in ("array", "fails")]'
    accumulator(tmp_path / "store", program, tmp_path)
    assert node(tmp_path / "store", DEEP, tmp_path).stdout == "[0 1 2]\n"
