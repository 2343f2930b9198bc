"""What Numba's modules and classes had as members, and their lists, sets and tables held, when Numba had made them.

Whatever is there later was put there by somebody else, or by functions of Numba that do so. All of it is copied when
Numba's import is over, and for modules that are imported later, when theirs is; who enables nbcache late has copies of
that moment, which are not *whole*.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from enum import EnumMeta
from types import FunctionType, ModuleType
from typing import Any

from nbcache.glue.identity.dictionary_changes import Mutations

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

    __slots__ = ("members", "module", "thing", "whole")

    def __init__(self, module: str, thing: ModuleType | type, whole: bool) -> None:
        self.module = module
        """The name of the module that it is, or is in."""
        self.thing = thing
        self.members = vars(thing).copy()
        self.whole = whole
        """Whether nobody but Numba itself can have changed anything before it was copied."""

    @property
    def label(self) -> str:
        """``module:`` or ``module:class.``, before the name of a member."""
        return f"{self.module}:{self.thing.__qualname__}." if isinstance(self.thing, type) else f"{self.module}:"


class Container:
    """A list, set or dictionary of a module or class, or in one of these."""

    __slots__ = ("content", "copy", "label", "whole")

    def __init__(self, label: str, content: Any, copy: Any, whole: bool) -> None:
        self.label = label
        """``module:name`` or ``module:class.name``"""
        self.content = content
        self.copy = copy
        """What it held: a dictionary, list or set."""
        self.whole = whole
        """Whether it held that, and not something else by then, when it was copied."""


class Part:
    """An object of Numba's whose own attributes count, because one that is set on it hides a method."""

    __slots__ = ("thing", "whole")

    def __init__(self, thing: object) -> None:
        self.thing = thing
        self.whole = False
        """Nothing of it was copied."""


class Noted:
    """All that was copied so far."""

    def __init__(self) -> None:
        self.tables: list[Owner | Container | Part] = []
        """What keeps its members in a dictionary."""
        self.lists: list[Container] = []
        """Lists and sets, of whose changes nobody tells."""
        self.contents: list[Any] = []
        """These lists and sets themselves."""
        self.last = ""
        """The module that was loaded last when all were copied."""
        self.mutations = Mutations()
        """Those of `tables`, by the same numbers, since they were copied."""
        self.lock = threading.RLock()

    def add(
        self, owners: Sequence[Owner] = (), containers: Sequence[Container] = (), parts: Sequence[Part] = ()
    ) -> None:
        """Add what was copied just now, in whatever thread a module was imported."""
        tables = [each for each in containers if isinstance(each.content, dict)]
        lists = [each for each in containers if not isinstance(each.content, dict)]
        contents = (each.content for each in tables)
        dictionaries = [*_members_of(owners), *contents, *(vars(each.thing) for each in parts)]
        with self.lock:  # the numbers of both have to agree
            self.lists += lists
            self.contents += [each.content for each in lists]
            self.tables += [*owners, *tables, *parts]
            self.mutations.watch(dictionaries)


noted = Noted()
_known: dict[int, object] = {}
"""All of these by their ids; kept alive, or the ids would come to mean something else."""
_others: set[type] = set()
"""The kinds of members that are neither classes nor containers."""
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


def note_all() -> None:
    """Numba's import is over: copy what all of its modules hold."""
    note(of_numba(sys.modules), whole=True)
    noted.last = next(reversed(sys.modules))


def note_part(module: ModuleType) -> None:
    """One of Numba's modules was just imported, after Numba."""
    note(of_numba([module.__name__]), whole=True)
    if (then := afterwards.pop(module.__name__, None)) is not None:
        then(module)


afterwards: dict[str, Callable[[ModuleType], None]] = {}
"""What waits for the import of one of Numba's modules, by its name, to change something in it."""


def note(modules: Iterable[tuple[str, ModuleType]], *, whole: bool) -> None:
    """Copy what modules of Numba, by their names, hold now; once for each.

    If they aren't *whole*, caches aren't empty any more: then only lists and tables of functions are copied.
    """
    fresh = []
    for name, module in modules:
        if id(module) not in _known:
            _known[id(module)] = module
            fresh.append(Owner(name, module, whole))
    containers = []
    is_wanted = _is_filled_by_its_module if whole else _has_functions
    for owner, name, value in _sorted_out(fresh):
        if id(value) not in _known and type(name) is str and not name.startswith("__") and is_wanted(name, value):
            containers += _containers_in(owner.label + name, value, whole)
    if fresh:
        noted.add(fresh, containers)


def note_parts(things: Iterable[object]) -> None:
    """Look at these, too; once for each."""
    fresh = [each for each in things if id(each) not in _known]
    _known.update((id(each), each) for each in fresh)
    noted.add(parts=[*map(Part, fresh)])


def _sorted_out(owners: list[Owner]) -> list[tuple[Owner, Any, Any]]:
    """Add the classes that were made in these modules to them; return the containers of all, with their names."""
    # An import of Numba waits for this. It has 15,000 members, of which most end at the first line. By the kind of
    # each, and not by `isinstance`, for which a proxy may stand for what it can't be asked for.
    containers = []
    for owner in owners:  # gets longer
        is_module, is_enumeration = not isinstance(owner.thing, type), type(owner.thing) is EnumMeta
        for name, value in owner.members.items():
            if (kind := type(value)) in _others:
                continue
            if issubclass(kind, type):
                if is_module and value.__module__ == owner.module and id(value) not in _known:
                    _known[id(value)] = value
                    owners.append(Owner(owner.module, value, owner.whole))
            elif kind in (dict, list, set) or (issubclass(kind, dict) and matters(kind.__module__)):
                if not is_enumeration:
                    containers.append((owner, name, value))
            else:
                _others.add(kind)
    return containers


def _members_of(owners: Sequence[Owner]) -> list[Any]:
    """What each of them has: of classes the dictionary itself, and not what shows it."""
    shown = [vars(owner.thing) for owner in owners]
    behind = iter(gc.get_referents(*(each for each in shown if type(each) is not dict)))
    return [each if type(each) is dict else next(behind) for each in shown]


def _containers_in(label: str, container: Any, whole: bool) -> list[Container]:
    """It itself, and the tables in it."""
    _known[id(container)] = container
    if not isinstance(container, dict):
        return [Container(label, container, container.copy(), whole)]
    found = [Container(label, container, dict.copy(container), whole)]
    for key, value in dict.items(container):
        if type(value) is dict and id(value) not in _known:
            found += _containers_in(f"{label}[{getattr(key, '__name__', key)}]", value, whole)
    return found


def note_loops_of_ufuncs() -> None:
    """Note Numba's table of ufuncs, which has a table for each, once there is one: Numba makes it when it is asked.

    It may have been changed already, so what counts is what Numba fills another one with. While it is empty, Numba is
    importing what it will be filled with, which may compile something.
    """
    module: Any = sys.modules.get(_UFUNCS)
    table = getattr(module, "_ufunc_db", None)
    if type(table) is dict and table and id(table) not in _known:
        _known[id(table)] = table
        filled: dict[Any, Any] = {}
        module._fill_ufunc_db(filled)
        label = f"{_UFUNCS}:_ufunc_db"
        loops = [
            Container(f"{label}[{ufunc.__name__}]", table.get(ufunc, {}), of_one, False)
            for ufunc, of_one in filled.items()
        ]
        noted.add(containers=[Container(label, table, {ufunc: table.get(ufunc) for ufunc in filled}, False), *loops])


def _is_for_others(name: str) -> bool:
    """Whether what is empty under this name is for others to fill; Numba's caches are empty at first as well."""
    return name.endswith("_extensions")


def _is_filled_by_its_module(name: str, container: Any) -> bool:
    return _is_for_others(name) or (bool(container) and "cache" not in name)


def _has_functions(name: str, container: Any) -> bool:
    values = dict.values(container) if isinstance(container, dict) else container
    return _is_for_others(name) or (bool(values) and all(type(each) is FunctionType for each in values))
