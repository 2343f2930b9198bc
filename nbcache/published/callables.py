"""Python's callables around entry points of compiled code, one for each kind of published function."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

from nbcache.published import callbacks, ufuncs
from nbcache.published.dispatch import Dispatcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbcache.protocol.manifests import Function

_VARARGS_KEYWORDS: Final = 0x1 | 0x2
"""METH_VARARGS | METH_KEYWORDS, Include/methodobject.h: how Numba's wrappers want to be called."""

_kept: list[Any] = []
"""What C code holds pointers to, for ever: nothing says when the last of them is gone."""


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.restype, _new_function.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3


def make(function: Function, address_of: Callable[[str], int]) -> Any:
    """What is to be called for a function of a manifest, whose symbols lie where ``address_of`` says."""
    return _MAKERS[function.what](function, address_of)


def builtin(name: str, address: int, flags: int = _VARARGS_KEYWORDS) -> Any:
    """A builtin function of Python around a C function."""
    definition = _MethodDef(name.encode(), address, flags, None)
    _kept.append(definition)
    return _new_function(ctypes.addressof(definition), None, None)


def _dispatcher(function: Function, address_of: Callable[[str], int]) -> Any:
    calls = [builtin(function.name, address_of(signature.symbol)) for signature in function.signatures]
    return Dispatcher(function, calls)


_MAKERS: Final = {"njit": _dispatcher, "ufunc": ufuncs.make, "gufunc": ufuncs.make, "cfunc": callbacks.make}
