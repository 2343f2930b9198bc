"""Symbols that compiled code expects from elsewhere."""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest
from numba.np.ufunc import parallel

from nbcache.glue.entries import externals
from nbcache.glue.entries.verdicts import Unloadable
from nbcache.published import runtime


def test_both_ways_of_loading_know_the_symbols_of_the_threading_layer():
    # A hit doesn't import what loads published functions, so each has its own list.
    assert externals._THREADING_SYMBOLS == runtime.THREADING
    parallel._launch_threads()
    assert [name for name in sorted(runtime.THREADING) if not llvm.address_of_symbol(name)] == []


def test_threads_that_can_not_be_launched_are_a_reason(monkeypatch):
    def refuse():
        msg = "No threading layer could be loaded."
        raise ValueError(msg)

    monkeypatch.setattr(parallel, "_launch_threads", refuse)
    with pytest.raises(Unloadable, match="can't be launched: ValueError"):
        externals.provide(("get_num_threads",), None)
