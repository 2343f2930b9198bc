"""At least forty kinds of functions, each with fifty random inputs: a node's results are Numba's, bit for bit.

A node can't import Numba or llvmlite. What calls leave behind (references, blocks of Numba's runtime) is no more than what
Numba itself leaves. The kinds are in the folder `kinds`.
"""

import functools
import importlib.util
import pickle
import sys
from pathlib import Path

import pytest
from nbtest import proc, published
from nbtest.published import accumulator, node

KINDS = Path(__file__).parent / "kinds"
sys.path.insert(0, str(KINDS))
from inputs import INPUTS, NEEDS_SCIPY, ROUNDS  # noqa: E402  a module beside the functions

HANDFUL = (
    "allocated",
    "raises_with_values",
    "named",
    "ufunc",
    "large_global",
    "strided_global",
    "strings",
    "laid_out_records",
)
ALL = tuple(name for name in INPUTS if name not in NEEDS_SCIPY or importlib.util.find_spec("scipy"))
WAYS = pytest.mark.parametrize("way", ["image", pytest.param("llvm", marks=pytest.mark.long)])

_MEASURE = """
import pickle, sys
from inputs import rounds
from outcomes import leaks, outcome
found = {}
for name in NAMES:
    function = getattr(FUNCTIONS, name)
    function = getattr(function, "ctypes", function) if name == "callback" else function
    results = [outcome(function, args) for args in rounds(name)]
    found[name] = results, leaks(function, rounds(name)[0])
with open(TARGET, "wb") as file:
    pickle.dump(found, file)
"""
_ACCUMULATE = """
import functions as FUNCTIONS
from numba.core.runtime import _nrt_python, rtsys
from inputs import rounds
for name in NAMES:
    if name != "callback":
        for args in rounds(name):
            try:
                getattr(FUNCTIONS, name)(*args)
            except Exception:
                pass
nbcache.publish("kinds", {name: getattr(FUNCTIONS, name) for name in NAMES})
_nrt_python.memsys_enable_stats()
"""
_LOAD = """
FUNCTIONS = nbcache.load("kinds")
import sys
sys.modules["numba.core.runtime._nrt_python"].memsys_enable_stats()
"""


def _measured(folder, names):
    """For each kind, what Numba makes of it, and what a node does: results, and what calls leave behind."""
    head = f"NAMES = {names!r}\nTARGET = {{target!r}}\n"
    extra = {"PYTHONHASHSEED": "1"}
    store, theirs, ours = folder / "store", folder / "numba", folder / "node"
    path = {"NBCACHE_LOG": "ERROR", **extra, **proc.SCIPY}
    accumulator(store, head.format(target=str(theirs)) + _ACCUMULATE + _MEASURE, KINDS, **path)
    node(store, head.format(target=str(ours)) + _LOAD + _MEASURE, KINDS, **path)
    return pickle.loads(theirs.read_bytes()), pickle.loads(ours.read_bytes())


@pytest.fixture(scope="session")
def measured(tmp_path_factory):
    """Measures some kinds, loaded in some way, once for all tests in whatever order."""

    @functools.cache
    def once(way, names):
        with pytest.MonkeyPatch.context() as patch:
            published.choose(way, patch, tmp_path_factory.mktemp("no-linker"))
            return _measured(tmp_path_factory.mktemp(way), list(names))

    return once


def _same(measured, name):
    (numba_results, numba_leaks), (results, left) = (each[name] for each in measured)
    assert len(results) == ROUNDS
    assert results == numba_results
    assert left[0] <= max(numba_leaks[0], 0)
    assert all(here <= max(there, 0) for here, there in zip(left[1], numba_leaks[1]))


@WAYS
@pytest.mark.parametrize("name", HANDFUL)
def test_a_node_computes_what_numba_does(measured, way, name):
    _same(measured(way, HANDFUL), name)


@pytest.mark.long
@WAYS
@pytest.mark.parametrize("name", ALL)
def test_every_kind_is_computed_as_numba_does(measured, way, name):
    _same(measured(way, ALL), name)


def test_there_are_forty_kinds():
    assert len(INPUTS) >= 40
