"""Who asks Numba after a hit, by hand or in an overload, is answered as after a compilation."""

import pytest
from nbtest import proc

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
