"""Symbols that must exist in the process before an object is loaded."""

from __future__ import annotations

import importlib
from typing import Any

import llvmlite.binding as llvm
from numba.core import config
from numba.core.runtime import _nrt_python, rtsys

from nbcache.glue.capture.compilations import build_in
from nbcache.glue.entries.verdicts import Unloadable

addresses: dict[str, str] = {}


def note_address(address: int, what: str) -> None:
    """Remember what an address stands for, under the name that Numba gives its global variable."""
    addresses[f"numba.dynamic.globals.{address:x}"] = what


# -- symbols that must exist before an object is loaded ------------------------------------------

_present: set[str] = set()
_THREADING_SYMBOLS = frozenset({
    "numba_parallel_for", "do_scheduling_signed", "do_scheduling_unsigned", "allocate_sched", "deallocate_sched",
    "get_num_threads", "set_num_threads", "get_thread_id",
    "set_parallel_chunksize", "get_parallel_chunksize", "get_sched_size",
})  # fmt: skip
"""Those of the threading layer: it is chosen and started when code that needs it is compiled or loaded.

Numba says so in ``reload_init``, but for callers of such code not before 0.63.
"""


def provide(names: tuple[str, ...], target_context: Any) -> None:
    """See that every external symbol resolves: MCJIT ends the process over one that doesn't."""
    if config.NRT_STATS and not rtsys._init:
        _nrt_python.memsys_enable_stats()  # as its initialisation does, which compiling begins with
    if not _THREADING_SYMBOLS.isdisjoint(names):
        from nbcache.glue import threads

        try:
            threads.launch()
        except LookupError as error:
            raise Unloadable(str(error)) from error
    missing = _missing(names)
    if missing:
        _add_runtime_symbols(missing)
        missing = _missing(names)
    if any(name.startswith("_numba_hashsecret_") for name in missing):
        importlib.import_module("numba.cpython.hashing")  # defines them when it is imported
        missing = _missing(names)
    if missing:
        # Whatever else registers symbols does so while Numba's registries are initialised.
        target_context.refresh()
        missing = _missing(names)
    if missing:
        # Code may call by its symbol what another library defines, as numbox's proxies do; one that names a build means
        # the same in every process.
        engine = target_context.codegen()._engine
        missing = [
            name
            for name in missing
            if not (build_in(name) and engine.is_symbol_defined(name) and engine.get_global_value_address(name))
        ]
    if missing:
        raise Unloadable(f"the symbol {missing[0]} does not exist in this process")


def _missing(names: tuple[str, ...]) -> list[str]:
    missing = []
    for name in names:
        if name in _present:
            continue
        if llvm.address_of_symbol(name):
            _present.add(name)
        else:
            missing.append(name)
    return missing


def _add_runtime_symbols(names: list[str]) -> None:
    """The part of the NRT's initialisation that compiles nothing (see ``_Runtime.initialize``), for these symbols."""
    if rtsys._init:
        return
    for name, address in _nrt_python.c_helpers.items():
        symbol = name if name.startswith("_") else f"NRT_{name}"
        if symbol in names:
            llvm.add_symbol(symbol, address)
