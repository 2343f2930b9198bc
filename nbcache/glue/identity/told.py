"""What Numba and LLVM are told by a call, decides what is compiled, and can't be read anywhere afterwards.

What is told before anybody listens isn't heard: before Numba's import, or before `nbcache.enable` if that comes later.
"""

from __future__ import annotations

import functools
from typing import Any

from llvmlite.binding import ffi
from numba.core.typeconv.castgraph import TypeGraph
from numba.core.typing.asnumbatype import AsNumbaTypeRegistry, as_numba_type

options: list[tuple[bytes, ...]] = []
"""LLVM's command line, as ``llvmlite.binding.set_option`` extends it."""
conversions: list[tuple[Any, Any, str]] = []
"""From which type to which one Numba may convert arguments, and how: promote, safe or unsafe."""

own_annotations: dict[Any, Any] = {}
"""The types that Numba itself has classes stand for."""

_COMMAND_LINE = "LLVMPY_SetCommandLine"


def listen(*, just_imported: bool = False) -> None:
    """Note from now on what is told.  Doing it again does nothing.

    *just_imported*: nobody but Numba itself can have told anything yet.
    """
    # Under the function, which anybody may have imported by name: llvmlite looks this up for each call.
    command_line = getattr(ffi.lib, _COMMAND_LINE)
    if not isinstance(command_line, _CommandLine):
        ffi.lib._fntab[_COMMAND_LINE] = _CommandLine(command_line._lock, command_line._cfn)
        TypeGraph.insert_rule = _heard(TypeGraph.insert_rule)
        # Making another registry takes as long as a tenth of a hit.
        own_annotations.update((as_numba_type if just_imported else AsNumbaTypeRegistry()).lookup)


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
