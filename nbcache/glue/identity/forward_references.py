"""What stands for an annotation of which a name wasn't there yet when it was read, since Python 3.14.

A dataclass that names itself has one.
"""

from __future__ import annotations

import sys
from types import CellType, FunctionType
from typing import Any

from nbcache.glue.identity.bytecode import CLOSURE, plan_of
from nbcache.glue.identity.describe_functions import describe_cell, describe_globals
from nbcache.glue.identity.node import Node
from nbcache.glue.identity.watched import MISSING


def describe_forward_reference(node: Node, reference: Any) -> None:
    """An ``annotationlib.ForwardRef``.

    It holds all variables of its module and all cells around it, and remembers what it was asked for; what it gives
    depends on those alone that its own text names.
    """
    node.title = f"forward reference {reference.__forward_arg__}"
    node.compiled = False
    for label in _SAID_BY_REFERENCES:
        node.watch_attribute(reference, label, getattr(reference, label))
        node.value(label, getattr(reference, label))
    try:
        code = reference.__forward_code__
    except SyntaxError:
        return
    evaluated = FunctionType(code, _scope_of(node, reference))
    plan = plan_of(code)
    node.names = plan.attribute_names
    node.snapshot(_cells, reference)
    cells = reference.__cell__ if type(reference.__cell__) is dict else {reference.__forward_arg__: reference.__cell__}
    for variable, cell in cells.items():
        if variable in plan.global_names and type(cell) is CellType:
            describe_cell(node, f"closure: {variable}", cell, plan, (CLOSURE, variable))
    describe_globals(node, node.title, evaluated, plan)


_SAID_BY_REFERENCES = (
    "__forward_module__", "__forward_is_class__", "__forward_is_argument__", "__owner__", "__extra_names__"
)  # fmt: skip


def _scope_of(node: Node, reference: Any) -> dict[str, Any]:
    """The variables among which *reference* looks for names last, but for the built-in ones."""
    owner, module = reference.__owner__, reference.__forward_module__
    if module is None and reference.__globals__ is not None:
        found: dict[str, Any] = reference.__globals__
        return found
    if module is None and not isinstance(owner, type):
        return getattr(owner, "__globals__", None) or {}
    name = module or owner.__module__
    node.watch_item(sys.modules, name, sys.modules.get(name, MISSING))
    return vars(sys.modules[name]) if name in sys.modules else {}


def _cells(reference: Any) -> list[object]:
    cells = reference.__cell__
    return [*cells.values()] if type(cells) is dict else [cells]
