"""What decides what is compiled and can be read nowhere afterwards: whether somebody told Numba or LLVM something by a
call, past all registries, and which entries of the registries are Numba's own.

What is told before anybody listens isn't heard: before Numba's import, or before `nbcache.enable` if that comes later.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from itertools import chain
from operator import attrgetter
from typing import Any

from llvmlite.binding import ffi
from numba.core import imputils, pythonapi
from numba.core.base import BaseContext
from numba.core.datamodel import default_manager
from numba.core.registry import cpu_target
from numba.core.rewrites import rewrite_registry
from numba.core.typeconv.castgraph import TypeGraph
from numba.core.typeconv.typeconv import TypeCastingRules, TypeManager
from numba.core.typing import templates
from numba.core.typing.asnumbatype import AsNumbaTypeRegistry, as_numba_type
from numba.core.typing.context import BaseContext as TypingContext
from numba.core.typing.typeof import typeof_impl

from nbcache.glue.identity import numba_copies

told: list[str] = []
"""What it was, in words: with the first of it, all that is compiled is this process's own."""
conversions: list[tuple[Any, Any, str]] = []
"""From which type to which one Numba may convert arguments, and how."""
own_annotations: dict[Any, Any] = {}
"""The types that Numba itself has classes stand for."""
own_lengths: dict[tuple[int, str], int] = {}
"""How long each list of a registry, by the registry's id and the list's name, was when nobody else could have added
anything."""
_own: dict[str, dict[int, tuple[object, object]]] = {}
"""The same for `tables_by_class`: by the ids of classes, which are kept alive, each class and what was registered."""

LISTS_OF_TYPING = ("functions", "attributes", "globals")
LISTS_OF_LOWERING = ("functions", "getattrs", "setattrs", "casts", "constants")
"""What a registry of either kind has, each a list that only grows."""
_COMMAND_LINE = "LLVMPY_SetCommandLine"


def listen(*, just_imported: bool = False) -> None:
    """Note from now on what is told.  Doing it again does nothing.

    *just_imported*: nobody but Numba itself can have told anything yet.
    """
    # Under the function, which anybody may have imported by name: llvmlite looks this up for each call.
    command_line = getattr(ffi.lib, _COMMAND_LINE)
    if not isinstance(command_line, _CommandLine):
        ffi.lib._fntab[_COMMAND_LINE] = _CommandLine(command_line._lock, command_line._cfn)
        for owner, name, note in _PAST_REGISTRIES:
            setattr(owner, name, _noting(getattr(owner, name), note))
        # Making another registry takes as long as a tenth of a hit.
        own_annotations.update((as_numba_type if just_imported else AsNumbaTypeRegistry()).lookup)
        if just_imported:
            numba_copies.note_all()
            lists: list[tuple[Any, tuple[str, ...]]] = [(as_numba_type, ("functions",))]
            lists += [(each, LISTS_OF_TYPING) for each in _typing()]
            lists += [(each, LISTS_OF_LOWERING) for each in _lowering()]
            for registry, fields in lists:
                own_lengths.update(((id(registry), field), len(getattr(registry, field))) for field in fields)
            for kind, classes in rewrite_registry.rewrites.items():
                own_lengths[id(rewrite_registry), kind] = len(classes)
            for label, table in tables_by_class().items():
                _own[label] = {id(cls): (cls, registered) for cls, registered in table.items()}


def _converts(how: str) -> Callable[..., object]:
    return lambda fromty, toty, *by: conversions.append((fromty, toty, f"{how} {by}"))


def _tells(what: str) -> Callable[..., object]:
    return lambda *_what: told.append(what)


_RULES: Any = {
    TypeCastingRules: ("promote", "unsafe", "safe", "promote_unsafe", "safe_unsafe", "unsafe_unsafe"),
    TypeGraph: ("promote", "unsafe", "safe", "insert_rule"),
    TypeManager: ("set_compatible", "set_promote", "set_safe_convert", "set_unsafe_convert"),
}
"""Each of these calls one of the next class, down to what Numba looks at."""
_PAST_REGISTRIES: Any = (
    *((owner, name, _converts(name)) for owner, names in _RULES.items() for name in names),
    (TypingContext, "insert_user_function", _tells("how a function is typed")),
    (TypingContext, "insert_function", _tells("how a function is typed")),
    (BaseContext, "insert_func_defn", _tells("how a function is lowered")),
)
"""Methods by which Numba is told what no registry has."""


def tables_by_class() -> dict[str, Any]:
    """Numba's registries that hold one thing for each class."""
    return {
        "data model": default_manager._handlers,
        "boxing": pythonapi._boxers.functions,
        "unboxing": pythonapi._unboxers.functions,
        "reflection": pythonapi._reflectors.functions,
        "typeof": typeof_impl.registry,
    }


TYPED_WITH = tuple(
    "numba.core.typing." + name
    for name in ("cffi_utils", "cmathdecl", "enumdecl", "listdecl", "mathdecl", "npydecl", "setdecl", "dictdecl")
)
_LOWERED_WITH = tuple(
    "numba." + name
    for name in (
        "cpython.cmathimpl", "misc.cffiimpl", "cpython.mathimpl", "np.npyimpl", "cpython.printimpl",
        "cpython.randomimpl",
    )
)  # fmt: skip
"""Modules with registries of their own, which a compilation has Numba read."""


def registries() -> tuple[list[Any], list[Any]]:
    """Those that Numba types with, and those that it lowers with, in use or loaded, so that others may know them."""
    # Numba's own are in its order once they are in use, and those of others behind them.
    typed_with, lowered_with = cpu_target.typing_context._registries, cpu_target.target_context._registries
    return [*dict.fromkeys((*_typing(), *typed_with))], [*dict.fromkeys((*_lowering(), *lowered_with))]


def _typing() -> list[Any]:
    return [templates.builtin_registry, *_loaded(TYPED_WITH)]


def _lowering() -> list[Any]:
    return [imputils.builtin_registry, *_loaded(_LOWERED_WITH)]


def _loaded(names: tuple[str, ...]) -> list[Any]:
    modules = [sys.modules[name] for name in names if name in sys.modules]
    return [registry for module in modules if (registry := vars(module).get("registry")) is not None]


def lengths(typing: list[Any], lowering: list[Any]) -> list[int]:
    """How long each list is that registering something makes longer, in such registries and here."""
    lists = (
        *chain.from_iterable(map(_LISTS_OF_TYPING, typing)), *chain.from_iterable(map(_LISTS_OF_LOWERING, lowering)),
        *rewrite_registry.rewrites.values(), as_numba_type.functions, conversions,
    )  # fmt: skip
    return [*map(len, lists)]


_LISTS_OF_TYPING = attrgetter(*LISTS_OF_TYPING)
_LISTS_OF_LOWERING = attrgetter(*LISTS_OF_LOWERING)


def registered_since(label: str, table: dict[Any, Any]) -> dict[Any, Any]:
    """What of one of these tables isn't as it was when nobody else could have registered anything."""
    own = _own.get(label, {})
    return {cls: it for cls, it in table.items() if id(cls) not in own or own[id(cls)][1] is not it}


class _CommandLine(ffi._lib_fn_wrapper):
    """llvmlite's handle on the function."""

    __slots__ = ()

    def __call__(self, *args: Any) -> Any:
        told.append("an option of LLVM's")
        return super().__call__(*args)


def _noting(method: Any, note: Callable[..., object]) -> Any:
    """*method*, which Numba calls for what is in its registries, and others for what is in none."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **named: Any) -> Any:
        if not str(sys._getframe(1).f_globals.get("__name__")).startswith("numba."):
            note(*args, *named.items())
        return method(self, *args, **named)

    return call
