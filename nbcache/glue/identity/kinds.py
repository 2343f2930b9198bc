"""All describers, by the type that they describe: for what functions are seldom made of.

A class that is in no table is looked up along its MRO; what no describer knows is described as an instance of its class
(instances.py).
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from nbcache.glue.identity import (
    describe_c_functions,
    describe_cuda,
    describe_functions,
    describe_numba,
    describe_numpy,
    describe_python,
    describe_ufuncs,
)
from nbcache.glue.identity.describe_numba import OTHER_DISPATCHER
from nbcache.glue.identity.instances import describe_instance, dictionary_of
from nbcache.glue.identity.node import Describer, Node, Unidentifiable
from nbcache.glue.identity.only_named import Referred, Stub, describe_referred
from nbcache.glue.identity.untyped import Untyped, describe_untyped


def describer_for(cls: type) -> tuple[type, Describer]:
    """The describer of a class, and which of its bases that is for; ``object`` if it describes all of an instance."""
    for base in cls.__mro__:
        if base in DESCRIBERS:
            return base, DESCRIBERS[base]
        describer = BY_NAME.get(f"{base.__module__}:{base.__qualname__}")
        if describer is not None:
            return object, describer
    return object, _describe_instance


def _describe_instance(node: Node, obj: Any) -> None:
    state = dictionary_of(obj) or {}
    if isinstance(state.get("py_func"), FunctionType) and isinstance(state.get("targetoptions"), dict):
        raise Unidentifiable(OTHER_DISPATCHER.format(cls=type(obj)))
    describe_instance(node, obj)


DESCRIBERS: dict[type, Describer] = {
    **describe_functions.DESCRIBERS,
    **describe_numba.DESCRIBERS,
    **describe_numpy.DESCRIBERS,
    **describe_python.DESCRIBERS,
    **describe_c_functions.DESCRIBERS,
    Referred: describe_referred,
    Stub: describe_referred,
    Untyped: describe_untyped,
}
# Kinds whose modules a process may never import are recognised by name.
BY_NAME: dict[str, Describer] = {
    **describe_cuda.BY_NAME,
    **describe_numba.BY_NAME,
    **describe_python.BY_NAME,
    **describe_c_functions.BY_NAME,
    **describe_ufuncs.BY_NAME,
}
