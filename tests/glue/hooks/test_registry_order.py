"""What others register after the first call stands after all of Numba's own, whether that call was a hit or not."""

import textwrap

import pytest
from nbtest import proc

FIRST = """
import numpy as np
from numba import njit
from numba.core import types
from numba.extending import {names}
@njit
def f(x):
    return x + 1
f(1)
"""
ROLL = """
@overload(np.roll)
def mine(a, n):
    return lambda a, n: a * 0 - 42
"""
UPPER = """
@overload_method(types.UnicodeType, "{attribute}")
def own(text):
    return lambda text: text + "!"
"""
SIZE = """
@overload_attribute(types.Array, "itemsize")
def own(array):
    return lambda array: 42
"""
LOWERED = """
@lower_builtin(max, types.intp, types.intp)
def own(context, builder, sig, args):
    return context.get_constant(types.intp, 42)
"""
USE = """
@njit
def g(a):
    return {expression}
print(g({argument}))
"""
REWRITE = """
from numba.core.rewrites import Rewrite, register_rewrite, rewrite_registry
@register_rewrite("after-inference")
class Own(Rewrite):
    def match(self, *what):
        return False
"""


@pytest.fixture
def run(tmp_path):
    """Runs a program over the store, or over none."""

    def run(program, *arguments, store=True):
        (tmp_path / "main.py").write_text(program)
        outcome = proc.run([tmp_path / "main.py", *arguments], tmp_path / "store" if store else None, {}, cwd=tmp_path)
        assert outcome.stderr == ""
        return outcome.stdout

    return run


def program(registered, expression, argument="np.arange(4.0)", names="overload"):
    return FIRST.format(names=names) + registered + USE.format(expression=expression, argument=argument)


def test_an_overload_after_a_hit_is_asked_after_numbas_own(run):
    run(FIRST.format(names="overload"))
    main = program(ROLL, "np.roll(a, 1)")
    plain = run(main, store=False)
    assert plain == "[3. 0. 1. 2.]\n"
    assert run(main) == run(main) == plain


def test_an_overload_before_the_first_call_is_asked_before_those_that_numba_loads_late(run):
    """As in plain Numba."""
    run(FIRST.format(names="overload"))
    first, _, last = FIRST.format(names="overload").partition("@njit")
    main = first + ROLL + "@njit" + last + USE.format(expression="np.roll(a, 1)", argument="np.arange(4.0)")
    plain = run(main, store=False)
    assert plain == "[-42. -42. -42. -42.]\n"
    assert run(main) == run(main) == plain


def test_what_numba_has_nothing_for_is_taken(run):
    run(FIRST.format(names="overload"))
    more = "def thing(a):\n    return a\n" + ROLL.replace("np.roll", "thing").replace("a, n", "a")
    main = program(more, "thing(a)")
    assert run(main) == run(main) == run(main, store=False) == "[-42. -42. -42. -42.]\n"


@pytest.mark.parametrize("attribute", ["upper", "mine"])
def test_methods_after_a_hit_are_those_of_plain_numba(run, attribute):
    names = "overload_method"
    run(FIRST.format(names=names))
    main = program(UPPER.format(attribute=attribute), f"a.{attribute}()", "'a'", names)
    plain = run(main, store=False)
    assert run(main) == run(main) == plain == "a!\n"


def before_or_after(registered, expression, argument, names):
    """A program that registers something before its first call if it has an argument, or else after it."""
    first, _, last = FIRST.format(names=names).partition("@njit")
    own = "def register():\n" + textwrap.indent(registered, "    ")
    head = f"import sys\n{first}{own}if sys.argv[1:]:\n    register()\n"
    tail = "if not sys.argv[1:]:\n    register()\n" + USE.format(expression=expression, argument=argument)
    return f"{head}@njit{last}{tail}"


@pytest.mark.parametrize(
    ("registered", "expression", "argument", "names"),
    [
        (ROLL, "np.roll(a, 1)", "np.arange(4.0)", "overload"),
        (UPPER.format(attribute="upper"), "a.upper()", "'a'", "overload_method"),
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in (
                (SIZE, "a.itemsize", "np.arange(4.0)", "overload_attribute"),
                (LOWERED, "max(a, 3)", "1", "lower_builtin"),
            )
        ),
    ],
)
def test_before_the_first_call_is_another_state_than_after_it(run, registered, expression, argument, names):
    main = before_or_after(registered, expression, argument, names)
    plain = [run(main, *how, store=False) for how in ((), ("before",))]
    assert [run(main, *how) for _ in range(2) for how in ((), ("before",))] == plain * 2


def test_rewrites_after_a_hit_come_after_numbas_own(run):
    main = program(REWRITE, "a + 1")
    main += 'print([each.__name__ for each in rewrite_registry.rewrites["after-inference"]])\n'
    run(FIRST.format(names="overload"))
    plain = run(main, store=False)
    assert plain.endswith(", 'Own']\n")
    assert run(main) == plain


SECOND = """
@lower_builtin(abs, types.Float)
def own(context, builder, sig, args):
    return context.get_constant(sig.return_type, -42)
{first_call}
lower_builtin(round, types.Float)(own)
"""


def test_what_is_registered_for_two_things_is_late_for_one_of_them(run):
    """Numba takes the last of equal ones: its own for `abs`, which it loads after this, and this for `round`."""
    names = "lower_builtin"
    run(FIRST.format(names=names))
    head, _, first_call = FIRST.format(names=names).partition("@njit")
    main = head + SECOND.format(first_call="@njit" + first_call)
    main += USE.format(expression="abs(a), round(a)", argument="-3.0")
    assert run(main) == run(main) == run(main, store=False)
