"""Descriptions of the objects a compilation can reach, one describer per kind.

Functions, dispatchers and Numba's types, which every compilation reaches, are described without the modules for all
other kinds being loaded (kinds.py).
"""

from __future__ import annotations

import ctypes
import enum
import functools
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import cast

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

from nbcache.glue.identity import describe_functions, describe_numba, describe_ufuncs
from nbcache.glue.identity.marked_packages import ENDS, Ran, leaf_of
from nbcache.glue.identity.node import TOOLCHAIN, Describer, HandedOn, Node, Unidentifiable
from nbcache.glue.identity.only_named import Referred, Stub
from nbcache.glue.identity.ownership import HEAP_TYPE, drawing_name, is_numba_type, is_toolchain_module, toolchain_name
from nbcache.glue.identity.process_state import tell, tells
from nbcache.passing_exceptions import let_pass


class Describers:
    """``describe(obj) -> Node``; ``ordinal(obj)`` tells apart namesakes for which something is registered."""

    def __init__(self, ordinal: Callable[[object], list[int] | None]) -> None:
        self._ordinal = ordinal
        self._by_type: dict[type, tuple[type, Describer, bool]] = {}
        """For a class, which of its bases is described, by what, and whether one instance can be told from another."""
        self._leaves: dict[tuple[int, bool], tuple[str, Node]] = {}
        """What belongs to the toolchain, as it is reached: met in nearly every function, and digested once."""

    def describe(self, obj: object, compiled: bool = False) -> Node:
        """The node of *obj*, which is no atom: as what is *compiled*, or what may run.

        Raises Unidentifiable, also where looking at it raises something else: somebody's property or metaclass may, and
        an attribute need not be there yet.
        """
        try:
            return self._describe(obj, compiled)
        except Unidentifiable:
            raise
        except Exception as raised:
            let_pass(raised)
            cls = type.__getattribute__(type(obj), "__qualname__")
            msg = f"an object of type {cls}, of which reading something raises {type(raised).__name__}"
            raise Unidentifiable(msg) from raised

    def _describe(self, obj: object, compiled: bool) -> Node:
        if not compiled and type(obj) in ENDS:
            leaf = leaf_of(obj)
            if leaf is not None:
                return leaf
        name = None if is_numba_type(obj) or issubclass(type(obj), np.ndarray) else toolchain_name(obj)
        if name is None and compiled:
            name = drawing_name(obj)
        if not compiled and tells(name):
            node = Node(obj, f"{TOOLCHAIN}{name}")
            tell(node, "tells", name)
            return node
        if name is not None:
            known = self._leaves.get((id(obj), compiled))
            # Still of that name, and no walk was broken off at it.
            if known is not None and known[0] == name and known[1].digest is not None:
                return known[1]
            node = Node(obj, f"{TOOLCHAIN}{name}")
            if name == "numba.np.ufunc.parallel:set_num_threads":
                # It checks its argument against the number of threads, which is compiled in.
                node.part("threads", b"%d" % parallel.NUM_THREADS, str(parallel.NUM_THREADS))
            else:
                self._leaves[id(obj), compiled] = (name, node)
            return node
        node = Node(obj, "", compiled=compiled)
        kind = self._by_type.get(type(obj))
        if kind is None:
            kind = self._by_type[type(obj)] = (*_describer_for(type(obj)), _is_individual(type(obj)))
        base, describer, node.individual = kind
        describer(node, obj)
        if base not in _COMMON and (type(obj).__flags__ & HEAP_TYPE or isinstance(obj, ModuleType)):
            # Its ``__class__`` can be set.
            node.snapshot(_class_of, obj)
        if not compiled and not _DECORATED.isdisjoint(type(obj).__mro__):
            from nbcache.glue.identity.attributes import describe_what_was_set

            node.compiled = False
            describe_what_was_set(node, obj)
        self._complete(node, obj, base, compiled=compiled)
        return node

    def _complete(self, node: Node, obj: object, base: type, *, compiled: bool) -> None:
        """Add what no describer knows: which of its namesakes it is, and what a subclass adds to the *base*."""
        if not node.title:
            node.title = type(obj).__name__
        ordinal = self._ordinal(cast("Referred", obj).target if issubclass(type(obj), Referred) else obj)
        if ordinal is not None:
            node.part("among namesakes", repr(ordinal).encode(), str(ordinal))
        node.compiled = compiled and is_class_of_values(type(obj))
        if base is not type(obj) and base is not object and base not in _WITH_THEIR_STATE:
            from nbcache.glue.identity.instances import add_state

            if toolchain_name(type(obj)) is None:
                node.edge("class", type(obj))
            else:
                node.part("class", type(obj).__qualname__.encode())
            if not node.compiled:
                add_state(node, obj, beyond=base)


def _describer_for(cls: type) -> tuple[type, Describer]:
    """The describer of a class, and which of its bases that is for; ``object`` if it describes all of an instance."""
    for base in cls.__mro__:
        if base in _COMMON:
            return base, _COMMON[base]
        # What other tables have is from elsewhere.
        module = str(base.__module__)
        name = f"{module}:{base.__qualname__}"
        if name in _BY_NAME:
            return object, _BY_NAME[name]
        if module == "numpy":
            from nbcache.glue.identity import describe_numpy

            if base in describe_numpy.DESCRIBERS:
                return base, describe_numpy.DESCRIBERS[base]
        elif module.startswith("numba.cuda."):
            from nbcache.glue.identity import describe_cuda

            if name in describe_cuda.BY_NAME:
                return object, describe_cuda.BY_NAME[name]
        elif not module.startswith("numba.core."):
            break
    from nbcache.glue.identity import kinds

    return kinds.describer_for(cls)


def _is_individual(cls: type) -> bool:
    """Whether one instance can be told from another that is like it; not where somebody makes them as they like."""
    if not _NO_INDIVIDUALS.isdisjoint(cls.__mro__):
        return False
    if not _INDIVIDUALS.isdisjoint(cls.__mro__) or cls.__module__.startswith("numba."):
        return True
    return not is_toolchain_module(cls.__module__)


def _class_of(obj: object) -> list[object]:
    return [type(obj)]


_COMMON: dict[type, Describer] = {
    **describe_functions.DESCRIBERS,
    **describe_numba.DESCRIBERS,
    **describe_ufuncs.DESCRIBERS,
}
_BY_NAME = {**describe_numba.BY_NAME, **describe_ufuncs.BY_NAME}
_DECORATED = frozenset({UFuncDispatcher, DUFunc, GUFunc, CFunc, _Intrinsic})
"""What Numba's decorators make of functions, but for dispatchers, which say themselves what was set on them."""
_WITH_THEIR_STATE: frozenset[type] = frozenset(
    {FunctionType, Ran, Dispatcher, LiftedCode, UFuncDispatcher, DUFunc, GUFunc, _Intrinsic, types.Type, np.ufunc, type,
     FunctionTemplate, AttributeTemplate,
     enum.Enum, ModuleType, ctypes._SimpleCData, ctypes._Pointer, types.WrapperAddressProtocol,
     ctypes._CFuncPtr,  # type: ignore[attr-defined]
     dict, list, set, frozenset, np.dtype}
)  # fmt: skip
"""Whose describers describe all of a subclass's instance as well."""
_INDIVIDUALS: frozenset[type] = frozenset(
    {FunctionType, type, list, dict, set, bytearray, np.ndarray, np.void, ModuleType}
)
_NO_INDIVIDUALS: frozenset[type] = frozenset({types.Type, Signature, tuple, np.dtype, enum.Enum})


def is_compilable(obj: object) -> bool:
    """Whether *obj* is reached by what is compiled as something to compile, and not as something that may run."""
    return (
        _is_compilable_kind(type(obj))  # type: ignore[arg-type]
        or (isinstance(obj, type) and (BaseException in obj.__mro__ or is_class_of_values(obj)))
        or drawing_name(obj) is not None
    )


@functools.lru_cache(maxsize=4096)
def keeps_memo(cls: type) -> bool:
    """Whether instances, all of which `is_compilable`, carry their digests: they have a ``__dict__`` nobody pickles."""
    return not _MEMO_KEEPERS.isdisjoint(cls.__mro__) or cls.__name__ == "CUDADispatcher"


_MEMO_KEEPERS: frozenset[type] = frozenset({Dispatcher, UFuncDispatcher, CFunc})


def is_class_of_values(cls: type) -> bool:
    """Whether Numba makes a type for the instances of *cls* because of what it is: an enumeration, or a named tuple."""
    return enum.Enum in cls.__mro__ or (tuple in cls.__mro__ and hasattr(cls, "_fields"))


@functools.lru_cache(maxsize=4096)
def _is_compilable_kind(cls: type) -> bool:
    return not _COMPILABLE.isdisjoint(cls.__mro__) or cls.__name__ in _COMPILABLE_BY_NAME


_COMPILABLE_BY_NAME = frozenset({"StencilFunc", "JitClassType", "CUDADispatcher", "_CDataBase", "__CDataOwnGC", "FFI"})
_COMPILABLE: frozenset[type] = frozenset(
    {FunctionType, Stub, Dispatcher, UFuncDispatcher, DUFunc, GUFunc, CFunc, HandedOn, types.Type, tuple, enum.Enum,
     np.ndarray, types.WrapperAddressProtocol, BuiltinFunctionType,
     ctypes._CFuncPtr}  # type: ignore[attr-defined]
)  # fmt: skip
