"""What a compilation warns of, a hit warns of as often as plain Numba would have at that point of the program."""

import pytest

PROGRAM = """
import warnings
from numba import njit, types, vectorize
from numba.extending import intrinsic, overload

def warning(text):
    @intrinsic
    def same(context, x):
        def code(context, builder, signature, args):
            warnings.warn(text)
            return args[0]
        return types.int64(x), code
    return same

of_callee, of_choice, of_loop, own = map(warning, ["callee", "choice", "loop", "own"])

def stub(x):
    pass

@overload(stub)
def choose(x):
    return lambda x: of_choice(x) + 5

@njit
def callee(x):
    return of_callee(x) + 1

@njit(parallel=True)
def parallel(x):
    return x + 2

@vectorize
def loop(x):
    return of_loop(x) + 3

@njit
def caller(x):
    return callee(x) * 2 + stub(x) + loop(x) + parallel(x) + own(x)

@njit
def second(x):
    return callee(x) + stub(x) * 3 + loop(x)

@njit
def outermost(x):
    return caller(x) + callee(x) + own(x)

by_letter = {"e": callee, "l": loop, "p": parallel, "r": caller, "s": second, "o": outermost}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for letter in ORDER:
        before = len(caught)
        by_letter[letter](3)
        said = sorted(str(each.message).split()[0] for each in caught[before:] if "nbcache" not in str(each.message))
        print(letter, said)
"""
BUILDS = "print(nbcache.stats()['builds_count'])\n"


def program(order):
    return PROGRAM.replace("ORDER", repr(order))


def plain(run, order):
    return run(program(order), NBCACHE_DISABLE="1")[0]


def test_callees_that_were_there_warn_where_they_are_not(run):
    """The caller's entry was made beside its callees, and none of these gave a warning for it then."""
    assert run(program("lepso"))[0] == plain(run, "lepso")
    for order in ("o", "re"):
        assert run(program(order) + BUILDS)[0] == plain(run, order) + "0\n"


def test_callees_that_were_compiled_with_their_caller_warn_once(run):
    """Who has called the callee before is told no second time, and who calls it afterwards neither."""
    assert run(program("o"))[0] == plain(run, "o")
    assert run(program("er") + BUILDS)[0] == plain(run, "er") + "0\n"
    assert run(program("lprs"))[0] == plain(run, "lprs")


@pytest.mark.long
@pytest.mark.parametrize("first", ["erosl", "o", "lpros", "s"])
def test_every_order_warns_as_without_a_cache(run, first):
    for order in (first, "e", "r", "s", "o", "er", "es", "so", "rs", "or", "erosl", "lpros"):
        assert run(program(order))[0] == plain(run, order), order
