"""Modules that code imports while it runs: which they are, and which of them are looked at.

Code inside functions imports too, absolutely or relative to its package, with names after it or without, by a statement
or by a function that takes the name. What is loaded already counts for what the code may read off it. Whoever loads it
only while something is compiled isn't cached (witness.py).
"""

from __future__ import annotations

import sys
import weakref
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from nbcache.glue.identity.bytecode import SILENT, nested_codes, plan_of
from nbcache.glue.identity.ownership import cell_values, is_toolchain_module
from nbcache.glue.identity.watched import MISSING
from nbcache.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FunctionType

_BY_NAME = frozenset({"import_module", "__import__", "modules", "find_spec"})
"""How code gets modules that it names by text."""


class Import(Record):
    """One import statement; ``level`` counts the dots before ``module``."""

    level: int
    module: str
    names: tuple[str, ...]


class Plan(Record):
    """What one code object imports, nested code included.

    ``texts``: what it spells that may name a module; ``by_name``: whether it names a way to import by text.
    """

    statements: tuple[Import, ...]
    texts: tuple[str, ...]
    by_name: bool


_plans: dict[int, tuple[weakref.ref[CodeType], Plan]] = {}


def _plan_of(code: CodeType) -> Plan:
    key = id(code)
    known = _plans.get(key)
    if known is not None and known[0]() is code:
        return known[1]
    statements: list[Import] = []
    names: set[str] = set()
    texts: list[str] = []
    imports_any = bool(plan_of(code).imports)
    for each in nested_codes(code):
        if imports_any:
            statements += _statements(each)
        names.update(each.co_names)
        texts += (const for const in each.co_consts if isinstance(const, str))
    plan = Plan(tuple(statements), tuple(texts), not names.isdisjoint(_BY_NAME))
    # The callback keeps a dead code object's id from being mistaken for its successor's.
    _plans[key] = (weakref.ref(code, lambda _ref: _plans.pop(key, None)), plan)
    return plan


def _statements(code: CodeType) -> Iterator[Import]:
    import dis  # only for code that imports

    steps = [step for step in dis.get_instructions(code) if step.opname not in SILENT]
    for i, step in enumerate(steps):
        if step.opname == "IMPORT_NAME":  # two constants are loaded before it
            level, names = steps[i - 2].argval, steps[i - 1].argval
            yield Import(level, step.argval, tuple(names or ()))


def imported_by(function: FunctionType, *, runs: bool) -> dict[str, bool]:
    """The full names of modules that *function* may import, whether there are such or not, sorted.

    With each name whether it is only spelt as text: then nothing tells what becomes of the module. Code that *runs*
    while compiling may import by text through functions of any name.
    """
    known = plan_of(function.__code__)
    if not runs and not known.imports and known.attribute_names.isdisjoint(_BY_NAME):  # nearly all functions
        return {}
    plan, scope = _plan_of(function.__code__), function.__globals__
    found: dict[str, bool] = {}
    for level, module, names in plan.statements:
        name = _absolute(level, module, scope)
        if name is None:
            continue
        # Without names after it, the statement gives the package at the root.
        found.update(dict.fromkeys([name, *([] if names else [name.partition(".")[0]])], False))
        found.update(dict.fromkeys((f"{name}.{each}" for each in names if _may_be_module(name, each)), False))
    if runs or plan.by_name:
        found.update(dict.fromkeys(_spelt(plan, function, others_only=not plan.by_name), True))
    return dict(sorted(found.items()))


def _spelt(plan: Plan, function: FunctionType, *, others_only: bool) -> Iterator[str]:
    """The loaded modules that text names which *function* has: all of it, or what is before a dot or a colon."""
    for text in _texts(plan, function):
        stripped = text.lstrip(".")
        parts = stripped.partition(":")[0].split(".")
        if not all(part.isidentifier() for part in parts):
            continue
        for end in range(len(parts), 0, -1):
            name = _absolute(len(text) - len(stripped), ".".join(parts[:end]), function.__globals__)
            if name is not None and name in sys.modules and not (others_only and is_toolchain_module(name)):
                yield name
                break


def _texts(plan: Plan, function: FunctionType) -> Iterator[str]:
    """What *function* spells, and what its variables spell."""
    scope = function.__globals__
    values = [scope.get(name) for code in nested_codes(function.__code__) for name in code.co_names]
    yield from plan.texts
    yield from (value for value in (*values, *cell_values(function)) if isinstance(value, str))


def _absolute(level: int, module: str, scope: dict[str, Any]) -> str | None:
    """As the import system resolves it; None outside of a package."""
    if level == 0:
        return module
    package = scope.get("__package__")
    if not isinstance(package, str):
        package = str(scope.get("__name__", ""))
        if "__path__" not in scope:
            package = package.rpartition(".")[0]
    parts = package.split(".")
    if not package or level > len(parts):
        return None
    return ".".join([*parts[: len(parts) - level + 1], *([module] if module else [])])


def _may_be_module(package: str, name: str) -> bool:
    """Whether ``from package import name`` may mean a module: it isn't something else there."""
    holder = sys.modules.get(package)
    value = vars(holder).get(name, MISSING) if isinstance(holder, ModuleType) else MISSING
    return value is MISSING or isinstance(value, ModuleType)
