"""What Numba has kept from an earlier compilation, a later one doesn't ask for: it depends on what that one asked."""

import pytest

FAILED = """
from numba import types
from numba.extending import overload

def inner(x):
    pass

def outer(x):
    pass

@overload(inner)
def choose_inner(x):
    if isinstance(x, KIND):
        return lambda x: x * 2

@njit
def through(x):
    return inner(x)

@overload(outer)
def choose_first(x):
    return lambda x: through(x)

@overload(outer)
def choose_second(x):
    return lambda x: 99

@njit
def f(x):
    return outer(x)

@njit
def g(x):
    return outer(x) + 1
"""


def test_what_numba_knows_to_fail_depends_on_what_made_it_fail(run):
    """Whoever calls it next is told at once, and another implementation is taken."""
    alone, both = "print(g(7), nbcache.stats()['builds_count'])\n", "print(f(7), g(7))\n"
    source = FAILED.replace("KIND", "types.Float")
    assert run(source + both) == ("99 100\n", "")
    assert run(source + alone) == ("100 0\n", "")
    assert run(FAILED.replace("KIND", "types.Number") + alone)[0].split()[0] == "15"


HELPER = """
import warnings
from numba import types, vectorize
from numba.core.typing.asnumbatype import as_numba_type
from numba.experimental import structref
from numba.extending import lower_builtin, overload, overload_attribute, type_callable

warnings.simplefilter("ignore")

def helper(x):
    pass

@overload(helper)
def choose(x):
    return lambda x: x + ADDED
"""
AT = """
@vectorize
def total(x, y):
    return helper(x) + y

@njit
def f(x):
    array = np.arange(x)
    total.at(array, np.array([1, 2]), 5)
    return array[2]

@njit
def g(x):
    array = np.arange(x)
    total.at(array, np.array([1, 2]), 5)
    return array[2] * 100
"""
HAS = """
@structref.register
class Kind(types.StructRef):
    pass

class Value(structref.StructRefProxy):
    def __new__(cls, x):
        return structref.StructRefProxy.__new__(cls, x)

structref.define_proxy(Value, Kind, ["x"])
if ADDED == 2:
    overload_attribute(Kind, "more")(lambda self: lambda self: 55)

@njit
def f(x):
    return getattr(Value(x), "more", 11)

@njit(error_model="numpy")
def g(x):
    return getattr(Value(x), "more", 11)
"""
IS = """
if ADDED == 2:
    as_numba_type.register(int, types.float64)

@njit
def f(x):
    return 1 if isinstance(x, int) else 2

@njit
def g(x):
    return 10 if isinstance(x, int) else 20
"""


@pytest.mark.parametrize(
    ("program", "before", "after"), [(AT, "800", "900"), (HAS, "11", "55"), (IS, "10", "20")], ids=["at", "has", "is"]
)
def test_what_numbas_own_code_asks_once_counts_for_whoever_comes_later(run, program, before, after):
    """`ufunc.at` is given the loop that there is; `getattr` and `isinstance` are answered as before."""
    alone = "print(g(7), nbcache.stats()['builds_count'])\n"
    assert run("ADDED = 1\n" + HELPER + program + "f(7), print(g(7))\n") == (f"{before}\n", "")
    assert run("ADDED = 1\n" + HELPER + program + alone) == (f"{before} 0\n", "")
    assert run("ADDED = 2\n" + HELPER + program + alone)[0].split()[0] == after


LATE = """
@njit
def through(x):
    return helper(x)

def lowered(x):
    pass

@type_callable(lowered)
def type_lowered(context):
    return lambda x: types.int64

@lower_builtin(lowered, types.Integer)
def lower(context, builder, sig, args):
    return context.compile_internal(builder, lambda x: through(x), sig, args)

@vectorize
def loop(x):
    return helper(x)

@vectorize(["int64(int64)"])
def eager_loop(x):
    return helper(x)

f, g = njit(lambda x: USED(x)), njit(lambda x: USED(x) * 100)
nbcache.disable()
f(7)
nbcache.enable(STORE)
print(g(7))
"""


@pytest.mark.parametrize("used", ["lowered", "loop", "eager_loop"])
def test_what_was_kept_while_the_cache_was_off_is_used_by_no_entry(run, tmp_path, used):
    """Nobody knows what was asked for then."""
    program = (
        "nbcache.disable()\n" + HELPER + LATE.replace("USED", used).replace("STORE", repr(str(tmp_path / "store")))
    )
    assert run("ADDED = 1\n" + program) == ("800\n", "")
    assert run("ADDED = 2\n" + program) == ("900\n", "")


SUBROUTINE = """
import numpy

nbcache.disable()
njit(lambda a: a + a)(numpy.arange(3))
nbcache.enable(STORE)
njit(lambda a: (a + a) * 2)(numpy.arange(3))
print(nbcache.stats()["uncacheable"], nbcache.stats()["builds_count"])
"""


def test_a_subroutine_of_numbas_that_was_kept_while_the_cache_was_off_is_compiled_once_more(run, tmp_path):
    """What it asked for is noted then, and the function that uses it is found."""
    program = SUBROUTINE.replace("STORE", repr(str(tmp_path / "store")))
    assert run(program)[0].split()[0] == "{}"
    assert run(program) == ("{} 0\n", "")


WARNED = """
import warnings
from numba import typed, types

def looked_up(kind):
    return lambda key: key in typed.Dict.empty(kind, types.int8)

nbcache.disable()
njit(looked_up(types.int32))(1)
nbcache.enable(STORE)
with warnings.catch_warnings(record=True) as given:
    warnings.simplefilter("always")
    for kind in types.int32, types.int16, types.int16:
        njit(looked_up(kind))(1)
print([str(each.message).split()[5] for each in given])
"""


def test_what_numba_kept_while_the_cache_was_off_warns_of_nothing_again(run, tmp_path):
    """It is asked once more, since nobody noted what it asked for; the program was told before."""
    program = WARNED.replace("STORE", repr(str(tmp_path / "store")))
    for _ in range(2):
        output, errors = run(program)
        assert output == "['int16.']\n"
        assert errors.count("unsafe cast from int64 to int32") == 1
