"""Descriptions of stencils: kernels that hold what their values were, and options that anybody may still set."""

from __future__ import annotations

import weakref
from types import ModuleType
from typing import TYPE_CHECKING, Any

from numba.core import ir

from nbcache.glue import own_attributes
from nbcache.glue.identity.describe_functions import edge_to_code, function_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nbcache.glue.identity.node import Describer, Node


def _describe_stencil(node: Node, stencil: Any) -> None:
    function = stencil.kernel_ir.func_id.func
    node.title = f"stencil {function_name(function)}"
    edge_to_code(node, "kernel", function)
    # The kernel's values are those of its decoration.
    for i, (name, value) in enumerate(_frozen_in(stencil.kernel_ir)):
        node.value(f"value {i} at decoration: {name}", value)
    if not node.compiled:
        from nbcache.glue.identity.attributes import describe_what_was_set

        describe_what_was_set(node, stencil)
    node.compiled = False
    node.value("mode", stencil.mode)
    for option, value in sorted(stencil.options.items()):
        node.value(f"option {option}", value)
    node.volatile = False
    neighborhood = own_attributes.given_neighborhood(stencil)
    if neighborhood is not None:
        node.value("neighborhood", neighborhood)
    node.snapshot(_told_to_stencil, weakref.ref(stencil))


def _told_to_stencil(known: weakref.ref[Any]) -> list[object]:
    """What anybody may set on a stencil until it is compiled."""
    stencil: Any = known()
    if stencil is None:
        return []
    return [stencil.mode, own_attributes.given_neighborhood(stencil), *stencil.options, *stencil.options.values()]


def _frozen_in(func_ir: ir.FunctionIR) -> Iterator[tuple[str, object]]:
    """(name, value) of the globals and captured variables that a function's IR holds, in the order of its code."""
    for _label, block in sorted(func_ir.blocks.items()):
        for statement in block.find_insts(ir.Assign):
            if isinstance(statement.value, ir.Global | ir.FreeVar):
                value = statement.value.value
                if not isinstance(value, ModuleType):  # its attributes are read when the kernel is compiled
                    yield statement.value.name, value


BY_NAME: dict[str, Describer] = {
    "numba.stencils.stencil:StencilFunc": _describe_stencil,
}
