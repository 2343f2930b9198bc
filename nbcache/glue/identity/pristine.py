"""What Numba's modules and classes had as members, and their lists, sets and tables held, when Numba had made them.

Whatever is there later was put there by somebody else, or by functions of Numba that do so. All of it is copied when
Numba's import is over, and for modules that are imported later, when theirs is; who enables nbcache late has copies of
that moment, which are not *whole*.
"""

from __future__ import annotations

import sys
from enum import EnumMeta
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOTS = ("numba", "llvmlite")
_LEFT_OUT = (
    "numba.cuda.",  # another compiler
    "numba.pycc.",  # compiles ahead of time
    "numba.tests.",  # stand for user code
    "llvmlite.tests.",
    "numba.core.config.",  # settings are in the key
    "numba.core.event.",  # who listens takes no part in compiling
    "numba.core.caching.",  # Numba's own cache stays out
    "numba.misc.numba_sysinfo.",  # tells of the machine, and has lists of what it couldn't tell
    "numba.core.entrypoints.",  # imports extensions, and notes that it did
)


class Owner:
    """A module or class with members."""

    __slots__ = ("label", "members", "thing", "whole")

    def __init__(self, label: str, thing: ModuleType | type, members: dict[Any, Any], whole: bool) -> None:
        self.label = label
        """``module:`` or ``module:class.``, before the name of a member."""
        self.thing = thing
        self.members = members
        """A copy."""
        self.whole = whole
        """Whether nobody but Numba itself can have changed anything before it was copied."""


class Container:
    """A list, set or dictionary of a module or class, or in one of these."""

    __slots__ = ("content", "copy", "label")

    def __init__(self, label: str, content: Any, copy: Any) -> None:
        self.label = label
        """``module:name`` or ``module:class.name``"""
        self.content = content
        self.copy = copy
        """What it held: a dictionary, list or set."""


owners: list[Owner] = []
containers: list[Container] = []
_known: dict[int, object] = {}
"""All of these by their ids; kept alive, or the ids would come to mean something else."""
_kinds: set[type] = {dict, list, set}
"""The kinds of containers, and dictionaries of a class of Numba's."""
_UFUNCS = "numba.np.ufunc_db"


def matters(name: str) -> bool:
    """Whether the module of that name is Numba's or llvmlite's and takes part in compiling for the CPU."""
    return name.partition(".")[0] in ROOTS and not f"{name}.".startswith(_LEFT_OUT)


def is_alias(name: str, module: ModuleType) -> bool:
    """Whether this is a module by another name than its own, under which it is known as well, or nobody's of Numba.

    Numba 0.61 registers all that a module of its type system imports, `sys` among them, below that module's name, and
    so does ``import numba.types`` in any release.
    """
    own = str(vars(module).get("__name__"))
    if own == name:
        return False
    if getattr(sys.modules.get(name.rpartition(".")[0]), "__path__", None) is None:
        return True
    return sys.modules.get(own) is module or own.partition(".")[0] not in ROOTS


def of_numba(names: Iterable[str]) -> list[tuple[str, ModuleType]]:
    """Those of Numba's modules among these that matter, with their names."""
    named = [(name, sys.modules.get(name)) for name in [*names] if name.startswith(ROOTS) and matters(name)]
    return [(name, it) for name, it in named if isinstance(it, ModuleType) and not is_alias(name, it)]


def note_part(module: ModuleType) -> None:
    """One of Numba's modules was just imported, after Numba."""
    note(of_numba([module.__name__]), whole=True)


def note(modules: Iterable[tuple[str, ModuleType]], *, whole: bool) -> None:
    """Copy what modules of Numba, by their names, hold now; once for each.

    If they aren't *whole*, caches aren't empty any more: then only lists and tables of functions are copied.
    """
    fresh = []
    for name, module in modules:
        if id(module) in _known:
            continue
        fresh.append(_copied(f"{name}:", module, whole))
        for cls in fresh[-1].members.values():
            # Not `isinstance`, for which a proxy may stand for what it can't be asked for.
            if issubclass(type(cls), type) and cls.__module__ == name and id(cls) not in _known:
                fresh.append(_copied(f"{name}:{cls.__qualname__}.", cls, whole))
                if issubclass(cls, dict):
                    _kinds.add(cls)
    owners.extend(fresh)
    is_wanted = _is_filled_by_its_module if whole else _has_functions
    for owner in fresh:
        for name, value in () if type(owner.thing) is EnumMeta else owner.members.items():
            if type(value) not in _kinds or id(value) in _known or type(name) is not str or name.startswith("__"):
                continue
            if is_wanted(name, value):
                _note_container(owner.label + name, value)


def _copied(label: str, thing: ModuleType | type, whole: bool) -> Owner:
    _known[id(thing)] = thing
    return Owner(label, thing, vars(thing).copy(), whole)


def _note_container(label: str, container: Any) -> None:
    _known[id(container)] = container
    if not isinstance(container, dict):
        containers.append(Container(label, container, container.copy()))
    else:
        containers.append(Container(label, container, dict(dict.items(container))))
        for key, value in dict.items(container):
            if type(value) is dict and id(value) not in _known:
                _note_container(f"{label}[{getattr(key, '__name__', key)}]", value)


def note_loops_of_ufuncs() -> None:
    """Note Numba's table of ufuncs, which has a table for each, once there is one: Numba makes it when it is asked.

    It may have been changed already, so what counts is what Numba fills another one with.
    """
    module: Any = sys.modules.get(_UFUNCS)
    table = getattr(module, "_ufunc_db", None)
    if type(table) is dict and id(table) not in _known:
        _known[id(table)] = table
        filled: dict[Any, Any] = {}
        module._fill_ufunc_db(filled)
        label = f"{_UFUNCS}:_ufunc_db"
        containers.append(Container(label, table, {ufunc: table.get(ufunc) for ufunc in filled}))
        for ufunc, loops in filled.items():
            containers.append(Container(f"{label}[{ufunc.__name__}]", table.get(ufunc, {}), loops))


def _is_for_others(name: str) -> bool:
    """Whether what is empty under this name is for others to fill; Numba's caches are empty at first as well."""
    return name.endswith("_extensions")


def _is_filled_by_its_module(name: str, container: Any) -> bool:
    return _is_for_others(name) or (bool(container) and "cache" not in name)


def _has_functions(name: str, container: Any) -> bool:
    values = dict.values(container) if isinstance(container, dict) else container
    return _is_for_others(name) or (bool(values) and all(type(each) is FunctionType for each in values))
