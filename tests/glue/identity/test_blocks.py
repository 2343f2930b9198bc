"""Which variables of code are read in blocks of `with` alone, and what blocks of `objmode` need of them."""

import numba
import pytest
from numba import njit, objmode

from nbcache.glue.identity.blocks import blocks_of
from nbcache.glue.identity.node import Unidentifiable
from nbcache.glue.keys.key_maker import KeyMaker

IN, OUT, T = (each for each in ()), 1, "float64"


def plain(x):
    with objmode(y=T, z="int64"):
        y = IN(x) + sum([G for _ in H])  # noqa: F821
        z = OUT
    return y + OUT + z


def in_a_loop(x):
    for _ in range(3):
        with numba.objmode():
            try:
                G(x)  # noqa: F821
            except ValueError as e:
                H(e)  # noqa: F821
            finally:
                K()  # noqa: F821
        OUT(x)


def two(x):
    with objmode():
        G(x)  # noqa: F821
    with numba.parallel_chunksize(4):
        H(x)  # noqa: F821
    if x:
        with objmode():
            return H(lambda: K)  # noqa: F821
    return x


def closed_over():
    om, lock = objmode, IN

    def inner(x):
        with om(y=T):
            y = lock + G  # noqa: F821
        return y + x

    return inner


@pytest.mark.parametrize(
    ("function", "contexts", "inside"),
    [
        (plain, {"objmode"}, {"IN", "G", "H", "sum"}),
        (in_a_loop, {"numba.objmode"}, {"G", "H", "K", "ValueError"}),
        (two, {"objmode", "numba.parallel_chunksize"}, {"G", "H", "K"}),
        (closed_over(), {"om"}, {"lock", "G"}),
    ],
)
def test_what_only_blocks_read(function, contexts, inside):
    found = blocks_of(function.__code__)
    assert {".".join((name, *chain)) for (_kind, name), chain in found.contexts} == contexts
    assert {name for _kind, name in found.inside} == inside


def test_code_without_blocks_has_none():
    assert blocks_of((lambda x: OUT + x).__code__) is None


def identity(source, **names):
    names = {"__name__": "users_module", "objmode": objmode, "njit": njit, "numba": numba, **names}
    exec(source, names)
    return KeyMaker().engine.digest(njit(names["f"]))


BLOCK = """
def f(x):
    with objmode(y=T):
        y = THING.a + x
    return y
"""


def test_an_object_that_a_block_uses_is_only_referred_to():
    assert identity(BLOCK, T="int64", THING=IN) == identity(BLOCK, T="int64", THING=object())
    assert identity(BLOCK, T="int64", THING=IN) != identity(BLOCK, T="int32", THING=IN)
    assert identity(BLOCK, T="int64", THING=IN) != identity(BLOCK.replace("+ x", "- x"), T="int64", THING=IN)


def test_what_is_pickled_with_a_block_counts():
    assert identity(BLOCK, T="int64", THING=(1, 2)) != identity(BLOCK, T="int64", THING=(1, 3))
    assert identity(BLOCK, T="int64", THING=max) != identity(BLOCK, T="int64", THING=min)


@pytest.mark.parametrize(
    "source",
    [
        BLOCK.replace("return y", "return y + THING.b"),
        BLOCK.replace("objmode(y=T)", "numba.parallel_chunksize(T)"),
        BLOCK.replace("objmode(y=T)", "numba.objmode(y=THING)"),
        BLOCK + "\n\nf = (lambda g: lambda x: (g(x), THING))(njit(f))\n",
    ],
)
def test_what_is_read_elsewhere_as_well_counts(source):
    with pytest.raises(Unidentifiable):
        identity(source, T="int64", THING=IN)
