"""Descriptions of ufuncs that Numba makes.

Which loops one has by now is no matter of its identity, unless no more are compiled: callers that are compiled have the
loops that they use among their uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba.np.ufunc.dufunc import DUFunc
from numba.np.ufunc.gufunc import GUFunc
from numba.np.ufunc.ufuncbuilder import UFuncDispatcher

from nbcache.glue.identity.describe_functions import edge_to_code, function_name
from nbcache.glue.identity.describe_numba import describe_options
from nbcache.glue.identity.dispatcher_past import past_of

if TYPE_CHECKING:
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
    for option, value in sorted(builder.targetoptions.items()):
        node.value(f"option {option}", value)
    node.volatile = False


def _gufunc_state(gufunc: Any) -> bytes:
    builder = gufunc.gufunc_builder
    signatures = [str(each) for each in builder._sigs] if gufunc._frozen else ()
    return repr((builder.signature, builder.writable_args, builder.identity, gufunc._frozen, signatures)).encode()


def _gufunc_that_runs(gufunc: Any) -> bytes:
    builder = gufunc.gufunc_builder
    return repr((_gufunc_state(gufunc), [*map(str, builder._sigs)], _loops_made_from(builder.nb_func))).encode()


_BUILDER = ("gufunc_builder", "gufunc_builder.py_func", "gufunc_builder.nb_func", "gufunc_builder.nb_func.py_func")

DESCRIBERS: dict[type, Describer] = {
    UFuncDispatcher: _describe_ufunc_dispatcher,
    DUFunc: _describe_dufunc,
    GUFunc: _describe_gufunc,
}
