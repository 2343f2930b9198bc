"""Ufuncs of NumPy around loops of compiled code.

They are made by NumPy's own C API, as Numba makes its ufuncs, and are ``numpy.ufunc`` in every respect: all loops with
NumPy's choice among them, ``out=``, ``reduce``, ``accumulate``, ``at``. Source: numpy/ufuncobject.h.

NumPy chooses otherwise among loops that a ufunc is made with and loops that it gets later: the former are found by
exact types first, the latter in their order. Numba's ufuncs get theirs later (numba/np/ufunc/_internal.c:
dufunc__add_loop), its generalised ufuncs are made with them; so it is here, or a result would be of another type than
Numba's.

A kernel of a generalised ufunc may read what it is to write to, such as a sum that it adds to. Numba has NumPy hand
that over also where it converts what it is given as ``out=``; without being told, NumPy would hand over memory that
nobody has written to. Kernels of ufuncs return what they compute, and read none of it.
"""

from __future__ import annotations

import copyreg
import ctypes
import functools
from typing import Any, Final

import numpy as np

from nbcache.hosts import api_function
from nbcache.published.members import Member, function_of
from nbcache.published.runtime import constant

_SLOT: Final = 31
"""PyUFunc_FromFuncAndDataAndSignature in the table of NumPy's ufunc API (numpy/__ufunc_api.h)."""
_POINTER, _TEXT, _INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
_PROTOTYPE: Final = ctypes.PYFUNCTYPE(
    ctypes.py_object, _POINTER, _POINTER, _POINTER, _INT, _INT, _INT, _INT, _TEXT, _TEXT, _INT, _TEXT
)
_OUTPUT: Final = 0x00010000 | 0x00800000 | 0x01000000
"""NPY_ITER_READWRITE | NPY_ITER_UPDATEIFCOPY | NPY_ITER_ALLOCATE (numpy/ndarraytypes.h), as Numba sets them."""


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
        ("doc", _POINTER),
        ("ptr", _POINTER),
        ("obj", _POINTER),
        ("others", _POINTER * 10),
        ("op_flags", ctypes.POINTER(ctypes.c_uint32)),
    )


def make(member: Member) -> Any:
    """The ufunc, or generalised ufunc, that a function of a manifest is."""
    function, address_of = member.function, member.address_of
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
    # A ufunc holds pointers to all that it is made of, and owns one object, which it lets go of at its end.
    member.kept += loops, data, types, name, doc, core
    create = _PROTOTYPE(api_function("_UFUNC_API", _SLOT))
    parts = tuple(ctypes.addressof(each) for each in (loops, data, types))
    shape = (facts.inputs, facts.outputs, facts.identity, name, doc, 0, core)
    made = create(None, None, None, 0, *shape) if core is None else create(*parts, count, *shape)
    head = _head(made)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(member))
    head.obj = id(member)
    _pickled_by_us()
    if core is not None:
        for i in range(facts.inputs, facts.inputs + facts.outputs):
            head.op_flags[i] = _OUTPUT
        return made
    head.functions, head.data, head.types, head.ntypes = *parts, count
    return made


def owned(ufunc: Any) -> Any:
    """Return the object that a ufunc of NumPy owns, which is a member if it was made here; None for anything else."""
    found = _head(ufunc).obj if type(ufunc) is np.ufunc else None
    return None if found is None else ctypes.cast(found, ctypes.py_object).value


def _head(ufunc: Any) -> _Head:
    return _Head.from_address(id(ufunc) + object.__basicsize__)


@functools.cache
def _pickled_by_us() -> None:
    """Have published ufuncs pickled as what they are; NumPy would take each for an attribute of a module."""
    others = copyreg.dispatch_table.get(np.ufunc)

    def reduced(ufunc: np.ufunc) -> Any:
        member = owned(ufunc)
        if isinstance(member, Member):
            return function_of, member.portable()
        return ufunc.__reduce_ex__(4) if others is None else others(ufunc)

    copyreg.pickle(np.ufunc, reduced)
