"""Descriptions of the objects a compilation can reach, one describer per kind.

The table at the bottom maps types to describers; a class not listed is looked up along its MRO.
What no describer knows is described as an instance of its class (instances.py).
"""

from __future__ import annotations

import ctypes
import enum
import functools
from types import (
    BuiltinFunctionType,
    FunctionType,
    ModuleType,
)
from typing import TYPE_CHECKING, Any

import numpy as np
from numba.core import types
from numba.core.ccallback import CFunc
from numba.core.dispatcher import Dispatcher, LiftedCode
from numba.core.extending import _Intrinsic
from numba.core.typing.templates import AttributeTemplate, FunctionTemplate, Signature
from numba.np.ufunc import parallel
from numba.np.ufunc.dufunc import DUFunc
from numba.np.ufunc.gufunc import GUFunc
from numba.np.ufunc.ufuncbuilder import UFuncDispatcher

from nbcache.glue.identity import (
    describe_cuda,
    describe_foreign,
    describe_functions,
    describe_numba,
    describe_numpy,
    describe_python,
)
from nbcache.glue.identity.describe_numba import describe_other_dispatcher
from nbcache.glue.identity.foreign import CFuncPtr
from nbcache.glue.identity.instances import add_state, describe_instance, dictionary_of
from nbcache.glue.identity.node import HandedOn, Node
from nbcache.glue.identity.ownership import (
    is_numba_type,
    is_toolchain_module,
    toolchain_name,
)
from nbcache.glue.identity.referred import Referred, describe_referred
from nbcache.glue.identity.state import tell, tells

if TYPE_CHECKING:
    from nbcache.glue.identity.node import Describer
    from nbcache.glue.identity.registrations import ExtensionIndex


class Describers:
    """``describe(obj) -> Node``; *extensions* tells apart namesakes for which something is registered."""

    def __init__(self, extensions: ExtensionIndex) -> None:
        self._extensions = extensions
        self._by_type: dict[type, tuple[type, Describer, bool]] = {}
        """For a class, which of its bases is described, by what, and whether one instance can be told from another."""
        self._leaves: dict[int, tuple[str, Node]] = {}
        """What belongs to the toolchain: met in nearly every function, and digested once."""

    def describe(self, obj: object, compiled: bool = False) -> Node:
        """The node of *obj*, which is no atom: as what is *compiled*, or what may run.  Raises Unidentifiable."""
        name = None if is_numba_type(obj) or isinstance(obj, np.ndarray) else toolchain_name(obj)
        if not compiled and tells(name):
            node = Node(obj, f"toolchain {name}")
            tell(node, "tells", name, certainly=True)
            return node
        if name is not None:
            known = self._leaves.get(id(obj))
            # Still of that name, and no walk was broken off at it.
            if known is not None and known[0] == name and known[1].digest is not None:
                return known[1]
            node = Node(obj, f"toolchain {name}")
            if name == "numba.np.ufunc.parallel:set_num_threads":
                # It checks its argument against the number of threads, which is compiled in.
                node.part("threads", b"%d" % parallel.NUM_THREADS, str(parallel.NUM_THREADS))
            else:
                self._leaves[id(obj)] = (name, node)
            return node
        node = Node(obj, "", compiled=compiled)
        kind = self._by_type.get(type(obj))
        if kind is None:
            kind = self._by_type[type(obj)] = (*_describer_for(type(obj)), _is_individual(type(obj)))
        base, describer, node.individual = kind
        describer(node, obj)
        if not node.title:
            node.title = type(obj).__name__
        ordinal = self._extensions.ordinal(obj.target if isinstance(obj, Referred) else obj)
        if ordinal is not None:
            node.part("among namesakes", repr(ordinal).encode(), str(ordinal))
        node.compiled = False
        if base is not type(obj) and base is not object and base not in _WITH_THEIR_STATE:
            if toolchain_name(type(obj)) is None:
                node.edge("class", type(obj))
            else:
                node.part("class", type(obj).__qualname__.encode())
            add_state(node, obj, beyond=base)
        return node


def _describer_for(cls: type) -> tuple[type, Describer]:
    """The describer of a class, and which of its bases that is for; ``object`` if it describes all of an instance."""
    for base in cls.__mro__:
        if base in _DESCRIBERS:
            return base, _DESCRIBERS[base]
        describer = _DESCRIBERS_BY_NAME.get(f"{base.__module__}:{base.__qualname__}")
        if describer is not None:
            return object, describer
    return object, _describe_instance


def _is_individual(cls: type) -> bool:
    """Whether one instance can be told from another that is like it; not where somebody makes them as they like."""
    if not _NO_INDIVIDUALS.isdisjoint(cls.__mro__):
        return False
    if not _INDIVIDUALS.isdisjoint(cls.__mro__) or cls.__module__.startswith("numba."):
        return True
    return not is_toolchain_module(cls.__module__)


def _describe_instance(node: Node, obj: Any) -> None:
    state = dictionary_of(obj) or {}
    if isinstance(state.get("py_func"), FunctionType) and isinstance(state.get("targetoptions"), dict):
        describe_other_dispatcher(node, obj)
    else:
        describe_instance(node, obj)


_DESCRIBERS: dict[type, Describer] = {
    **describe_functions.DESCRIBERS,
    **describe_numba.DESCRIBERS,
    **describe_numpy.DESCRIBERS,
    **describe_python.DESCRIBERS,
    **describe_foreign.DESCRIBERS,
    Referred: describe_referred,
}
# Kinds whose modules a process may never import are recognised by name.
_DESCRIBERS_BY_NAME: dict[str, Describer] = {
    **describe_cuda.BY_NAME,
    **describe_numba.BY_NAME,
    **describe_python.BY_NAME,
    **describe_foreign.BY_NAME,
}
_WITH_THEIR_STATE: frozenset[type] = frozenset(
    {FunctionType, Dispatcher, LiftedCode, UFuncDispatcher, DUFunc, GUFunc, _Intrinsic, types.Type, np.ufunc, type,
     FunctionTemplate, AttributeTemplate,
     enum.Enum, ModuleType, ctypes._SimpleCData, ctypes._Pointer, types.WrapperAddressProtocol,
     CFuncPtr,
     dict, list, set, frozenset, np.dtype}
)  # fmt: skip
"""Whose describers describe all of a subclass's instance as well."""
_INDIVIDUALS: frozenset[type] = frozenset(
    {FunctionType, type, list, dict, set, bytearray, np.ndarray, np.void, ModuleType}
)
_NO_INDIVIDUALS: frozenset[type] = frozenset({types.Type, Signature, tuple, np.dtype, enum.Enum})


def is_compilable(obj: object) -> bool:
    """Whether *obj* is reached by what is compiled as something to compile, and not as something that may run."""
    return _is_compilable_kind(type(obj)) or (isinstance(obj, type) and issubclass(obj, BaseException))  # type: ignore[arg-type]


@functools.lru_cache(maxsize=4096)
def _is_compilable_kind(cls: type) -> bool:
    return not _COMPILABLE.isdisjoint(cls.__mro__) or cls.__name__ in _COMPILABLE_BY_NAME


_COMPILABLE_BY_NAME = frozenset({"StencilFunc", "JitClassType", "CUDADispatcher", "_CDataBase", "__CDataOwnGC"})
_COMPILABLE: frozenset[type] = frozenset(
    {
        FunctionType,
        Dispatcher,
        UFuncDispatcher,
        DUFunc,
        GUFunc,
        CFunc,
        HandedOn,
        types.Type,
        tuple,
        np.ndarray,
        CFuncPtr,
        BuiltinFunctionType,
    }
)
