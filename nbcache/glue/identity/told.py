"""What decides what is compiled and can be read nowhere afterwards: what Numba and LLVM are told by calls, and which
entries of Numba's registries are its own.

What is told before anybody listens isn't heard: before Numba's import, or before `nbcache.enable` if that comes later.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from itertools import chain
from operator import attrgetter
from types import FrameType
from typing import Any

from llvmlite.binding import ffi
from numba.core import imputils, pythonapi
from numba.core.base import BaseContext
from numba.core.datamodel import default_manager
from numba.core.rewrites import rewrite_registry
from numba.core.typeconv.castgraph import TypeGraph
from numba.core.typeconv.typeconv import TypeManager
from numba.core.typing import templates
from numba.core.typing.asnumbatype import AsNumbaTypeRegistry, as_numba_type
from numba.core.typing.context import BaseContext as TypingContext
from numba.core.typing.typeof import typeof_impl

from nbcache.glue.identity import pristine

options: list[tuple[bytes, ...]] = []
"""LLVM's command line, as ``llvmlite.binding.set_option`` extends it."""
conversions: list[tuple[Any, Any, str]] = []
"""From which type to which one Numba may convert arguments, and how: promote, safe or unsafe."""
direct: list[tuple[str, Any, Any, tuple[Any, ...]]] = []
"""What was handed to a context of Numba's, past its registries: what it is, for what, the thing itself, a signature."""
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
        TypeGraph.insert_rule = _heard(TypeGraph.insert_rule)
        for name in ("set_compatible", "set_promote", "set_safe_convert", "set_unsafe_convert"):
            setattr(TypeManager, name, _told_directly(getattr(TypeManager, name)))
        TypingContext.insert_user_function = _handed(TypingContext.insert_user_function, _template)
        TypingContext.insert_function = _handed(TypingContext.insert_function, _template)
        BaseContext.insert_func_defn = _handed(BaseContext.insert_func_defn, _lowering)
        # Making another registry takes as long as a tenth of a hit.
        own_annotations.update((as_numba_type if just_imported else AsNumbaTypeRegistry()).lookup)
        if just_imported:
            pristine.note_all()
            for registry, fields in _REGISTRIES:
                own_lengths.update(((id(registry), field), len(getattr(registry, field))) for field in fields)
            for kind, classes in rewrite_registry.rewrites.items():
                own_lengths[id(rewrite_registry), kind] = len(classes)
            for label, table in tables_by_class().items():
                _own[label] = {id(cls): (cls, registered) for cls, registered in table.items()}


_REGISTRIES: Any = (
    (templates.builtin_registry, LISTS_OF_TYPING),
    (imputils.builtin_registry, LISTS_OF_LOWERING),
    (as_numba_type, ("functions",)),
)
"""With the names of their lists."""


def tables_by_class() -> dict[str, Any]:
    """Numba's registries that hold one thing for each class."""
    return {
        "data model": default_manager._handlers,
        "boxing": pythonapi._boxers.functions,
        "unboxing": pythonapi._unboxers.functions,
        "reflection": pythonapi._reflectors.functions,
        "typeof": typeof_impl.registry,
    }


def lengths(typing: list[Any], lowering: list[Any]) -> list[int]:
    """How long each list is that registering something makes longer, in such registries and here."""
    lists = (
        *chain.from_iterable(map(_LISTS_OF_TYPING, typing)), *chain.from_iterable(map(_LISTS_OF_LOWERING, lowering)),
        *rewrite_registry.rewrites.values(), as_numba_type.functions, conversions, direct,
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
        options.append(args)
        return super().__call__(*args)


def _heard(insert_rule: Any) -> Any:
    # What follows from a rule is told in the order of a set, which is another one in each process.
    @functools.wraps(insert_rule)
    def insert_and_note(self: Any, fromty: Any, toty: Any, relation: Any) -> Any:
        conversions.append((fromty, toty, repr(relation)))
        return insert_rule(self, fromty, toty, relation)

    return insert_and_note


def _is_numbas(caller: FrameType) -> bool:
    return str(caller.f_globals.get("__name__")).startswith("numba.")


def _told_directly(conversion: Any) -> Any:
    """A method that Numba's rules end in, and that others may call past them."""

    @functools.wraps(conversion)
    def convert_and_note(self: Any, fromty: Any, toty: Any, *by: Any, **named: Any) -> Any:
        if not _is_numbas(sys._getframe(1)):
            how = ", ".join(map(repr, (*by, *named.values())))
            conversions.append((fromty, toty, f"{conversion.__name__} {how}"))
        return conversion(self, fromty, toty, *by, **named)

    return convert_and_note


def _handed(insert: Any, registrations: Any) -> Any:
    """*insert* of a context, which Numba calls with what is in its registries, and others with what is in none."""

    @functools.wraps(insert)
    def insert_and_note(self: Any, *args: Any) -> Any:
        if not _is_numbas(sys._getframe(1)):
            args = tuple(list(each) if isinstance(each, Iterator) else each for each in args)
            direct.extend(registrations(*args))
        return insert(self, *args)

    return insert_and_note


def _template(*args: Any) -> Any:
    template = args[-1]  # beside the function that it is for, or alone
    return [("template", template.key, template, ())]


def _lowering(definitions: Any) -> Any:
    return [("lowering", function, implementation, signature) for implementation, function, signature in definitions]
