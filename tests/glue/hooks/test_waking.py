"""The client sleeps until Numba is used, and is awake in time."""

import json

import pytest
from nbtest import proc

AWAKE = "'nbcache.glue.hooks.seams' in sys.modules"
FIRST_USES = {
    "njit": "@numba.njit\ndef f(x): return x + 1",
    "njit cached": "@numba.njit(cache=True)\ndef f(x): return x + 1",
    "vectorize": "@numba.vectorize\ndef f(x): return x + 1",
    "vectorize parallel": "@numba.vectorize(['f8(f8)'], target='parallel', cache=True)\ndef f(x): return x + 1",
    "guvectorize": "@numba.guvectorize('(n)->(n)', cache=True)\ndef f(x, out): out[:] = x + 1",
    "cfunc": "@numba.cfunc('f8(f8)', cache=True)\ndef f(x): return x + 1",
    "stencil": "@numba.stencil\ndef f(a): return a[0] + a[1]",
    "jitclass": "from numba.experimental import jitclass\n@jitclass([('x', numba.int64)])\nclass C:\n def __init__(self): self.x = 1",
    "typed list": "numba.typed.List()",
    "an unpickled dispatcher": "import pickle; pickle.loads(open('f.pickle', 'rb').read())",
    "the contexts": "from numba.core.registry import cpu_target; cpu_target.target_context",
}


def run(tmp_path, code, store="store", **extra):
    outcome = proc.run(["-c", code], tmp_path / store, extra, cwd=tmp_path)
    assert (outcome.status, outcome.stderr) == (0, "")
    return outcome.stdout.split()


def test_importing_numba_wakes_nobody(tmp_path):
    heavy = "[n for n in sys.modules if n.startswith('nbcache.') and n.split('.')[1] not in ('client', 'glue', 'process', 'pythons')]"
    code = f"import sys, numba, numba.experimental, numba.typed; numba.int64[:]; print({AWAKE}, {heavy})"
    assert run(tmp_path, code) == ["False", "[]"]


@pytest.mark.every(5)
@pytest.mark.parametrize("use", FIRST_USES)
def test_the_first_use_wakes_it(tmp_path, use):
    import pickle

    from numba import njit

    (tmp_path / "f.pickle").write_bytes(pickle.dumps(njit(lambda x: x)))
    code = f"import sys, numba\nassert not {AWAKE}\nexec({FIRST_USES[use]!r})\nprint({AWAKE})"
    if use == "typed list":
        code = code.replace("numba.typed.List()", "numba.typed.List().append(1)")
    assert run(tmp_path, code) == ["True"]


def test_watching_is_no_change_by_others(tmp_path):
    code = f"""
import numba, sys
from nbcache.glue.identity.numba_patches import Patches
patches = Patches()
asleep = patches.look(), not {AWAKE}
numba.njit(lambda x: x + 1)(1)
print(asleep == ({{}}, True) and {AWAKE} and patches.look() == {{}})
"""
    assert run(tmp_path, code) == ["True"]


def test_what_it_watched_is_as_it_was(tmp_path):
    code = """
import numba, sys
from numba.core.bytecode import FunctionIdentity
from numba.core.dispatcher import _FunctionCompiler
numba.njit(lambda x: x)
kinds = [type(vars(cls)[name]).__name__ for cls, name in ((FunctionIdentity, "from_function"), (_FunctionCompiler, "__init__"))]
print(*kinds)
"""
    assert run(tmp_path, code) == ["classmethod", "function"]


def test_the_environment_counts_as_it_was_when_numba_was_imported(tmp_path):
    code = f"""
import os, numba, nbcache
os.environ["NBCACHE_DIR"] = {str(tmp_path / "other")!r}
os.chdir("/")
numba.njit(lambda x: x + 1)(1)
print(nbcache.stats()["published"] > 0)
"""
    assert run(tmp_path, code) == ["True"]
    assert (tmp_path / "store").exists()
    assert not (tmp_path / "other").exists()


def test_it_can_be_switched_off_and_elsewhere_while_it_sleeps(tmp_path):
    code = f"""
import sys, numba, nbcache
nbcache.disable()
numba.njit(lambda x: x + 1)(1)
print({AWAKE})
nbcache.enable({str(tmp_path / "other")!r})
numba.njit(lambda x: x + 2)(1)
print(nbcache.stats()["published"] > 0)
"""
    assert run(tmp_path, code) == ["False", "True"]
    assert not (tmp_path / "store").exists()


@pytest.mark.long
def test_threads_that_begin_at_once(tmp_path):
    code = """
import json, numba, nbcache, sys, threading
# However slow the machine is, nobody gives up waiting for the one that wakes it.
sys.modules["nbcache.glue.hooks.waking"]._SECONDS = 600
start = threading.Barrier(8)
def work(number, results):
    start.wait()
    results[number] = numba.njit(lambda x: x + 5)(number)
results = {}
threads = [threading.Thread(target=work, args=(number, results)) for number in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps([results, nbcache.stats()]))
"""
    for warm in (False, True):
        outcome = proc.run(["-c", code], tmp_path / "store")
        assert outcome.stderr == ""
        results, stats = json.loads(outcome.stdout)
        assert results == {str(number): number + 5 for number in range(8)}
        assert not warm or not stats["misses"], stats


@pytest.mark.long
def test_a_fork_while_another_thread_wakes_it(tmp_path):
    """The child, which has nobody to give the lock back, waits once and no more."""
    code = """
import os, sys, threading, warnings, numba
from nbcache.client import hook
warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, from Python 3.12 on
inside, forked = threading.Event(), threading.Event()
activate = hook._activate
def slowly(environ=None):
    if threading.current_thread() is thread:
        inside.set()
        forked.wait()
    activate(environ)
hook._activate = slowly
thread = threading.Thread(target=lambda: numba.njit(lambda x: x))
thread.start()
inside.wait()
child = os.fork()
if not child:
    alarm = sys.modules["nbcache.glue.hooks.waking"]._Alarm
    rings, ring = [], alarm.ring
    alarm.ring = lambda self: (rings.append(1), ring(self))
    results = [numba.njit(lambda x: x + 1)(n) for n in range(5)]
    os._exit(0 if results == [1, 2, 3, 4, 5] and len(rings) == 1 else 1)
forked.set()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
thread.join()
"""
    assert run(tmp_path, code) == ["0"]
