"""What in Numba has members or items in whose place others may put something: modules, classes, tables and lists."""

from __future__ import annotations

import sys
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from nbcache.glue.identity.consulted import spelling_of
from nbcache.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOTS = ("numba", "llvmlite")
_LEFT_OUT = (
    "numba.cuda.",  # another compiler
    "numba.pycc.",  # compiles ahead of time
    "numba.tests.",  # stand for user code
    "numba.core.config.",  # settings are in the key
    "numba.core.event.",  # who listens takes no part in compiling
    "numba.core.caching.",  # Numba's own cache stays out
    "numba.core.entrypoints.",  # imports extensions, and notes that it did
)


class Table(Record):
    """A dictionary of functions in a module: ``name`` is ``module:name``."""

    name: str
    content: dict[Any, Any]


class List(Record):
    """A list of functions in a module."""

    name: str
    content: list[Any]


Owner: TypeAlias = "ModuleType | type | Table"


def called(owner: Owner, member: Any) -> str:
    """The name of what an owner has under the name or key *member*."""
    if isinstance(owner, Table):
        return f"{owner.name}[{spelling_of(member)}]"
    if isinstance(owner, ModuleType):
        return f"{owner.__name__}:{member}"
    return f"{owner.__module__}:{owner.__qualname__}.{member}"


def matters(name: str) -> bool:
    """Whether the module of that name is Numba's or llvmlite's and takes part in compiling for the CPU."""
    return name.partition(".")[0] in {"numba", "llvmlite"} and not f"{name}.".startswith(_LEFT_OUT)


def is_alias(name: str, module: ModuleType) -> bool:
    """Whether this is a module by another name than its own, below what is no package.

    Numba 0.61 registers all that a module of its type system imports, `sys` among them, below that module's name.
    """
    if vars(module).get("__name__") == name:
        return False
    return getattr(sys.modules.get(name.rpartition(".")[0]), "__path__", None) is None


def owners_in(modules: list[tuple[str, ModuleType]]) -> tuple[list[Table], list[type], list[str]]:
    """The tables of functions in modules, the classes that these define, and the module of each of both.

    Each member is looked at once, and little memory used: the first look is among what the first decorator waits for.
    """
    tables: list[Table] = []
    classes: list[type] = []
    homes: list[str] = []
    kinds: set[type] = set()
    owners: set[type] = {dict}
    for name, module in modules:
        values = [*vars(module).values()]
        fresh = {*map(type, values)} - kinds
        kinds |= fresh
        owners.update(kind for kind in fresh if issubclass(kind, type))
        found = [value for value in values if type(value) in owners]
        if any(type(value) is dict and (not value or _is_table(value)) for value in found):
            tables += tables_of(module)
        own = [value for value in found if type(value) is not dict and value.__module__ == name]
        classes += own
        homes += [name] * len(own)
    return tables, classes, [*map(module_of, tables), *homes]


def tables_of(owner: Owner) -> Iterator[Table]:
    """The tables that a module has, or those in a table."""
    members = owner.content if isinstance(owner, Table) else vars(owner) if isinstance(owner, ModuleType) else {}
    for name, value in [*members.items()]:
        if type(value) is dict and (_is_table(value) or _is_for_others(name, value)):
            table = Table(called(owner, name), value)
            yield table
            yield from tables_of(table)


def _is_table(value: dict[Any, Any]) -> bool:
    """Whether a dictionary is one of functions, or one of such dictionaries."""
    first = next(iter(value.values()), None)
    first = next(iter(first.values()), None) if type(first) is dict else first
    return type(first) is FunctionType


def _is_for_others(name: Any, value: dict[Any, Any]) -> bool:
    """Whether an empty dictionary is a table that others may fill; Numba's caches are empty at first as well."""
    return not value and type(name) is str and name.endswith("_extensions")


def lists_in(modules: list[tuple[str, ModuleType]]) -> Iterator[List]:
    """The lists of functions in modules, and those which are still empty."""
    for _name, module in modules:
        for name, value in [*vars(module).items()]:
            if type(value) is list and all(type(each) is FunctionType for each in value):
                yield List(called(module, name), value)


def module_of(owner: Owner) -> str:
    """The name of the module that an owner is, or is in."""
    if isinstance(owner, Table):
        return owner.name.partition(":")[0]
    return owner.__name__ if isinstance(owner, ModuleType) else owner.__module__
