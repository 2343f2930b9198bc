"""Aliases and twins: equal digests, another graph."""

import itertools
import pathlib
from types import ModuleType

import numpy as np
import pytest
from numba import njit, types

from nbcache.glue.keys.key_maker import KeyMaker, frame_stack
from nbcache.glue.keys.units import unit_for

SOURCES = {
    "exceptions": ("class E(Exception): pass\nA = E\n", "class E(Exception): pass\nB = E\n"),
    "classes": ("class E: pass\nA = E\n", "class E: pass\nB = E\n"),
    "named tuples": ("import collections\nA = collections.namedtuple('P', 'x')\n",
                     "import collections\nB = collections.namedtuple('P', 'x')\n"),
    "enums": ("import enum\nclass E(enum.Enum):\n    X = 1\nA = E\n", "import enum\nclass E(enum.Enum):\n    X = 1\nB = E\n"),
    "arrays": ("import numpy as np\nA = np.zeros(3)\n", "B = np.zeros(3)\n"),
    "large arrays": ("import numpy as np\nA = np.zeros(300_000)\n", "B = np.zeros(300_000)\n"),
    "lists": ("A = [1]\n", "B = [1]\n"),
    "dictionaries in tuples": ("A = ({'a': 1},)\n", "B = ({'a': 1},)\n"),
    "instances": ("class E:\n    def __call__(self): pass\nA = E()\n", "B = E()\n"),
    "functions": ("def f(): pass\nA = f\n", "def f(): pass\nB = f\n"),
    "dispatchers": ("import numba\ndef f(): pass\nA = numba.njit(f)\n", "B = numba.njit(f)\n"),
    "jitclasses": ("import numba\n@numba.experimental.jitclass([('x', numba.int64)])\nclass J:\n    def __init__(self): self.x = 1\nA = J\n",
                   "@numba.experimental.jitclass([('x', numba.int64)])\nclass J:\n    def __init__(self): self.x = 1\nB = J\n"),
}  # fmt: skip
READER = "def f(x):\n    return A, B, x\n"


def made(source):
    module = ModuleType("users_module")
    exec(compile(source, "users_module.py", "exec"), vars(module))
    return module


def identity(function):
    engine = KeyMaker().engine
    digest = engine.digest(function)
    return digest, engine.sharing(function)


@pytest.mark.parametrize("kind", SOURCES)
def test_one_object_under_two_names_is_not_two_that_are_alike(kind):
    first, second = SOURCES[kind]
    alias = identity(njit(made(first + "B = A\n" + READER).f))
    twins = [identity(njit(made(first + second + READER).f)) for _ in range(2)]
    assert twins[0] == twins[1] != alias
    assert alias[1] == b"" != twins[0][1]
    if kind != "jitclasses":  # their methods are made as one for all
        assert alias[0] == twins[0][0]


def test_which_of_the_twins_counts():
    lines = "class E: pass\nM, N = [type('E', (), {}) for _ in range(2)]\ndef f(x): return A, B, C, x\n"
    found = {identity(made(f"{lines}A, B, C = {', '.join(names)}\n").f) for names in itertools.product("MN", repeat=3)}
    assert len(found) == 4  # all alike, or one of three is another


TWINS = """
import numba
def make():
    class C: pass
    return C
X, Y = make(), make()
{x}
@numba.njit
def g(x): return X
@numba.njit
def h(x): return Y
@numba.njit
def f(x): return g(x), h(x)
"""


def test_twins_behind_callees_with_memories_are_seen():
    alias, twins, fresh = (made(TWINS.format(x=line)) for line in ("Y = X", "", ""))
    maker = KeyMaker()
    for module in (alias, twins):
        for function in (module.g, module.h):
            maker.engine.digest(function)
            assert maker.engine.sharing(function) == b""
    results = [(maker.engine.digest(module.f), maker.engine.sharing(module.f)) for module in (alias, twins, fresh)]
    assert results[0] != results[1] == results[2]
    assert (maker.engine.digest(twins.f), maker.engine.sharing(twins.f)) == results[1]


def test_a_twin_that_becomes_an_alias_is_another_key():
    module = made(TWINS.format(x=""))
    engine = KeyMaker().engine
    engine.digest(module.f)
    before = engine.sharing(module.f)
    module.Y = module.X
    engine.digest(module.f)
    assert before != engine.sharing(module.f) == b""


def test_the_class_of_an_argument_and_its_twin_in_the_function():
    keys = set()
    for names in ("A, A", "A, B", "B, A"):
        module = made("import collections, numba\nA, B = [collections.namedtuple('P', 'x') for _ in range(2)]\n"
                      f"C, D = {names}\n@numba.njit\ndef f(x): return isinstance(x, C)\n")  # fmt: skip
        argument = types.NamedTuple((types.int64,), module.D)
        maker = KeyMaker()
        keys.add(unit_for(maker, frame_stack(maker), module.f, (argument,)).key)
    assert len(keys) == 2


def test_twins_are_looked_for_once(monkeypatch):
    module = made(SOURCES["lists"][0] + SOURCES["lists"][1] + READER)
    function, engine = njit(module.f), KeyMaker().engine
    engine.digest(function)
    first = engine.sharing(function)
    monkeypatch.setattr(type(engine), "_walk", None)
    assert engine.digest(function)
    assert engine.sharing(function) == first


@pytest.mark.filterwarnings(
    "ignore:Setting the (shape|dtype|strides) on a NumPy array:DeprecationWarning"
)  # since NumPy 2.5
def test_only_the_head_of_what_is_bound_by_address_counts():
    scope = {"__name__": "users_module", "A": np.zeros(200_000)}
    exec("def f(x): return A[x]\ndef g(x): return x in A\ndef h(x): return A[x]", scope)
    f, g, run = njit(scope["f"]), njit(scope["g"]), njit(inline="always")(scope["h"])
    engine = KeyMaker().engine
    before = [engine.digest(each) for each in (f, g, run)]
    scope["A"][7] = 1
    changed = [engine.digest(each) != old for each, old in zip((f, g, run), before, strict=True)]
    assert changed == [False, True, True]
    scope["A"].shape = (2, 100_000)
    assert engine.digest(f) != before[0]
    scope["A"] = np.zeros(200_000)[:0]
    empty = engine.digest(f)
    scope["A"] = np.zeros(10)
    assert engine.digest(f) != empty


def test_the_content_of_a_small_array_counts():
    scope = {"__name__": "users_module", "A": np.zeros(100)}
    exec("def f(x): return A[x]", scope)
    f, engine = njit(scope["f"]), KeyMaker().engine
    before = engine.digest(f)
    scope["A"][7] = 1
    assert engine.digest(f) != before


@pytest.mark.parametrize("layout", [np.s_[:], np.s_[::2], np.s_[:, ::-1], np.s_[::3, 1:5]])
def test_content_is_hashed_where_it_lies(layout):
    from nbcache.glue.identity import describe_numpy

    base = np.arange(6000.0).reshape(100, 60)
    for array in (base[layout], base.T[layout], base.astype("M8[s]")[layout], base.astype(">c16")[layout]):
        seen = describe_numpy.array_bytes(array)
        assert seen == describe_numpy.array_bytes(array)
        other = array.copy("K")
        if other.strides == array.strides:
            assert seen == describe_numpy.array_bytes(other)
        index = tuple(n - 1 for n in array.shape)
        array[index] += np.timedelta64(1, "s") if array.dtype.kind == "M" else 1
        assert seen != describe_numpy.array_bytes(array)


def test_a_large_array_that_would_be_written_down_is_not_stored(store, module):
    source = (
        "from numba import jit\ndef make(A):\n    @jit(forceobj=True)\n    def f(x):\n        return A[x]\n    return f"
    )
    made = module("case", source)
    assert made.make(np.zeros(200_000))(1) == 0.0
    assert made.make(np.ones(200_000))(1) == 1.0
    assert all(entry.stat().st_size < 1_000_000 for entry in pathlib.Path(store).rglob("*.nbo"))  # Numba's runtime
