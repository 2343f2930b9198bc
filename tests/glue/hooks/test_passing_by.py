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
print([sorted(each)[0] for each in timers], all(each["compiler_lock"] > 0 for each in timers))
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


@pytest.mark.parametrize("listens", ["", "yes"])
def test_a_hit_leaves_what_a_compilation_leaves(place, listens):
    (place / "program.py").write_text(PROGRAM)
    plain = proc.run([place / "program.py"], None, {"LISTENS": listens})
    assert plain.status == 0, plain.stderr
    for _ in range(2):
        ended = proc.run([place / "program.py"], place / "store", {"LISTENS": listens})
        assert (ended.status, ended.stdout) == (0, plain.stdout), ended.stderr
