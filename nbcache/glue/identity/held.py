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
    from collections.abc import Iterable

modules: list[ModuleType] = []
"""Numba's modules that were noted."""
classes: list[type] = []
"""The classes that these define."""
containers: list[tuple[str, Any, tuple[Any, ...]]] = []
"""What both hold: its name (``module:name`` or ``module:class.name``), the container itself, its contents then."""
members: dict[int, dict[Any, Any]] = {}
"""What a module or class had, by its id."""
_known: dict[int, object] = {}
"""These, by their ids; kept alive, as modules and classes are, or the ids would come to mean something else."""
KINDS = frozenset({dict, list, set})
"""The kinds of containers, beside dictionaries of a class of Numba's."""
_kinds: set[type] = {*KINDS}
"""Both."""
_UFUNCS = "numba.np.ufunc_db:_ufunc_db"
"""The loops of ufuncs by types, in a table of tables, which Numba makes when somebody asks for one."""


def note(fresh: Iterable[tuple[str, ModuleType]], *, just_imported: bool = False) -> None:
    """Note what modules of Numba, by their names, hold now; once for each.

    If they weren't *just_imported*, caches aren't empty any more: then only lists and tables of functions are noted.
    """
    is_held = _is_filled_by_its_module if just_imported else _has_functions
    owners: list[tuple[str, ModuleType | type]] = []
    for name, module in fresh:
        if id(module) not in members:
            members[id(module)] = vars(module).copy()
            modules.append(module)
            owners.append((f"{name}:", module))
            for cls in members[id(module)].values():
                # Not `isinstance`, for which a proxy may stand for what it can't be asked for.
                if issubclass(type(cls), type) and cls.__module__ == name and id(cls) not in members:
                    members[id(cls)] = vars(cls).copy()
                    classes.append(cls)
                    if issubclass(cls, dict):
                        _kinds.add(cls)
                    if type(cls) is not EnumMeta:
                        owners.append((f"{name}:{cls.__qualname__}.", cls))
    for prefix, owner in owners:
        for name, value in members[id(owner)].items():
            if type(value) not in _kinds or id(value) in _known or type(name) is not str or name.startswith("__"):
                continue
            if is_held(name, value):
                _known[id(value)] = value
                containers.append((prefix + name, value, contents(value)))


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


def _is_filled_by_its_module(name: str, container: Any) -> bool:
    return is_for_others(name) or (bool(container) and "cache" not in name)


def _has_functions(name: str, container: Any) -> bool:
    values = dict.values(container) if isinstance(container, dict) else container
    return is_for_others(name) or (bool(values) and all(type(each) is FunctionType for each in values))
