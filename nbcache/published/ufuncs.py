"""Ufuncs of NumPy around loops of compiled code.

They are made by NumPy's own C API, as Numba makes its ufuncs, and are ``numpy.ufunc`` in every respect: all loops with
NumPy's choice among them, ``out=``, ``reduce``, ``accumulate``, ``at``. Source: numpy/ufuncobject.h.

NumPy chooses otherwise among loops that a ufunc is made with and loops that it gets later: the former are found by
exact types first, the latter in their order. Numba's ufuncs get theirs later (numba/np/ufunc/_internal.c:
dufunc__add_loop), its generalised ufuncs are made with them; so it is here, or a result would be of another type than
Numba's.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

from nbcache.published.environments import constant
from nbcache.published.hosts import api_function

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbcache.protocol.manifests import Function

_SLOT: Final = 31
"""PyUFunc_FromFuncAndDataAndSignature in the table of NumPy's ufunc API (numpy/__ufunc_api.h)."""
_POINTER, _TEXT, _INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
_PROTOTYPE: Final = ctypes.PYFUNCTYPE(
    ctypes.py_object, _POINTER, _POINTER, _POINTER, _INT, _INT, _INT, _INT, _TEXT, _TEXT, _INT, _TEXT
)


class _Head(ctypes.Structure):
    """PyUFuncObject behind its object head, as far as it is public and of the same layout in NumPy 1 and 2."""

    _fields_ = (
        ("nin", _INT),
        ("nout", _INT),
        ("nargs", _INT),
        ("identity", _INT),
        ("functions", _POINTER),
        ("data", _POINTER),
        ("ntypes", _INT),
        ("reserved1", _INT),
        ("name", _TEXT),
        ("types", _POINTER),
    )


_kept: list[Any] = []
"""A ufunc holds pointers to all that it is made of, and is no owner of any."""


def make(function: Function, address_of: Callable[[str], int]) -> Any:
    """The ufunc, or generalised ufunc, that a function of a manifest is."""
    facts = function.ufunc
    assert facts is not None, "the manifest was decoded"
    count = len(function.signatures)
    loops = (_POINTER * count)(*(address_of(each.symbol) for each in function.signatures))
    data = (_POINTER * count)()
    numbers = bytes(constant(each).num for signature in function.signatures for each in signature.types)
    types = ctypes.create_string_buffer(numbers, len(numbers))
    name = function.name.encode()
    doc = None if function.doc is None else function.doc.encode()
    core = None if facts.signature is None else facts.signature.encode()
    _kept.append((loops, data, types, name, doc, core))
    create = _PROTOTYPE(api_function("_UFUNC_API", _SLOT))
    parts = tuple(ctypes.addressof(each) for each in (loops, data, types))
    shape = (facts.inputs, facts.outputs, facts.identity, name, doc, 0, core)
    if core is not None:
        return create(*parts, count, *shape)
    made = create(None, None, None, 0, *shape)
    head = _Head.from_address(id(made) + object.__basicsize__)
    head.functions, head.data, head.types, head.ntypes = *parts, count
    return made
