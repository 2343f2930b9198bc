"""Descriptions of functions that are no Python: built in, or called by their address."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from types import BuiltinFunctionType, GetSetDescriptorType, ModuleType
from typing import Any

from nbcache.glue.identity.attributes import IGNORED_MEMBERS
from nbcache.glue.identity.c_functions import (
    CFuncPtr,
    address_of,
    cffi_signature,
    exported_as,
    file_of,
    is_cffi_function,
    is_ffi,
    place_of,
)
from nbcache.glue.identity.distributions import file_digest
from nbcache.glue.identity.instances import describe_instance
from nbcache.glue.identity.marked_packages import is_installed
from nbcache.glue.identity.node import Describer, Node, Unidentifiable
from nbcache.glue.identity.ownership import is_toolchain_module
from nbcache.shared_libraries import in_words

# -- foreign -----


def _add_address(node: Node, function: Any, address: Callable[[Any], int]) -> None:
    """Where compiled code calls *function*: its place in a library, which is the same in each process.

    What is in no library, such as a callback, is found in each process by the object that stands for it. What a
    function does when it runs while compiling isn't known, but for those that Cython modules export, and those of
    installed packages, which compiled code calls.
    """
    where = address(function)
    if not node.compiled and exported_as(where) is None and not is_installed(file_of(where)):
        raise Unidentifiable(f"a native function ({type(function).__name__}) that could be called while compiling")

    node.check(lambda function: b"%d" % address(function), function)
    place = place_of(where)
    if place is None:
        node.individual = node.live = True
    else:
        node.part("place", repr(tuple(place)).encode(), in_words(where))


def _describe_cffi_object(node: Node, obj: Any) -> None:
    if not is_cffi_function(obj):
        raise Unidentifiable(f"a cffi object ({type(obj).__name__}) is an address in this process")
    node.title = "cffi function"
    _add_address(node, obj, address_of)
    try:
        signature = cffi_signature(obj)
    except TypeError as exc:
        raise Unidentifiable(f"a cffi function that Numba can't call ({exc})") from exc
    node.part("signature", signature.encode(), signature)


def _describe_ffi(node: Node, obj: Any) -> None:
    if not (node.compiled and is_ffi(obj)):
        describe_instance(node, obj)
        return
    # Compiled code has its from_buffer, which is Numba's own; the object has no part in it.
    node.title = "cffi FFI"


def _describe_builtin(node: Node, function: Any) -> None:
    if is_cffi_function(function):
        _describe_cffi_object(node, function)
        return
    owner = getattr(function, "__self__", None)
    name = getattr(function, "__qualname__", None) or function.__name__
    home = type(owner).__module__
    if is_toolchain_module(home) and vars(sys.modules[home]).get(function.__name__) is function:
        # e.g. np.random.random or random.random, methods of generators that are hidden in these modules
        node.title = f"method {home}.{name}"
        return
    if owner is not None and not isinstance(owner, ModuleType):
        node.title = f"native method {function.__name__}"
        node.value("owner", owner)
        return
    module = owner or sys.modules.get(getattr(function, "__module__", None) or "")
    path = getattr(module, "__file__", None)
    if module is None or path is None:
        raise Unidentifiable(f"the native function {name} has no source that can be seen")
    node.title = f"native function {module.__name__}:{name}"
    node.part("file", node.check(file_digest, path), os.path.basename(path))


def _refuse_pointer(_node: Node, obj: object) -> None:
    raise Unidentifiable(f"a ctypes object ({type(obj).__name__}) is an address in this process")


def _describe_ctypes_function(node: Node, function: Any) -> None:
    """How it is called, and where that is."""
    node.title = "ctypes function"
    _add_address(node, function, address_of)
    for attribute in ("restype", "argtypes"):
        value = getattr(function, attribute)
        node.watch_attribute(function, attribute, value)
        node.value(attribute, value)
    node.part("flags", b"%d" % function._flags_, str(function._flags_))


class _Example(ctypes.Structure):
    _fields_ = (("field", ctypes.c_int),)


def _describe_field(node: Node, field: Any) -> None:
    """Of a structure or union, whose list of fields has the names and types."""
    node.title = "field of a structure"
    node.value("offset", field.offset)
    node.value("size", field.size)


def describe_wrapper_address(node: Node, obj: Any) -> None:
    """An object that tells Numba where a function is; how it knows isn't its identity if a library has that."""
    where = called_by_protocol(obj)
    if exported_as(where) is None and place_of(where) is None:
        describe_instance(node, obj)
        return
    _add_address(node, obj, called_by_protocol)
    node.compiled = False  # Numba calls its methods
    node.value("signature", obj.signature())
    node.value("state", {name: value for name, value in vars(obj).items() if type(value) is not int or value != where})
    for base in type(obj).__mro__:
        if not is_toolchain_module(base.__module__):
            for member, value in node.watch_members(base, ignored=IGNORED_MEMBERS | {"__wrapper_address__"}):
                if not isinstance(value, GetSetDescriptorType):
                    node.value(f"member {base.__qualname__}: {member}", value)


def called_by_protocol(obj: Any) -> int:
    """Where the function is that an object stands for."""
    address: int | None = obj.__wrapper_address__()
    return address or 0


def _describe_fortran(node: Node, function: Any) -> None:
    # f2py's routines have no module and no state; compiled code can't call them.
    node.title = "Fortran routine"
    node.value("documentation", function.__doc__)


DESCRIBERS: dict[type, Describer] = {
    BuiltinFunctionType: _describe_builtin,
    ctypes._SimpleCData: _refuse_pointer,
    ctypes._Pointer: _refuse_pointer,
    CFuncPtr: _describe_ctypes_function,
    type(_Example.field): _describe_field,
}
BY_NAME: dict[str, Describer] = {
    "_cffi_backend:_CDataBase": _describe_cffi_object,
    "_cffi_backend:__CDataOwnGC": _describe_cffi_object,
    "_cffi_backend:FFI": _describe_ffi,
    "cffi.api:FFI": _describe_ffi,
    "builtins:fortran": _describe_fortran,
}
