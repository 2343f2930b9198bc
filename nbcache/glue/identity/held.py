"""What Numba's modules and classes hold in lists, sets and dictionaries of their own, and the names of their members.

These are filled while Numba is imported. What Numba changes in them later are caches, which are empty until then or are
called so. So whatever is changed in another one was changed by somebody else, and it counts as a whole: what was taken
out and what was put in, functions and data. Every one of them is noted when Numba was just imported, since lists and
sets don't tell that they were changed.
"""

from __future__ import annotations

import sys
from enum import EnumMeta
from itertools import chain
from operator import is_
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from nbcache.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

modules: list[tuple[str, ModuleType]] = []
"""Numba's modules that were noted, by their names."""
classes: list[tuple[str, type]] = []
"""The classes that these define, by the modules' names."""
members: dict[int, tuple[str, ...]] = {}
"""The names that both have, by the owner's id."""
containers: list[Held] = []
"""What both hold."""
_names: set[str] = set()
"""The names of these modules."""
_known: dict[int, object] = {}
"""What was noted, by its id; kept alive, or the id would come to mean something else."""
_KINDS = frozenset({dict, list, set})
_UFUNCS = "numba.np.ufunc_db:_ufunc_db"
"""The loops of ufuncs by types, in a table of tables, which Numba makes when somebody asks for one."""


class Held(Record):
    """A container that a module or class has as a member, or something that has such a container."""

    name: str
    """``module:name`` or ``module:class.name``"""
    content: Any
    was: tuple[Any, ...] | None = None
    """Its `contents` when it was noted, None if Numba may have changed it since."""
    owner: ModuleType | type | None = None
    member: str = ""

    def is_changed(self) -> bool:
        """Whether somebody else than Numba changed what it holds, or its order where there is one."""
        if self.was is None:
            return False
        if type(self.content) is set:  # what was put back may have another place
            return self.content != {*self.was}
        now = contents(self.content)
        return len(now) != len(self.was) or not (all(map(is_, now, self.was)) or all(map(_are_alike, now, self.was)))


def note(fresh: Iterable[tuple[str, ModuleType]]) -> None:
    """Note what modules of Numba, by their names, hold now; once for each."""
    for name, module in fresh:
        if name in _names:
            continue
        _names.add(name)
        modules.append((name, module))
        members[id(module)] = (*vars(module),)
        for key, value in [*vars(module).items()]:
            kind = type(value)
            if kind in _KINDS:
                _hold(module, key, f"{name}:{key}", value)
            elif issubclass(kind, type) and value.__module__ == name and id(value) not in _known:
                _known[id(value)] = value
                classes.append((name, value))
                members[id(value)] = (*vars(value),)
                if kind is not EnumMeta:
                    for inner, member in [*vars(value).items()]:
                        if type(member) in _KINDS:
                            _hold(value, inner, f"{name}:{key}.{inner}", member)


def contents(container: Any) -> tuple[Any, ...]:
    """All that a list, set or dictionary holds; keys and values in turns."""
    return tuple(chain.from_iterable(container.items()) if type(container) is dict else container)


def is_for_others(name: object) -> bool:
    """Whether what is empty under this name is for others to fill; Numba's caches are empty at first as well."""
    return type(name) is str and name.endswith("_extensions")


def loops_of_ufuncs(name: str) -> dict[Any, Any]:
    """What Numba fills the table of that name with, tables by ufuncs, if it is the one of ufuncs: else nothing."""
    loops: dict[Any, Any] = {}
    if name == _UFUNCS:
        sys.modules[name.partition(":")[0]]._fill_ufunc_db(loops)
    return loops


def _hold(owner: ModuleType | type, member: str, name: str, container: Any) -> None:
    if member.startswith("__") or "cache" in member or id(container) in _known:
        return
    if container or is_for_others(member):
        _known[id(container)] = container
        containers.append(Held(name, container, contents(container), owner, member))


def _are_alike(one: Any, other: Any) -> bool:
    """Whether they are the same or made alike: Numba makes some loops anew each time; tables in tables count apart."""
    if type(one) is FunctionType and type(other) is FunctionType and one.__code__ is other.__code__:
        from nbcache.glue.identity.ownership import cell_values  # few processes have anything to compare

        inside, within = [*cell_values(one)], [*cell_values(other)]
        return len(inside) == len(within) and all(map(is_, inside, within))
    return one is other or (type(one) is dict and type(other) is dict)
