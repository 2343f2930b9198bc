"""Descriptions of ufuncs that Numba makes, and of stencils.

Which loops a ufunc has by now is no matter of its identity, unless no more are compiled: callers that are compiled have
the loops that they use among their uses. Kernels of stencils hold what their values were; their options anybody may
still set.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from numba.core import ir
from numba.np.ufunc.dufunc import DUFunc
from numba.np.ufunc.gufunc import GUFunc
from numba.np.ufunc.ufuncbuilder import UFuncDispatcher

from nbcache.glue import own_attributes
from nbcache.glue.identity.describe_functions import edge_to_code, function_name
from nbcache.glue.identity.describe_numba import describe_options
from nbcache.glue.identity.dispatcher_past import past_of
from nbcache.glue.identity.node import Describer, Node


def _describe_ufunc_dispatcher(node: Node, dispatcher: UFuncDispatcher) -> None:
    node.title = f"ufunc {function_name(dispatcher.py_func)}"
    node.watch_attribute(dispatcher, "py_func", dispatcher.py_func)
    edge_to_code(node, "py_func", dispatcher.py_func)
    node.compiled = False
    describe_options(node, dispatcher)


def _describe_dufunc(node: Node, dufunc: Any) -> None:
    node.title = f"DUFunc {dufunc.__name__}"
    node.watch_attribute(dufunc, "_dispatcher", dufunc._dispatcher)
    node.edge("dispatcher", dufunc._dispatcher)
    state = node.check(_dufunc_state if node.compiled else _dufunc_that_runs, dufunc)
    node.part("state", state, state.decode())


def _dufunc_state(dufunc: Any) -> bytes:
    """What a caller that is compiled depends on, besides the loops that it uses, which are among its uses.

    It gets a loop of its own for types that there is none for, unless no more are compiled: then a call casts.
    """
    loops = dufunc.types if dufunc._frozen else ()
    return repr((dufunc.identity, dufunc.reorderable, dufunc._frozen, loops)).encode()


def _dufunc_that_runs(dufunc: Any) -> bytes:
    """What whoever calls or reads it depends on: all its loops."""
    return repr((_dufunc_state(dufunc), dufunc.types, _loops_made_from(dufunc._dispatcher))).encode()


def _loops_made_from(dispatcher: Any) -> list[Any]:
    past = past_of(dispatcher)
    return [(made_from.hex(), past.given.get(args), past.odd.get(args)) for args, made_from in past.made_from.items()]


def _describe_gufunc(node: Node, gufunc: Any) -> None:
    node.title = f"GUFunc {gufunc.__name__}"
    builder = gufunc.gufunc_builder
    state = node.check(_gufunc_state if node.compiled else _gufunc_that_runs, gufunc)
    node.part("state", state, state.decode())
    node.watch_paths(gufunc, *_BUILDER)
    edge_to_code(node, "py_func", builder.py_func)
    if builder.nb_func.py_func is not builder.py_func:
        edge_to_code(node, "compiled", builder.nb_func.py_func)
    node.compiled = False
    describe_options(node, builder)


def _gufunc_state(gufunc: Any) -> bytes:
    builder = gufunc.gufunc_builder
    signatures = [str(each) for each in builder._sigs] if gufunc._frozen else ()
    return repr((builder.signature, builder.writable_args, builder.identity, gufunc._frozen, signatures)).encode()


def _gufunc_that_runs(gufunc: Any) -> bytes:
    builder = gufunc.gufunc_builder
    return repr((_gufunc_state(gufunc), [*map(str, builder._sigs)], _loops_made_from(builder.nb_func))).encode()


_BUILDER = ("gufunc_builder", "gufunc_builder.py_func", "gufunc_builder.nb_func", "gufunc_builder.nb_func.py_func")


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


DESCRIBERS: dict[type, Describer] = {
    UFuncDispatcher: _describe_ufunc_dispatcher,
    DUFunc: _describe_dufunc,
    GUFunc: _describe_gufunc,
}
BY_NAME: dict[str, Describer] = {
    "numba.stencils.stencil:StencilFunc": _describe_stencil,
}
