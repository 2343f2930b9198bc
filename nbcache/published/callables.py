"""Python's callables around entry points of compiled code, one for each kind of published function."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbcache.protocol.manifests import Function
    from nbcache.published.dispatch import Dispatcher

_VARARGS_KEYWORDS: Final = 0x1 | 0x2
"""METH_VARARGS | METH_KEYWORDS, Include/methodobject.h: how Numba's wrappers want to be called."""

_FASTCALL_KEYWORDS: Final = 0x80 | 0x2
"""METH_FASTCALL | METH_KEYWORDS: how type checks want to be called (:mod:`nbcache.glue.published.native_check`)."""

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
    # Imported here: most processes need one kind, and no dispatcher.
    if function.what == "njit":
        return _checked(function, address_of)
    if function.what == "cfunc":
        from nbcache.published import callbacks

        return callbacks.make(function, address_of)
    from nbcache.published import ufuncs

    return ufuncs.make(function, address_of)


def builtin(
    name: str,
    address: int,
    flags: int = _VARARGS_KEYWORDS,
    *,
    receiver: object = None,
    doc: str | None = None,
    module: str | None = None,
) -> Any:
    """A builtin function of Python around a C function, which gets the ``receiver`` as its first argument."""
    definition = _MethodDef(name.encode(), address, flags, None if doc is None else doc.encode(errors="replace"))
    _kept.append((definition, receiver, module))
    return _new_function(
        ctypes.addressof(definition),
        None if receiver is None else id(receiver),
        None if module is None else id(module),
    )


class Published:
    """What a published function is a method of: called with what its type check doesn't recognise.

    The dispatcher is made when it is first needed.
    """

    __slots__ = ("_address_of", "_dispatcher", "_function")

    def __init__(self, function: Function, address_of: Callable[[str], int]) -> None:
        self._function = function
        self._address_of = address_of
        self._dispatcher: Dispatcher | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the signature that these fit. Raises TypeError if there is none, and what the function raises."""
        dispatcher = self._dispatcher
        if dispatcher is None:
            dispatcher = self._dispatcher = _dispatcher(self._function, self._address_of)
        return dispatcher(*args, **kwargs)

    def __reduce__(self) -> Any:
        raise TypeError("a published function can't be pickled: load it by its name where it is needed")


def _checked(function: Function, address_of: Callable[[str], int]) -> Any:
    if function.check is None:
        return _dispatcher(function, address_of)
    return builtin(
        function.name,
        address_of(function.check),
        _FASTCALL_KEYWORDS,
        receiver=Published(function, address_of),
        doc=_documented(function),
        module=function.module,
    )


def _documented(function: Function) -> str:
    """A docstring as CPython's own builtins have it, behind a line from which `inspect.signature` reads the
    parameters.
    """
    count = len(function.parameters) - len(function.defaults)
    required, optional = function.parameters[:count], function.parameters[count:]
    values = [repr(each["json"]) if "json" in each else "..." for each in function.defaults]
    listed = [*required, *(f"{name}={value}" for name, value in zip(optional, values, strict=True))]
    return f"{function.name}({', '.join(listed)})\n--\n\n{function.doc or ''}"


def _dispatcher(function: Function, address_of: Callable[[str], int]) -> Dispatcher:
    from nbcache.published.dispatch import Dispatcher

    calls = [builtin(function.name, address_of(signature.symbol)) for signature in function.signatures]
    return Dispatcher(function, calls)
