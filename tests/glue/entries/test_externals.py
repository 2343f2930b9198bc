"""Symbols that compiled code expects from elsewhere."""

from __future__ import annotations

import llvmlite.binding as llvm
from numba.np.ufunc import parallel

from nbcache.glue.entries import externals
from nbcache.published import runtime


def test_both_ways_of_loading_know_the_symbols_of_the_threading_layer():
    # A hit doesn't import what loads published functions, so each has its own list.
    assert externals._THREADING_SYMBOLS == runtime.THREADING
    parallel._launch_threads()
    assert [name for name in sorted(runtime.THREADING) if not llvm.address_of_symbol(name)] == []
