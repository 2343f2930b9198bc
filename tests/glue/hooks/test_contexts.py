"""Who asks Numba after a hit, by hand or in an overload, is answered as after a compilation."""

import pytest
from nbtest import proc, usage

HEAD = """
import math
import sys
import numpy as np
from numba import njit, types
from numba.core.registry import cpu_target
from numba.extending import overload
@njit
def f(x):
    return x + 1
"""
CHOOSER = """
def thing(x):
    return x
@overload(thing)
def choose(x):
    if cpu_target.typing_context.resolve_function_type(np.sum, (x,), {}) is None:
        return lambda x: -1.0
    return lambda x: np.sum(x)
@njit
def g(a):
    return thing(a)
if sys.argv[1:]:
    f(1)
print(g(np.arange(4.0)))
"""


@pytest.fixture
def run(tmp_path):
    """Runs a program over the store, or over none."""

    def run(program, *arguments, store=True):
        (tmp_path / "main.py").write_text(HEAD + program)
        outcome = proc.run([tmp_path / "main.py", *arguments], tmp_path / "store" if store else None, {}, cwd=tmp_path)
        assert outcome.stderr == ""
        return outcome.stdout

    return run


@pytest.mark.parametrize(
    "question",
    [
        "cpu_target.typing_context.resolve_function_type(np.sum, (types.float64[::1],), {})",
        "cpu_target.typing_context.resolve_value_type(math.sin)",
        "cpu_target.typing_context.resolve_getattr(types.float64[::1], 'T')",
        "cpu_target.target_context.get_value_type(types.unicode_type)",
    ],
)
def test_contexts_that_are_asked_by_hand(run, question):
    main = f"f(1)\nprint({question})\n"
    plain = run(main, store=False)
    assert "None" not in plain.partition(",")[0]
    assert run(main) == run(main) == plain


@pytest.mark.parametrize("arguments", [(), ("after a hit",)])
def test_an_overload_that_asks_them(run, arguments):
    assert [run(CHOOSER, *arguments) for _ in range(3)] == ["6.0\n"] * 3


@pytest.mark.parametrize("module", ["numba.np.npdatetime", "numba.np.npyfuncs", "numba.typed.typedlist"])
def test_a_module_of_numbas_that_is_imported_after_a_hit(run, module):
    """What it imports may ask its package for it, while it isn't there yet."""
    run("f(1)\n")
    assert run(f"f(1)\nimport {module}\n@njit\ndef g(a):\n    return +a\nprint(g(np.arange(3.0)))\n") == "[0. 1. 2.]\n"


def test_in_another_thread_than_the_one_that_imported_numba(run):
    question = "cpu_target.typing_context.resolve_function_type(np.sum, (types.float64[::1],), {})"
    main = f"import threading\nf(1)\nasking = threading.Thread(target=lambda: print({question}))\n"
    main += "asking.start()\nasking.join()\n"
    plain = run(main, store=False)
    assert plain != "None\n"
    assert run(main) == run(main) == plain


TUPLE = """
import warnings
warnings.simplefilter("ignore")
from numba.experimental import jitclass
@njit
def call(functions, x):
    return functions[0](x)
@jitclass
class Point:
    x: float
    def __init__(self, x):
        self.x = x
print(f(1), call((f, f), 1), Point(2.0).x, "numba.core.boxing" in sys.modules)
"""


def test_what_numba_asks_itself_to_call_something_needs_none_of_it(run):
    assert run(TUPLE) == "2 2 2.0 True\n"
    assert run(TUPLE) == "2 2 2.0 False\n"


INSTALLED = """
from numba.core.imputils import Registry
f(1)
registry = Registry("mine")
@registry.lower(len, types.Array)
def own(context, builder, sig, args):
    return context.get_constant(types.intp, 77)
cpu_target.target_context.install_registry(registry)
@njit
def g(a):
    return len(a), np.sum(a)
print(g(np.arange(4.0)))
"""


def test_a_registry_that_is_installed_after_a_hit(run):
    run("f(1)\n")
    plain = run(INSTALLED, store=False)
    assert plain == "(77, 6.0)\n"
    assert run(INSTALLED) == run(INSTALLED) == plain


ORDER = """
f(1)
{asked}
@njit
def g(a):
    return a[0]
g((1, 2))
import operator
from numba.core.typing.templates import builtin_registry
found = [template for value, typ in builtin_registry.globals if value is operator.getitem for template in typ.templates]
print([getattr(each, "_overload_func", each.__mro__[1]).__qualname__ for each in found])
"""
LATE = """
@overload(abs)
def late(x):
    if isinstance(x, types.UniTuple):
        return lambda x: x[0]
"""


@pytest.mark.parametrize("asked", ["", "cpu_target.typing_context.resolve_value_type(math.sin)", LATE])
def test_what_numba_has_registered_itself_comes_in_its_order(run, asked):
    run("f(1)\n")
    program = ORDER.format(asked=asked)
    plain = run(program, store=False)
    assert "GetItemSequence" in plain
    assert run(program) == plain


def test_what_types_is_read_first_whatever_is_asked_for_first(run):
    """What lowers is where a decorator is eager or says ``cache=True``: what is compiled would depend on which it was."""
    order = ORDER.format(asked="")
    plain = run(order, store=False)
    lowering_first = "cpu_target.target_context.refresh()\n" + order
    assert run(lowering_first, store=False) != plain
    assert run(lowering_first) == plain


FORKED = """
import os
import signal
import threading
import time
import warnings
warnings.simplefilter("ignore")  # Python 3.12 has one for each fork beside a thread
reached = threading.Event()
class Slow:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "numba.np.arraymath":
            reached.set()
            time.sleep(0.5)
sys.meta_path.insert(0, Slow)
f(1)
question = lambda: cpu_target.typing_context.resolve_value_type(math.sin)
asking = threading.Thread(target=question)
asking.start()
assert reached.wait(60)
child = os.fork()
if child == 0:
    signal.alarm(60)
    @njit
    def g(a):
        return np.roll(a, 1).sum()
    os._exit(int(g(np.arange(4.0))))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
asking.join()
"""


def test_a_fork_while_another_thread_loads_what_was_put_off(run):
    """The child would find half of it, and the lock of the module that is being imported."""
    run("f(1)\n")
    assert run(FORKED) == "6\n"


def test_an_overload_that_reads_what_filling_them_imports(run, tmp_path):
    """The first look-up of a process asks it twice: before they are filled, and as where the entry was made."""
    main = """
from numba.core import typing
def thing(x):
    return x
@overload(thing)
def choose(x):
    return (lambda x: x + 1) if typing.collections else None
@njit
def g(x):
    return thing(x)
print(g(1))
"""
    assert run(main) == "2\n"
    misses = usage.read(tmp_path / "store").misses
    assert run(main) == "2\n"
    assert usage.read(tmp_path / "store").misses == misses
