"""Modules count for what code reads off them, whoever reads it and whenever it is there."""

import importlib.util
import math
import sys
import types

import numba
import numpy as np
import pytest
from numba import njit

from nbcache.client import activation
from nbcache.glue.identity.node import Unidentifiable
from nbcache.glue.keys.key_maker import KeyMaker
from nbcache.glue.keys.units import unit_for


@pytest.fixture
def maker():
    return KeyMaker()


@pytest.fixture
def digest(maker):
    return maker.engine.digest


def function(source, name="f", **scope):
    scope = {"__name__": "case", "njit": njit, **scope}
    exec(compile(source, "case.py", "exec"), scope)
    return scope[name]


def plain(name="mod", **attributes):
    module = types.ModuleType(name)
    vars(module).update(attributes)
    return module


# -- attributes that appear when asked ----------------------------------------------------------


TUPLES = [(number, 2) for number in range(10)]


class Properties(types.ModuleType):
    number = 1

    @property
    def K(self):
        return self.number


class Answers(types.ModuleType):
    number = 1

    def __getattr__(self, name):
        if name != "K":
            raise AttributeError(name)
        return TUPLES[type(self).number]


def pep_562(number):
    module = plain("lazy", asked=[])

    def answer(name):
        module.asked.append(name)
        if name != "K":
            raise AttributeError(name)
        return value

    value = (number, "x")
    vars(module)["__getattr__"] = answer
    return module


def properties(number):
    module = Properties("lazy")
    Properties.number = number
    return module


def answers(number):
    module = Answers("lazy")
    Answers.number = number
    return module


def changed_class(number):
    module = types.ModuleType("lazy")
    vars(module)["K"] = 0
    module.__class__ = Properties
    Properties.number = number
    return module


READERS = {
    "attribute": "@njit\ndef f(): return lazy.K",
    "inside": "@njit\ndef f(): return pkg.lazy.K",
    "alias": "@njit\ndef f():\n    m = lazy\n    return m.K",
    "nested": "@njit\ndef f():\n    def g(): return lazy.K\n    return g()",
    "closure": "def make(m):\n    @njit\n    def f(): return m.K\n    return f\nf = make(lazy)",
    "import": "@njit\ndef f():\n    import lazy as m\n    return m.K",
    "from import": "@njit\ndef f():\n    from lazy import K\n    return K",
}


@pytest.mark.parametrize("make", [pep_562, properties, answers, changed_class])
@pytest.mark.parametrize("reader", READERS)
def test_what_a_module_answers_counts(digest, monkeypatch, make, reader):
    def read(number):
        lazy = make(number)
        monkeypatch.setitem(sys.modules, "lazy", lazy)
        return digest(function(READERS[reader], lazy=lazy, pkg=plain("pkg", lazy=lazy)))

    assert read(1) == read(1)
    assert read(1) != read(2)


@pytest.mark.parametrize("make", [pep_562, properties, answers])
def test_another_answer_is_noticed(digest, make):
    module = make(1)
    f = function(READERS["attribute"], lazy=module)
    first = digest(f)
    assert digest(f) == first
    if make is pep_562:
        vars(module)["__getattr__"] = lambda name: (3, "x")
    else:
        type(module).number = 3
    assert digest(f) != first


def test_a_module_is_asked_for_what_is_read_off_it_and_nothing_else(digest):
    module = pep_562(1)
    digest(
        function(
            "@njit\ndef f(x):\n    return lazy.K, x.heavy, other.deprecated, getattr(x, 'slow')",
            lazy=module,
            other=math,
        )
    )
    assert set(module.asked) == {"K"}


def test_a_module_that_learns_to_answer(digest):
    module = plain("lazy")
    f = function(READERS["attribute"], lazy=module)
    first = digest(f)
    vars(module)["__getattr__"] = lambda name: 7
    second = digest(f)
    assert second != first
    vars(module)["__getattr__"] = lambda name: 8
    assert digest(f) != second
    module.K = 9
    assert len({first, second, digest(f)}) == 3


def test_a_module_that_gets_another_class(digest):
    module = plain("lazy", K=1)
    f = function(READERS["attribute"], lazy=module)
    first = digest(f)
    module.__class__ = Properties
    Properties.number = 5
    assert digest(f) != first


@pytest.mark.parametrize("make", [pep_562, properties])
def test_a_module_that_answers_is_not_handed_on(digest, make):
    source = "@njit\ndef g(m): return m.K\n@njit\ndef f(): return g(lazy)"
    with pytest.raises(Unidentifiable, match="the module lazy, which computes its attributes, is passed as a value"):
        digest(function(source, lazy=make(1)))


def test_the_variable_that_leads_to_what_nobody_can_describe_is_named(digest):
    class Session:
        def __init__(self):
            self.steps, self.pending = [1], (step for step in [1])

        def __call__(self):
            """Numba may have a type for it."""

    source = "@njit\ndef g(x): return x\n@njit\ndef f(x): return g(x), SESSION, g(1)"
    with pytest.raises(Unidentifiable, match=r"generator.*, to which global `SESSION` of case:f leads$"):
        digest(function(source, SESSION=Session()))
    source = "def made(session):\n  @njit\n  def f(x): return session\n  return f\n@njit\ndef h(x): return f(x)\nf = made(SESSION)"
    with pytest.raises(Unidentifiable, match=r"generator.*, to which closure `session` of case:made.<locals>.f leads$"):
        digest(function(source, "h", SESSION=Session()))


def test_a_module_that_fails_when_asked(digest):
    def fail(name):
        raise OSError("no network")

    with pytest.raises(Unidentifiable, match="fails when asked for K"):
        digest(function(READERS["attribute"], lazy=plain("lazy", __getattr__=fail)))


def test_a_module_that_is_loaded_when_asked(digest, tmp_path, monkeypatch):
    def read(number):
        path = tmp_path / f"lazy{number}.py"
        path.write_text(f"K = {number}\n")
        spec = importlib.util.spec_from_file_location("lazy", path)
        loader = importlib.util.LazyLoader(spec.loader)
        spec.loader = loader
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "lazy", module)
        loader.exec_module(module)
        return digest(function(READERS["attribute"], lazy=module))

    assert read(1) != read(2)


def test_a_module_that_makes_what_it_answers_each_time_is_refused(digest):
    lazy = plain("lazy", __getattr__=lambda _name: float("2.5"))
    with pytest.raises(Unidentifiable, match="the module lazy gives something else each time that it is asked for K"):
        digest(function(READERS["attribute"], lazy=lazy))


def test_globals_that_answer_for_what_is_missing_are_refused(digest):
    class Scope(dict):
        def __missing__(self, name):
            return 1

    code = compile("def f(): return K + len(())", "case.py", "exec").co_consts[0]
    scope = Scope(__name__="case")
    with pytest.raises(Unidentifiable, match=r"the global variables of case:f, which are a .*Scope"):
        digest(njit(types.FunctionType(code, scope)))


def test_a_global_with_the_name_of_what_objects_have_is_watched_as_any_other(digest):
    f = function("@njit\ndef f(x): return isinstance(x, __class__)", __class__=dict)
    first = digest(f)
    f.py_func.__globals__["__class__"] = int
    assert digest(f) != first


def test_a_metaclass_counts_for_its_class(digest):
    def made(number):
        class Meta(type):
            K = number

            def __getattr__(cls, name):
                return type(cls).K

        class Cfg(metaclass=Meta):
            pass

        return function("@njit\ndef f(): return Cfg.L", Cfg=Cfg)

    assert digest(made(1)) == digest(made(1))
    assert digest(made(1)) != digest(made(2))


# -- names read by other code -------------------------------------------------------------------

ELSEWHERE = {
    "a function it is passed to": "@njit\ndef g(m): return m.K\n@njit\ndef f(): return g(mod)",
    "two functions further": "@njit\ndef h(m): return m.K\n@njit\ndef g(m): return h(m)\n@njit\ndef f(): return g(mod)",
    "a name in a global": "NAME = 'K'\n@njit\ndef f(): return getattr(mod, NAME)",
    "a name in a tuple": "NAMES = ('x', 'K')\n@njit\ndef f(): return getattr(mod, NAMES[1])",
    "a name in a default": "@njit\ndef f(name='K'): return getattr(mod, name)",
    "a name in another module": "@njit\ndef f(): return getattr(mod, other.NAME)",
    "below a package": "@njit\ndef g(m): return m.K\n@njit\ndef f(): return g(pkg.mod)",
    "below a package that is passed": "@njit\ndef g(m): return m.mod.K\n@njit\ndef f(): return g(pkg)",
    "an alias": "@njit\ndef g(m): return m.K\n@njit\ndef f():\n    p = pkg\n    return g(p.mod)",
    "a tuple": "MODS = (mod, 1)\n@njit\ndef g(m): return m.K\n@njit\ndef f(): return g(MODS[0])",
    "a default": "@njit\ndef g(m): return m.K\n@njit\ndef f(m=mod): return g(m)",
    "a closure": "def make(m):\n    @njit\n    def f(): return g(m)\n    return f\n@njit\ndef g(m): return m.K\nf = make(mod)",
    "a method": "class C:\n    def get(self, m): return m.K\n    def __call__(self): pass\nC = C()\n@njit\ndef f(): return C.get(mod)",
    "a ring": "@njit\ndef g(m, n): return f(n - 1) if n else m.K\n@njit\ndef f(n): return g(mod, n)",
}


@pytest.mark.parametrize("case", ELSEWHERE)
def test_what_other_code_reads_off_a_module_counts(digest, tmp_path, case):
    (tmp_path / "mod.py").write_text("")
    mod = plain(K=1, L=1, __file__=str(tmp_path / "mod.py"))
    scope = {"mod": mod, "pkg": plain("pkg", mod=mod), "other": plain("other", NAME="K")}
    f = function(ELSEWHERE[case], **scope)
    first = digest(f)
    assert digest(f) == first
    mod.K = 2
    second = digest(f)
    assert second != first
    mod.L = 5
    assert digest(f) == second
    mod.K = 1
    assert digest(f) == first
    del mod.K
    assert digest(f) != first


def test_what_is_found_off_a_module_that_is_handed_on_counts_with_what_it_reads(digest):
    source = "@njit\ndef g(m): return m.h(m)\n@njit\ndef f(): return g(mod)"
    mod = plain(K=1)
    mod.h = function("@njit\ndef h(m): return m.K", "h")
    f = function(source, mod=mod)
    first = digest(f)
    mod.K = 2
    assert digest(f) != first


def test_which_of_the_toolchains_modules_are_loaded_makes_no_difference_to_who_only_finds_them(digest, monkeypatch):
    importlib.import_module("numba.core.typing.collections")
    read = ("signature", "__name__", "K")
    source = f"@njit\ndef g(m): return {', '.join(f'm.typing.collections.{name}' for name in read)}"
    f = function(f"{source}\n@njit\ndef f(): return g(mod)", mod=plain(typing=numba.core.typing))
    first = digest(f)
    with monkeypatch.context() as patched:
        patched.delattr(numba.core.typing, "collections")
        assert digest(f) == first
    monkeypatch.setattr(numba.core.typing.collections, "K", 5, raising=False)
    assert digest(f) != first
    monkeypatch.undo()
    assert digest(f) == first
    monkeypatch.setattr(numba.core.typing.collections, "signature", numba.core.typing.templates.fold_arguments)
    assert digest(f) != first


def test_the_own_identity_of_a_callee_knows_nothing_of_its_callers_modules(digest):
    source = "@njit\ndef g(m): return m.K\n@njit\ndef f(): return g(mod)"
    one, two = function(source, "f", mod=plain(K=1)), function(source, "f", mod=plain(K=2))
    g = [f.py_func.__globals__["g"] for f in (one, two)]
    before = list(map(digest, g))
    assert digest(one) != digest(two)
    assert list(map(digest, g)) == before
    assert before[0] == before[1]


def test_asking_again_walks_nothing(digest, monkeypatch, maker):
    f = function(ELSEWHERE["two functions further"], mod=plain(K=1))
    first = digest(f)
    monkeypatch.setattr(maker.engine, "_walk", None)
    assert digest(f) == first


def test_a_module_as_an_argument_is_read_by_what_the_function_reads(store, module):
    source = "from numba import njit\n@njit\ndef f(m): return m.K\n"

    def key(number):
        mod = plain(K=number, __file__=__file__)
        f = module("case", source).f
        return unit_for(activation._active.maker, activation._active.frames, f, (numba.types.Module(mod),)).key

    assert key(1) != key(2)


# -- what is set on the toolchain's modules -----------------------------------------------------


@pytest.mark.parametrize(
    ("read", "values"),
    [
        (
            "np.CONST",
            [(1, 2), (1, 3), (1, (2, 3)), 1, True, np.arange(2), np.arange(3), np.float64, numba.float32, [1], [2]],
        ),
        ("math.CONST", [1, 1.0, "x", np.float32(1)]),
        ("np.linalg.CONST", [(1,), (2,)]),
        ("numba.config.CONST", [1, 2, "x"]),
        ("numba.core.config.CONST", [1, 2]),
        ("numba.core.types.CONST", [numba.float32, numba.float64]),
    ],
)
def test_values_set_on_toolchain_modules(digest, monkeypatch, read, values):
    modules = {"np": np, "math": math, "numba": numba}
    f = function(f"@njit\ndef f(): return {read}", **modules)
    owner = eval(read.rpartition(".")[0], modules)
    seen = []
    for value in values:
        monkeypatch.setattr(owner, "CONST", value, raising=False)
        seen.append(digest(f))
    assert len(set(seen)) == len(values)


def test_a_setting_of_numba_that_compiled_code_reads(digest, monkeypatch):
    f = function("@njit\ndef f(): return numba.config.NUMBA_NUM_THREADS", numba=numba)
    g = function("@njit\ndef f():\n    c = numba.config\n    return c.NUMBA_NUM_THREADS", numba=numba)
    h = function("@njit\ndef h(c): return c.NUMBA_NUM_THREADS\n@njit\ndef f(): return h(numba.config)", numba=numba)
    first = [digest(each) for each in (f, g, h)]
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 77)
    assert not set(first) & {digest(each) for each in (f, g, h)}


def test_what_the_toolchain_keeps_in_its_modules_is_no_concern():
    source = """
@njit
def f(x):
    return np.random.rand() + np.random.random() + random.random() + random.randint(1, 2) + x.path + x.modules + x.stdout + x.argv
"""
    import random

    digests = set()
    for name in ("one", "two"):
        sys.path.append(name)
        try:
            digests.add(KeyMaker().engine.digest(function(source, np=np, random=random, sys=sys)))
        finally:
            sys.path.remove(name)
        np.random.rand()
        random.random()
    assert len(digests) == 1


# -- numbers of which only one thing is asked ---------------------------------------------------


@pytest.mark.parametrize("body", ["1 if N else 2", "not N", "[1 for _ in () if not N]", "(lambda: 1 if N else 2)()"])
def test_a_number_that_is_only_tested_counts_as_zero_or_not_to_what_runs(digest, body):
    """A package may ask whether the address of a C function is there, which is another one in each process."""
    of = {n: function(f"def f():\n    return {body}", N=n) for n in (0, 1 << 46, 7)}
    ran = {n: digest([f]) for n, f in of.items()}  # in a list, as what runs
    assert ran[7] == ran[1 << 46] != ran[0]
    assert digest(njit(of[7])) != digest(njit(of[1 << 46]))


@pytest.mark.parametrize("body", ["N", "N or 1", "1 if N == 7 else N", "(N, not N)", "(lambda: N)() if N else 0"])
def test_a_number_that_is_read_in_any_other_way_counts_as_it_is(digest, body):
    source = f"def f():\n    return {body}"
    assert digest([function(source, N=7)]) != digest([function(source, N=8)])


def test_a_local_variable_hands_a_number_on(digest):
    source = "def f():\n    n = N\n    return locals() if N else 0"
    assert digest([function(source, N=7)]) != digest([function(source, N=8)])
