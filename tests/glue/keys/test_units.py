"""`nbcache why` names the component that changed, for each component of the key."""

import enum
import json
import warnings
from collections import namedtuple

import numba
import numpy as np
import pytest
from nbtest import proc
from numba.core import config

import nbcache
from nbcache.cli.main import main
from nbcache.client import activation

PLAIN = """
from numba import njit
@njit
def f(x):
    return x + 1
"""
GLOBAL = """
from numba import njit
@njit
def f(x):
    return x + K
"""


def why(capsys, store, name="case:f"):
    assert main(["why", "--dir", store, name]) == 0
    return capsys.readouterr().out


def run(module, source, arg=1, **names):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module("case", source, **names).f(arg)


Point, Tniop = namedtuple("Point", "x y"), namedtuple("Point", "y x")


Red, AlsoRed = enum.IntEnum("Red", {"A": 1}), enum.IntEnum("Red", {"A": 2})

VALUES = {
    "int": (3, 4, "global `K`: 3 → 4"),
    "type of an equal number": (1, 1.0, "global `K`: 1 → 1.0"),
    "bool": (1, True, "global `K`: 1 → True"),
    "numpy scalar": (np.float32(1), np.float64(1), "global `K`: np.float32(1.0) → np.float64(1.0)"),
    "array content": (np.arange(3), np.arange(3) + 1, "global `K`"),
    "array dtype": (np.zeros(3, "i8"), np.zeros(3, "f8"), "global `K`"),
}


@pytest.mark.parametrize(("old", "new", "line"), VALUES.values(), ids=VALUES)
def test_a_global(store, module, capsys, old, new, line):
    run(module, GLOBAL, K=old)
    run(module, GLOBAL, K=new)
    assert line in why(capsys, store)


ITEM = GLOBAL.replace("x + K", "x + K[0]")
ENUM = GLOBAL.replace("x + K", "x + K.A")
FIELD = GLOBAL.replace("x + K", "x + K.x")
CONTAINERS = {
    "tuple": (ITEM, (1, 2), (2, 2), "global `K`: (1, 2) → (2, 2)"),
    "nested tuple": (
        ITEM.replace("K[0]", "K[0][0]"),
        ((1, 2), 3),
        ((2, 2), 3),
        "global `K`: ((1, 2), 3) → ((2, 2), 3)",
    ),
    "enum": (ENUM, Red, AlsoRed, "A: 1 → 2"),
    "namedtuple fields": (FIELD, Point(1, 2), Tniop(1, 2), "'Point', ('y', 'x')"),
    "string": (GLOBAL.replace("x + K", "len(K) + x"), "ab", "abc", "global `K`: 'ab' → 'abc'"),
}


@pytest.mark.parametrize(("source", "old", "new", "line"), CONTAINERS.values(), ids=CONTAINERS)
def test_a_global_container(store, module, capsys, source, old, new, line):
    run(module, source, K=old)
    run(module, source, K=new)
    assert line in why(capsys, store)


def test_an_attribute_of_a_module(store, module, capsys):
    source = "import outer\n" + GLOBAL.replace("K", "outer.inner.K")
    inner = module("outer.inner", "K = 3")
    module("outer", "", inner=inner)
    run(module, source)
    inner.K = 4
    run(module, source)
    assert "global `outer.inner.K`: 3 → 4" in why(capsys, store)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (PLAIN, PLAIN.replace("+ 1", "+ 2"), "code"),
        (PLAIN, PLAIN.replace("(x)", "(x, y=1)", 1), "code"),
        (PLAIN.replace("(x)", "(x, y=1)", 1), PLAIN.replace("(x)", "(x, y=2)", 1), "default `y`: 1 → 2"),
        (PLAIN, PLAIN.replace("@njit", "@njit(fastmath=True)"), "option `fastmath`: no → fast"),
        (PLAIN, PLAIN.replace("@njit", "@njit(boundscheck=True)"), "option `boundscheck`: False → True"),
        (PLAIN, PLAIN.replace("@njit", "@njit(error_model='numpy')"), "option `error_model`: python → numpy"),
        (PLAIN, PLAIN.replace("@njit", "@njit(nogil=True)"), "option `release_gil`: False → True"),
        (PLAIN, PLAIN.replace("@njit", "@njit(locals={'x': numba.int32})").replace("import njit", "import njit; import numba"),
         "locals x"),
    ],
    ids=["code", "parameters", "default", "fastmath", "boundscheck", "error_model", "nogil", "locals"],
)  # fmt: skip
def test_the_function_itself(store, module, capsys, old, new, line):
    run(module, old)
    run(module, new)
    assert line in why(capsys, store)


def test_the_signature(store, module, capsys):
    run(module, PLAIN, 1)
    run(module, PLAIN, 1.0)
    assert "signature: (int64) → (float64)" in why(capsys, store)


def test_a_closure(store, module, capsys):
    source = """
from numba import njit
def make(k):
    @njit
    def f(x):
        return x + k
    return f
f = make(K)
"""
    run(module, source, K=3)
    run(module, source, K=4)
    assert "closure `k`: 3 → 4" in why(capsys, store, "case:make.<locals>.f")


def test_a_callee(store, module, capsys):
    source = PLAIN.replace("def f", "def g") + "@njit\ndef f(x):\n    return g(x)\n"
    run(module, source)
    run(module, source.replace("+ 1", "+ 2"))
    text = why(capsys, store)
    assert "code" in text and "case:g" in text


def test_a_setting(store, module, capsys, monkeypatch):
    run(module, PLAIN)
    monkeypatch.setattr(config, "BOUNDSCHECK", 1)
    run(module, PLAIN)
    assert "setting `NUMBA_BOUNDSCHECK`: None → 1" in why(capsys, store)


@pytest.mark.parametrize(
    ("owner", "name", "value", "line"),
    [
        (numba, "__version__", "0.99.0", "toolchain `numba`"),
        (np, "__version__", "9.9.9", "toolchain `numpy`: "),
    ],
)
def test_the_toolchain(store, module, capsys, monkeypatch, owner, name, value, line):
    run(module, PLAIN)
    monkeypatch.setattr(owner, name, value)
    activation._active.maker.conditions._settings = None
    run(module, PLAIN)
    assert line in why(capsys, store)


def test_the_target(store, module, capsys, monkeypatch):
    run(module, PLAIN)
    monkeypatch.setattr("nbcache.glue.keys.conditions.target_components", lambda: [("target/cpu", "pentium")])
    activation._active.maker.conditions._settings = None
    run(module, PLAIN)
    assert "target `cpu`" in why(capsys, store)


def test_an_overload(store, module, capsys):
    source = """
from numba import njit
from numba.extending import overload
def helper(x):
    return x
@overload(helper)
def ol_helper(x):
    return lambda x: x + 1
@njit
def f(x):
    return helper(x)
"""
    run(module, source)
    run(module, source.replace("x + 1", "x + 2"))
    text = why(capsys, store)
    assert "code" in text and "ol_helper" in text


EXTENDED = """
from numba import njit
from numba.core.rewrites import Rewrite, register_rewrite

def make():
    @njit
    def f(x):
        return len((x, 2))
    return f

assert make()(1) == 2

@register_rewrite("before-inference")
class Nothing(Rewrite):
    pass

assert make()(1) == 2
"""


def test_an_extension_of_the_toolchain(tmp_path, capsys):
    # In a process of its own, where it is the last thing that happens: it concerns all that is compiled afterwards.
    (tmp_path / "case.py").write_text(EXTENDED)
    outcome = proc.run(["-c", "import case"], tmp_path / "store", cwd=tmp_path)
    assert outcome.status == 0, outcome.stderr
    text = why(capsys, str(tmp_path / "store"), "case:make.<locals>.f")
    assert "rewrite before-inference Nothing" in text


def test_a_dufunc(store, module, capsys):
    source = """
from numba import njit, vectorize
@vectorize
def u(x):
    return x + 1
@njit
def f(x):
    return u(x)
"""
    run(module, source)
    run(module, source.replace("x + 1", "x + 2"))
    text = why(capsys, store)
    assert "case:u" in text


def test_an_environment_variable_that_a_chooser_reads(store, module, capsys, monkeypatch):
    source = """
import os
from numba import njit
from numba.extending import overload
def helper(x):
    return x
@overload(helper)
def ol_helper(x):
    if os.environ.get("NBTEST_FLAG") == "on":
        return lambda x: x + 1
    return lambda x: x + 2
@njit
def f(x):
    return helper(x)
"""
    assert module("case", source).f(1) == 3
    monkeypatch.setenv("NBTEST_FLAG", "on")
    assert module("case", source).f(1) == 2
    assert "chosen by ol_helper: code case:ol_helper.<locals>.<lambda>: changed" in why(capsys, store)


def test_the_number_of_threads_where_it_is_compiled_in(store, module, monkeypatch):
    source = """
import numba
from numba import njit
@njit
def f(x):
    numba.set_num_threads(x)
    return x
"""
    digest = activation._active.maker.engine.digest
    before = digest(module("case", source).f)
    monkeypatch.setattr("numba.np.ufunc.parallel.NUM_THREADS", 1000)
    assert digest(module("case", source).f) != before


KINDS = """
from numba import njit, types
from numba.extending import intrinsic

class Missing(Exception):
    pass

class Unit:
    pass

def helper():
    return K

@intrinsic
def lowered(context, x):
    return x(x), lambda context, builder, signature, args: context.get_constant(x, helper())

@njit
def called(x):
    with objmode():
        Unit()
    return x + 1

@njit
def f(x):
    if x < 0:
        raise Missing
    return lowered(called(x))
"""


def test_each_edge_says_whether_it_is_compiled_run_while_compiling_or_referred_to(store, module, capsys):
    run(module, KINDS.replace("njit,", "njit, objmode,"), K=3)
    main(["ls", "--dir", str(store), "--json", "case:f"])
    (entry,) = [each for each in json.loads(capsys.readouterr().out) if each["function"] == "case:f"]
    assert main(["show", "--dir", str(store), entry["key"]]) == 0
    shown = dict(line.strip().split("  ", 1) for line in capsys.readouterr().out.splitlines() if "  " in line.strip())
    assert shown["nbcache"].strip() == json.dumps(nbcache.__version__)
    words = {label.rpartition(" ")[2]: text.strip() for label, text in shown.items() if "global" in label}
    assert words["called"] == "CPUDispatcher case:called"
    assert words["helper"] == "function case:helper (run while compiling)"
    assert words["Unit"].startswith("reference to case:Unit")


TWO_GLOBALS = GLOBAL.replace("K", "A[0] + B[0]")


def test_what_no_words_tell_is_named_by_the_part_of_the_key(store, module, capsys):
    one, other = np.arange(3), np.arange(3)
    run(module, TWO_GLOBALS, A=one, B=one)
    run(module, TWO_GLOBALS, A=one, B=other)
    said = why(capsys, store)
    assert "which of two that are alike is meant: changed" in said
    assert "all that it reaches" not in said
