"""What Numba's modules hold when their own import is over, so that what is changed in them afterwards can be told.

Who put it there can't be told from the thing itself: one function of Numba's may take the place of another, and a
number in a table is nobody's. So members of modules and classes, and tables among them, are copied as soon as a module
is whole: for those that ``import numba`` brings when that is over, for each later one when its own import is. Copying
takes 2 ms of an import of 400.

What nobody was there to copy has no original: where nbcache is enabled after Numba's import, and what is loaded by a
finder of others.
"""

from __future__ import annotations

import functools
import sys
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Members: TypeAlias = "dict[Any, Any]"

_ROOTS = ("numba", "llvmlite")
_LEFT_OUT = (
    "numba.cuda.",  # another compiler
    "numba.pycc.",  # compiles ahead of time
    "numba.tests.",  # stand for user code
    "numba.core.config.",  # settings are in the key
    "numba.core.event.",  # who listens takes no part in compiling
    "numba.core.caching.",  # Numba's own cache stays out
    "numba.cloudpickle.",  # remembers what it has pickled
)
_GROWING = frozenset(
    {
        "_typecache", "_instance_cache", "_registered", "_unpickled_memo", "_memo", "_shutting_down", "loc_info",
        "disabled_types",
    }
)  # fmt: skip
"""Containers that Numba fills as it goes along, and what it compiles doesn't depend on."""


class Table:
    """A container in a module or class: ``name`` is ``module:name``; ``original`` is a copy of it, or None.

    What ``grows`` is a registry: what is added to it, and what others put into it, counts by what it is registered for.
    """

    __slots__ = ("content", "grows", "name", "original")

    def __init__(self, name: str, content: Any, original: Any) -> None:
        self.name = name
        self.content = content
        self.original = original
        self.grows = False


class Original:
    """A module of Numba's when its import was over: its members, its classes and theirs, the tables of both.

    The members are None where nobody was there to copy them. What is ``late`` was imported after somebody may have
    changed what it imports.
    """

    __slots__ = ("classes", "late", "members", "of_classes", "tables")

    def __init__(self, members: Members | None, classes: list[type], tables: list[Table]) -> None:
        self.members = members
        self.classes = classes
        self.of_classes: list[Members] | list[None] = [None] * len(classes)
        self.tables = tables
        self.late = False


_originals: dict[str, tuple[ModuleType, Original]] = {}


def keep_all() -> None:
    """``import numba`` is over: copy all that it brought."""
    for name, module in modules([*sys.modules]):
        _originals[name] = module, _original(name, module, copy=True)
    _own_registrations.update((id(items), [(0, len(items))]) for items in _registries())
    for name, variable, attribute in _INSIDE:
        content = getattr(vars(sys.modules[name]).get(variable), attribute, None)
        if type(content) is dict and name in _originals:
            table = Table(f"{name}:{variable}.{attribute}", content, content.copy())
            table.grows = True
            _growing.append(table)
            _originals[name][1].tables.append(table)


def begin() -> None:
    """The import of a module of Numba's begins, which may register things."""
    _begun.append(([len(items) for items in _registries()], [table.content.copy() for table in _growing]))


def end() -> None:
    """It is over; imports lie within one another."""
    lengths, contents = _begun.pop()
    for items, start in zip(_registries(), lengths, strict=True):
        _own_registrations[id(items)].append((start, len(items)))
    for table, before in zip(_growing, contents, strict=True):
        # Also in the place of another's: numba-cuda has a data model of its own for a type of Numba's.
        changed = {key: value for key, value in table.content.items() if before.get(key) is not value}
        added = {key: value for key, value in table.content.items() if key not in table.original}
        table.original.update({**added, **changed})


def registered_by_others(items: list[Any], start: int) -> list[int]:
    """Which things in a list of Numba's built-in registries, from *start* on, no import of Numba's put there.

    Nothing where nobody was there when Numba was imported.
    """
    spans = _own_registrations.get(id(items))
    if spans is None or sum(b - a for a, b in _merged(spans)) == len(items):
        return []
    return [at for at in range(start, len(items)) if not any(a <= at < b for a, b in spans)]


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(stop, merged[-1][1])
        else:
            merged.append((start, stop))
    return merged


def _registries() -> list[list[Any]]:
    """The lists that ``infer_global``, ``lower_builtin`` and their like add to."""
    typing = sys.modules["numba.core.typing.templates"].builtin_registry
    lowering = sys.modules["numba.core.imputils"].builtin_registry
    return [
        typing.functions, typing.attributes, typing.globals,
        lowering.functions, lowering.getattrs, lowering.setattrs, lowering.casts, lowering.constants,
    ]  # fmt: skip


_INSIDE = (
    ("numba.core.datamodel.registry", "default_manager", "_handlers"),
    ("numba.core.pythonapi", "_boxers", "functions"),
    ("numba.core.pythonapi", "_unboxers", "functions"),
    ("numba.core.pythonapi", "_reflectors", "functions"),
    ("numba.core.compiler_machinery", "_pass_registry", "_registry"),
)
"""Tables in objects: module, variable, attribute."""
_growing: list[Table] = []
_own_registrations: dict[int, list[tuple[int, int]]] = {}
"""By the id of such a list, from where to where modules of Numba's have added to it while they were imported."""
_begun: list[tuple[list[int], list[dict[Any, Any]]]] = []
"""How long the lists were when each of the imports began that aren't over, and what was in the tables that grow."""


def keep(module: ModuleType) -> None:
    """The import of this module of Numba's is over: copy what it holds."""
    if is_kept(module.__name__):
        _originals[module.__name__] = module, _original(module.__name__, module, copy=True)
        _originals[module.__name__][1].late = True


def of(name: str, module: ModuleType) -> Original:
    """What a module held when its import was over; without copies where nobody was there to make them."""
    kept = _originals.get(name)
    return _original(name, module, copy=False) if kept is None or kept[0] is not module else kept[1]


def modules(names: Iterable[str]) -> Iterator[tuple[str, ModuleType]]:
    """Those of Numba's modules that count, among those that are loaded under *names*."""
    for name in names:
        if name.startswith(_ROOTS) and is_kept(name):
            module = sys.modules.get(name)
            if isinstance(module, ModuleType):
                yield name, module


def is_kept(name: str) -> bool:
    """Whether a module takes part in what the CPU's target compiles."""
    return name.partition(".")[0] in _ROOTS and not f"{name}.".startswith(_LEFT_OUT)


def _original(name: str, module: ModuleType, *, copy: bool) -> Original:
    members = vars(module).copy()
    metaclasses = {kind for kind in {*map(type, members.values())} if type in kind.__mro__}
    classes = [*{value for value in members.values() if type(value) in metaclasses and value.__module__ == name}]
    of_classes = [vars(cls).copy() for cls in classes]
    tables = _tables(f"{name}:", members, copy=copy)
    for cls, of_class in zip(classes, of_classes, strict=True):
        if not _CONTAINERS.isdisjoint(map(type, of_class.values())):
            tables += _tables(f"{name}:{cls.__qualname__}.", of_class, copy=copy)
    original = Original(members if copy else None, classes, tables)
    if copy:
        original.of_classes = of_classes
    return original


def _tables(prefix: str, members: Members, *, copy: bool) -> list[Table]:
    # One that was empty is filled as Numba goes along, in all likelihood.
    return [
        Table(prefix + name, value, value.copy() if copy else None)
        for name, value in members.items()
        if type(value) in _CONTAINERS and value and not name.startswith("__") and name not in _GROWING
    ]


_CONTAINERS = frozenset({dict, list, set})


def made_later(module: ModuleType) -> list[Table]:
    """Tables that a module makes when they are first asked for, with what it would make of them now."""
    variable, fill = _MADE_LATER.get(module.__name__, ("", ""))
    table = vars(module).get(variable)
    if type(table) is not dict:
        return []
    fresh: Members = {}
    vars(module)[fill](fresh)
    name = f"{module.__name__}:{variable}"
    tables = []
    for key, inner in table.items():
        if type(inner) is dict and key in fresh:
            made = _with_same_closures(fresh[key], inner)
            tables.append(Table(f"{name}[{key!r}]", inner, made))
            fresh[key] = inner if made == inner else made
    return [Table(name, table, fresh), *tables]


def _with_same_closures(made: Members, table: Members) -> Members:
    """What was *made* again, with the *table*'s own functions where both are of one factory, for the same things."""
    return {key: table[key] if _are_twins(value, table.get(key)) else value for key, value in made.items()}


def _are_twins(one: Any, other: Any) -> bool:
    if not (type(one) is type(other) is FunctionType and one.__code__ is other.__code__):
        return False
    cells = zip(one.__closure__ or (), other.__closure__ or (), strict=True)
    return all(mine.cell_contents is yours.cell_contents for mine, yours in cells)


_MADE_LATER = {"numba.np.ufunc_db": ("_ufunc_db", "_fill_ufunc_db")}
"""By module: a variable that is None at first, and the function that fills what is put there."""


@functools.cache
def assigned_by(module: ModuleType) -> frozenset[str]:
    """The global variables that a module's functions assign to: its state, which may be another at any time."""
    get_code = getattr(getattr(module.__spec__, "loader", None), "get_code", None)
    codes = [] if get_code is None else [get_code(module.__name__)]
    found: set[str] = set()
    import dis

    for code in codes:  # grows
        codes += [const for const in code.co_consts if isinstance(const, type(code))]
        found.update(each.argval for each in dis.get_instructions(code) if each.opname in _ASSIGN)
    return frozenset(found)


_ASSIGN = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})
