"""What Numba and LLVM are told by a call, decides what is compiled, and can't be read anywhere afterwards.

`listen` has to come right after Numba's own import: what is told before that, or before `nbcache.enable`, isn't heard.
"""

from __future__ import annotations

import functools
from typing import Any

from llvmlite.binding import ffi
from numba.core.typeconv.castgraph import TypeGraph

options: list[tuple[bytes, ...]] = []
"""LLVM's command line, as ``llvmlite.binding.set_option`` extends it."""
conversions: list[tuple[Any, Any, str]] = []
"""From which type to which one Numba may convert arguments, and how: promote, safe or unsafe."""

_COMMAND_LINE = "LLVMPY_SetCommandLine"


def listen() -> None:
    """Note from now on what is told.  Doing it again does nothing."""
    # Under the function, which anybody may have imported by name: llvmlite looks this up for each call.
    command_line = getattr(ffi.lib, _COMMAND_LINE)
    if not isinstance(command_line, _CommandLine):
        ffi.lib._fntab[_COMMAND_LINE] = _CommandLine(command_line._lock, command_line._cfn)
        TypeGraph.insert_rule = _heard(TypeGraph.insert_rule)


class _CommandLine(ffi._lib_fn_wrapper):
    """llvmlite's handle on the function."""

    __slots__ = ()

    def __call__(self, *args: Any) -> Any:
        options.append(args)
        return super().__call__(*args)


def _heard(insert_rule: Any) -> Any:
    # What follows from a rule is told in the order of a set, which is another one in each process.
    @functools.wraps(insert_rule)
    def insert_and_note(self: Any, fromty: Any, toty: Any, relation: Any) -> Any:
        conversions.append((fromty, toty, repr(relation)))
        return insert_rule(self, fromty, toty, relation)

    return insert_and_note
