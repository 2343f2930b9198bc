"""What a decorator copies is what counts, whatever became of the original."""

from types import ModuleType

from numba import njit, stencil, vectorize

from nbcache.glue.keys.key_maker import KeyMaker


def module(source, **names):
    made = ModuleType("users_module")
    vars(made).update(names, njit=njit, stencil=stencil, vectorize=vectorize)
    exec(compile(source, "users_module.py", "exec"), vars(made))
    return made


def test_a_stencil_has_the_globals_of_its_decoration():
    source = "@stencil\ndef kernel(a): return a[0] * K\n@njit\ndef f(x): return kernel(x)\n"
    engine = KeyMaker().engine
    one, other = module(source, K=1), module(source, K=2)
    other.K = 1
    assert engine.digest(one.f) != engine.digest(other.f)
    assert engine.digest(one.f) == engine.digest(module(source, K=1).f)


def test_a_stencil_has_the_captured_variables_of_its_decoration():
    source = """
def make():
    k = START
    def change(value):
        nonlocal k
        k = value
    @stencil
    def kernel(a): return a[0] * k
    change(1)
    @njit
    def f(x): return kernel(x)
    return f
"""
    engine = KeyMaker().engine
    assert engine.digest(module(source, START=1).make()) != engine.digest(module(source, START=2).make())


def test_callers_get_the_defaults_of_the_decoration():
    source = "@njit\ndef g(x, y=START): return x + y\n@njit\ndef f(x): return g(x)\n"
    engine = KeyMaker().engine
    one, other = module(source, START=1), module(source, START=2)
    before = engine.digest(other.f)
    other.g.py_func.__defaults__ = one.g.py_func.__defaults__
    assert engine.digest(other.f) not in {engine.digest(one.f), before}


def test_a_ufunc_has_the_defaults_of_now_and_then():
    source = "@vectorize\ndef g(x, y): return x + y * K\n@njit\ndef f(x): return g(x, x)\n"
    engine = KeyMaker().engine
    one = module(source, K=1)
    before = engine.digest(one.f)
    one.K = 2
    assert engine.digest(one.f) != before
