"""What Numba makes, as it is described: kernels by their function, dispatchers of others' classes not at all."""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from numba import njit, types
from numba.core.caching import FunctionCache
from numba.core.registry import CPUDispatcher

from nbcache.glue.identity.node import Unidentifiable
from nbcache.glue.keys.key_maker import KeyMaker


@pytest.fixture
def digest():
    return KeyMaker().engine.digest


class Foreign:
    def __init__(self, function):
        self.py_func = function
        self.targetoptions = {}


class Sub(CPUDispatcher):
    def typeof_pyval(self, val):
        return super().typeof_pyval(val)


class Below(Sub):
    def enable_caching(self):
        pass


class Keeping(CPUDispatcher):
    """Says where its code is kept, as libraries do that have their own key for Numba's files."""

    def enable_caching(self):
        self._cache = FunctionCache(self.py_func)


def caller(dispatcher):
    scope = {"kernel": dispatcher, "__name__": "case"}
    exec("def f(x): return kernel(x)", scope)
    return njit(scope["f"])


def body(k):
    scope = {"K": k, "__name__": "case"}
    exec("def g(x): return x + K", scope)
    return scope["g"]


@pytest.mark.parametrize("make", [Foreign, Sub, Below])
def test_a_dispatcher_that_is_not_numbas_own_is_refused(digest, make):
    with pytest.raises(
        Unidentifiable, match=rf"a dispatcher of the class .*\.{make.__name__}, which isn't Numba's own"
    ):
        digest(caller(make(body(1))))


def test_one_that_only_says_where_its_code_is_kept_is_known_by_its_function(digest):
    known = digest(caller(Keeping(body(1))))
    assert digest(caller(Keeping(body(1)))) == known
    assert digest(caller(Keeping(body(2)))) != known


def test_what_is_set_on_its_class_later_counts(digest):
    cls = type("Keeping", (Keeping,), {})
    function = caller(cls(body(1)))
    digest(function)
    cls.targetdescr = CPUDispatcher.targetdescr
    with pytest.raises(Unidentifiable, match="which isn't Numba's own"):
        digest(function)


@pytest.mark.parametrize("value", ["a text", 12345, True])
def test_a_literal_is_its_value_whether_or_not_it_was_asked_for_its_type(value):
    other = "another text" if isinstance(value, str) else value + 1
    literal = types.literal(value)
    before = KeyMaker().type_digest(literal)
    assert literal.literal_type is not None
    assert KeyMaker().type_digest(literal) == before
    assert KeyMaker().type_digest(types.literal(other)) != before


KERNELS = textwrap.dedent("""
    import json, sys
    from numba import cuda, njit, objmode
    from nbcache.glue.identity.node import Unidentifiable
    from nbcache.glue.keys.key_maker import KeyMaker
    digest = KeyMaker().engine.digest
    def made(k, **options):
        scope = {"K": k, "__name__": "case", "cuda": cuda}
        exec("def g(x):\\n    x[0] = x[0] + K", scope)
        scope = {"kernel": cuda.jit(**options)(scope["g"]), "__name__": "case"}
        exec("def f(x): return kernel[1, 1](x)", scope)
        return scope["kernel"], njit(scope["f"])
    def launched():
        kernel, f = made(1)
        kernel[2, 2]
        return f
    found = [digest(made(1)[1]), digest(made(1)[1]), digest(launched()), digest(made(2)[1]), digest(made(1, device=True)[1])]
    print(json.dumps([each.hex() for each in found]))
""")


def test_kernels_for_cuda():
    outcome = subprocess.run([sys.executable, "-c", KERNELS], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    one, again, launched, two, device = json.loads(outcome.stdout)
    assert one == again == launched
    assert len({one, two, device}) == 3


MAIN = """
import numpy as np
import lib
a = np.arange(5.0)
print(lib.cpu(a), lib.run(a), lib.obj(a), lib.eager(2.0))
"""
LIB = """
import numpy as np
from numba import cuda, njit, objmode
import cfg
@njit
def helper(x):
    return x * cfg.K
@cuda.jit(device=True)
def dev(x):
    return helper(x) + cfg.D
@cuda.jit
def kern(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] = dev(a[i])
@njit
def cpu(a):
    s = 0.0
    for x in a:
        s += helper(x)
    return s
@njit
def obj(a):
    with objmode(r="float64"):
        r = run(a)
    return r
def run(a):
    b = a.copy()
    kern[1, 32](b)
    return float(b.sum())
@njit("float64(float64)")
def eager(x):
    return helper(x)
"""


@pytest.mark.long
def test_a_program_in_the_simulator_behaves_as_without_a_cache(tmp_path):
    (tmp_path / "main.py").write_text(MAIN)
    (tmp_path / "lib.py").write_text(LIB)

    def run(**env):
        env = dict(os.environ, NUMBA_ENABLE_CUDASIM="1", PYTHONDONTWRITEBYTECODE="1", **env)
        command = [sys.executable, tmp_path / "main.py"]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout

    for k, d in ((1, 1), (2, 1), (2, 5)):
        (tmp_path / "cfg.py").write_text(f"K = {k}\nD = {d}\n")
        total = float(np.arange(5.0).sum())
        expected = f"{total * k} {total * k + 5 * d} {total * k + 5 * d} {2.0 * k}\n"
        for _ in ("cold", "warm"):
            assert run(NBCACHE_DIR=str(tmp_path / "store")) == expected
