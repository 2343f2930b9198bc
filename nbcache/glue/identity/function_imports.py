"""Modules that code imports while it runs: which they are, and which of them are looked at.

Code inside functions imports too, absolutely or relative to its package, with names after it or without. What is loaded
already counts for what the code may read off it. Whoever loads it only while something is compiled isn't cached
(witness.py), nor is what asks for a module by a text (witness.py, computed_names.py).
"""

from __future__ import annotations

import functools
import sys
from types import CodeType, FunctionType, ModuleType
from typing import Any

from nbcache.glue.identity.bytecode import SILENT, nested_codes, plan_of
from nbcache.glue.identity.watched import MISSING


@functools.lru_cache(maxsize=4096)
def _statements_in(code: CodeType) -> list[tuple[int, str, tuple[str, ...]]]:
    """The import statements of a code object, nested code included: how many dots, the module, names after it."""
    import dis  # only for code that imports

    found = []
    for each in nested_codes(code):
        steps = [step for step in dis.get_instructions(each) if step.opname not in SILENT]
        for i, step in enumerate(steps):
            if step.opname == "IMPORT_NAME":  # two constants are loaded before it
                level, names = steps[i - 2].argval, steps[i - 1].argval
                found.append((level, step.argval, tuple(names or ())))
    return found


def imported_by(function: FunctionType) -> list[str]:
    """The full names of modules that *function* may import, whether there are such or not, sorted."""
    if not plan_of(function.__code__).imports:  # nearly all functions
        return []
    found: set[str] = set()
    for level, module, names in _statements_in(function.__code__):
        name = _absolute(level, module, function.__globals__)
        if name is None:
            continue
        # Without names after it, the statement gives the package at the root.
        found.update([name, *([] if names else [name.partition(".")[0]])])
        found.update(f"{name}.{each}" for each in names if _may_be_module(name, each))
    return sorted(found)


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
