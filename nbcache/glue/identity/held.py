"""What Numba's modules and classes have as members, and what they hold in lists, sets and dictionaries of their own.

These are filled while Numba is imported. What Numba changes in them later are caches, which are empty until then or are
called so. So whatever is changed in another one was changed by somebody else, and it counts as a whole: what was taken
out and what was put in, functions and data. Every one of them is noted when Numba was just imported, since lists and
sets don't tell that they were changed.
"""

from __future__ import annotations

import sys
from enum import EnumMeta
from itertools import chain
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

modules: list[tuple[str, ModuleType]] = []
"""Numba's modules that were noted, by their names."""
classes: list[tuple[str, type]] = []
"""The classes that these define, by the modules' names."""
members: dict[int, tuple[tuple[str, ...], tuple[Any, ...]]] = {}
"""The names that both have, and what was under these, by the owner's id."""
containers: list[tuple[str, Any, tuple[Any, ...]]] = []
"""What both hold: its name (``module:name`` or ``module:class.name``), the container itself, its contents then."""
_names: set[str] = set()
"""The names of these modules."""
_known: dict[int, object] = {}
"""What was noted, by its id; kept alive, or the id would come to mean something else."""
KINDS = frozenset({dict, list, set})
"""The kinds of containers, beside dictionaries with a class of their own."""
_UFUNCS = "numba.np.ufunc_db:_ufunc_db"
"""The loops of ufuncs by types, in a table of tables, which Numba makes when somebody asks for one."""


def note(fresh: Iterable[tuple[str, ModuleType]], *, just_imported: bool = False) -> None:
    """Note what modules of Numba, by their names, hold now; once for each.

    If they weren't *just_imported*, caches aren't empty any more: then only lists and tables of functions are noted.
    """
    is_held = _is_filled_by_its_module if just_imported else _has_functions
    for name, module in fresh:
        if name in _names:
            continue
        _names.add(name)
        modules.append((name, module))
        members[id(module)] = names, values = _members_of(module)
        for key, value in zip(names, values, strict=True):
            kind = type(value)
            if kind in KINDS or issubclass(kind, dict):
                _hold(key, f"{name}:{key}", value, is_held)
            elif issubclass(kind, type) and value.__module__ == name and id(value) not in _known:
                _known[id(value)] = value
                classes.append((name, value))
                members[id(value)] = own = _members_of(value)
                if kind is not EnumMeta:
                    for inner, member in zip(*own, strict=True):
                        if type(member) in KINDS or isinstance(member, dict):
                            _hold(inner, f"{name}:{key}.{inner}", member, is_held)


def contents(container: Any) -> tuple[Any, ...]:
    """All that a list, set or dictionary holds; keys and values in turns."""
    return tuple(chain.from_iterable(dict.items(container)) if isinstance(container, dict) else container)


def is_for_others(name: object) -> bool:
    """Whether what is empty under this name is for others to fill; Numba's caches are empty at first as well."""
    return type(name) is str and name.endswith("_extensions")


def loops_of_ufuncs(name: str) -> dict[Any, Any]:
    """What Numba fills the table of that name with, tables by ufuncs, if it is the one of ufuncs: else nothing."""
    loops: dict[Any, Any] = {}
    if name == _UFUNCS:
        sys.modules[name.partition(":")[0]]._fill_ufunc_db(loops)
    return loops


def _members_of(owner: ModuleType | type) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    return (*vars(owner),), (*vars(owner).values(),)


def _hold(member: str, name: str, container: Any, is_held: Callable[[str, Any], bool]) -> None:
    if id(container) not in _known and not member.startswith("__") and is_held(member, container):
        _known[id(container)] = container
        containers.append((name, container, contents(container)))


def _is_filled_by_its_module(name: str, container: Any) -> bool:
    return is_for_others(name) or (bool(container) and "cache" not in name)


def _has_functions(name: str, container: Any) -> bool:
    values = dict.values(container) if isinstance(container, dict) else container
    return is_for_others(name) or (bool(values) and all(type(each) is FunctionType for each in values))
