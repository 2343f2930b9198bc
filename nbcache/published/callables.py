"""Python's callables around entry points of compiled code, one for each kind of published function."""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, Any, Final

from nbcache.passing_exceptions import suppressed
from nbcache.published.members import Member

if TYPE_CHECKING:
    from nbcache.protocol.manifests import Constant, Function
    from nbcache.published.dispatch import Dispatcher

_VARARGS_KEYWORDS: Final = 0x1 | 0x2
"""METH_VARARGS | METH_KEYWORDS, Include/methodobject.h: how Numba's wrappers want to be called."""

_FASTCALL_KEYWORDS: Final = 0x80 | 0x2
"""METH_FASTCALL | METH_KEYWORDS: how type checks want to be called (:mod:`nbcache.glue.publishing.native_check`)."""


_PLAIN: Final = frozenset({bool, int, str, bytes, type(None)})
_NOT_FINITE: Final = {"nan": "1e400-1e400", "inf": "1e400", "-inf": "-1e400"}


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.restype, _new_function.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3


def make(member: Member) -> Any:
    """What is to be called for a function of a manifest."""
    # Imported here: most processes need one kind, and no dispatcher.
    if member.function.what == "njit":
        return _checked(member)
    if member.function.what == "cfunc":
        from nbcache.published import callbacks

        return callbacks.Callback(member)
    from nbcache.published import ufuncs

    return ufuncs.make(member)


def member_of(function: Any) -> Member | None:
    """Return what a function holds that :func:`make` made; None for anything else."""
    held = getattr(function, "__self__", None) or getattr(function, "member", None)
    if held is None and "numpy" in sys.modules:
        from nbcache.published import ufuncs

        held = ufuncs.owned(function)
    return held if isinstance(held, Member) else None


def builtin(
    member: Member,
    address: int,
    flags: int = _VARARGS_KEYWORDS,
    *,
    doc: str | None = None,
    module: str | None = None,
) -> Any:
    """A builtin function of Python around a C function, which gets the member as its first argument, and keeps it."""
    name = member.function.name.encode()
    definition = _MethodDef(name, address, flags, None if doc is None else doc.encode(errors="replace"))
    # Python lets go of what a function is a method of after its last look at the definition: Objects/methodobject.c.
    member.kept.append(definition)
    return _new_function(ctypes.addressof(definition), id(member), None if module is None else id(module))


class Published(Member):
    """What a published function is a method of: called with what its type check doesn't recognise.

    The dispatcher is made when it is first needed.
    """

    __slots__ = ("_dispatcher",)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._dispatcher: Dispatcher | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the signature that these fit. Raises TypeError if there is none, and what the function raises."""
        dispatcher = self._dispatcher
        if dispatcher is None:
            dispatcher = self._dispatcher = _dispatcher(self)
        return dispatcher(*args, **kwargs)


def _checked(member: Member) -> Any:
    function = member.function
    if function.check is None:
        return _dispatcher(member)
    held = Published(function, member.address_of, member.source, member.attribute)
    address = member.address_of(function.check)
    return builtin(held, address, _FASTCALL_KEYWORDS, doc=_documented(function), module=function.module)


def _documented(function: Function) -> str:
    """A docstring as CPython's own builtins have it, behind a line from which `inspect.signature` reads the
    parameters.
    """
    count = len(function.parameters) - len(function.defaults)
    required, optional = function.parameters[:count], function.parameters[count:]
    listed = [*required, *(f"{name}={_shown(data)}" for name, data in zip(optional, function.defaults, strict=True))]
    return f"{function.name}({', '.join(listed)})\n--\n\n{function.doc or ''}"


def _shown(default: Constant | None) -> str:
    """A default value as `inspect.signature` reads it: a plain one, or a tuple of such."""
    if default is None:
        return "..."
    if "json" in default:
        return repr(default["json"])
    from nbcache.published.environments import constant

    with suppressed(Exception):  # somebody else's class
        return _literal(constant(default))
    return "..."


def _literal(value: object) -> str:
    # Names such as nan are none to `inspect`, and before Python 3.12 it takes a tuple of one for what is in it.
    if type(value) is float:
        return _NOT_FINITE.get(repr(value), repr(value))
    if type(value) is tuple and (len(value) != 1 or sys.version_info >= (3, 12)):
        return f"({', '.join(map(_literal, value))}{',' * (len(value) == 1)})"
    return repr(value) if type(value) in _PLAIN else "..."


def _dispatcher(member: Member) -> Dispatcher:
    from nbcache.published.dispatch import Dispatcher

    function, address_of = member.function, member.address_of
    held = Member(function, address_of, member.source, member.attribute)
    return Dispatcher(held, [builtin(held, address_of(signature.symbol)) for signature in function.signatures])
