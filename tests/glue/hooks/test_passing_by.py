"""A hit is given to a dispatcher past Numba's own way to compile; whoever looks finds what that way leaves behind."""

import pytest
from nbtest import proc

PROGRAM = """
import os
from numba import njit
from numba.core import event
if os.environ.get("LISTENS"):
    spy = event.RecordingListener()
    event.register("numba:compiler_lock", spy)
@njit
def inner(x):
    return x + 1
@njit
def f(x):
    return inner(x) * 2
print(f(1), f(2.0))
if os.environ.get("LISTENS"):
    event.unregister("numba:compiler_lock", spy)
    print(any(each.is_start for _time, each in spy.buffer), all(each.kind == "numba:compiler_lock" for _, each in spy.buffer))
timers = [f.get_metadata(signature)["timers"] for signature in f.signatures]
print([sorted(each) for each in timers], all(seconds > 0 for each in timers for seconds in each.values()))
print(f.signatures, inner.signatures, f.stats.cache_hits, sorted(map(str, f.stats.cache_misses)))
f.disable_compile()
try:
    f("text")
except TypeError:
    print("refused")
f.disable_compile(False)
f.recompile()
print(f(1), f.signatures)
"""


@pytest.mark.every(2)
@pytest.mark.parametrize("listens", ["", "yes"])
def test_a_hit_leaves_what_a_compilation_leaves(place, listens):
    (place / "program.py").write_text(PROGRAM)
    plain = proc.run([place / "program.py"], None, {"LISTENS": listens})
    assert plain.status == 0, plain.stderr
    for _ in range(2):
        ended = proc.run([place / "program.py"], place / "store", {"LISTENS": listens})
        assert (ended.status, ended.stdout) == (0, plain.stdout), ended.stderr


WRAPPED = """
import sys
from numba.core import sigutils, types
from numba.core.dispatcher import Dispatcher
original = Dispatcher.compile
def compile(self, sig):
    print("jit", self.py_func.__name__, sig)
    if "bounds" in sys.argv:
        self.targetoptions["boundscheck"] = True
    if "floats" in sys.argv and self.py_func.__name__ == "halved":
        sig = tuple(types.float64 if each is types.int64 else each for each in sigutils.normalize_signature(sig)[0])
    return original(self, sig)
if len(sys.argv) > 1:
    Dispatcher.compile = compile
import numpy as np
from numba import njit
@njit
def halved(x):
    return x // 2
@njit
def taken(a, i):
    return a[i]
print(halved(5), halved.signatures)
try:
    taken(np.arange(4), 5)
    print("taken")
except IndexError as error:
    print(error)
"""


@pytest.mark.long
def test_what_others_put_before_numbas_way_runs_and_says_what_is_compiled(place):
    (place / "program.py").write_text(WRAPPED)
    for arguments in (["floats"], [], ["bounds"], ["log"], ["floats"], [], ["bounds"]):
        plain = proc.run([place / "program.py", *arguments])
        ended = proc.run([place / "program.py", *arguments], place / "store")
        assert (ended.status, ended.stdout) == (0, plain.stdout), (arguments, ended.stderr)
