"""Numba's types as type data (`nbcache.protocol.manifests`), or the reason why a node without Numba can't handle
one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import typeof
from numba.core import types
from numba.np.numpy_support import as_dtype

from nbcache.glue.publishing.constants import dtype_data
from nbcache.glue.publishing.refusals import Refused
from nbcache.protocol.manifests import SCALARS, Constant, TypeData

if TYPE_CHECKING:
    from collections.abc import Iterable

_CONTAINERS = (types.ListType, types.DictType, types.ClassInstanceType)
_BOXED = (
    types.Number,
    types.Boolean,
    types.NoneType,
    types.UnicodeType,
    types.Array,
    types.Record,
    types.NPDatetime,
    types.NPTimedelta,
    types.List,
    types.Set,
    types.UnicodeCharSeq,
    types.CharSeq,
    types.Bytes,
    types.ByteArray,
    types.RangeType,
    types.SliceType,
    types.EnumMember,
    types.EphemeralPointer,
    types.Generator,
)
"""What compiled code turns into Python's objects without Numba's Python."""
_KNOWN = "{} numbers, text, arrays, or tuples of these instead"


def type_data(typ: Any) -> TypeData:
    """Type data for the type of an argument.  Raises Refused."""
    if isinstance(typ, types.Array):
        return _array(typ)
    if isinstance(typ, types.BaseNamedTuple):
        kind = typ.instance_class
        items = [type_data(item) for item in typ.types]
        return {"k": "namedtuple", "items": items, "fields": list(typ.fields), "class": _importable(kind)}
    if isinstance(typ, types.BaseTuple):
        return {"k": "tuple", "items": [type_data(item) for item in typ.types]}
    if isinstance(typ, types.Optional):
        return {"k": "optional", "of": type_data(typ.type)}
    if isinstance(typ, types.Omitted):
        return {"k": "omitted"}  # the value is compiled into the code
    if isinstance(typ, types.Record):
        return {"k": "record", "dtype": dtype_data(as_dtype(typ))}
    if isinstance(typ, types.NPDatetime | types.NPTimedelta):
        return {"k": "datetime64" if isinstance(typ, types.NPDatetime) else "timedelta64", "unit": typ.unit}
    if typ == typeof(b""):
        return {"k": "bytes"}
    if not isinstance(typ, types.Literal) and str(typ) in {*SCALARS, "none", "unicode_type"}:
        return {"k": str(typ)}
    raise Refused(_reason(typ))


def _array(typ: Any) -> TypeData:
    if type(typ) is not types.Array:
        raise Refused(f"it takes {typ}, an array of a kind that only Numba knows: take a plain array")
    return {
        "k": "array",
        "dtype": dtype_data(as_dtype(typ.dtype)),
        "ndim": typ.ndim,
        "layout": typ.layout,
        "mutable": typ.mutable,
        "aligned": typ.aligned,
    }


def _importable(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _reason(typ: Any) -> str:
    if isinstance(typ, types.List | types.Set):
        return f"it takes a {typ}, which is copied back element by element when the call is over: take an array instead"
    if isinstance(typ, _CONTAINERS):
        return f"it takes {typ}, which only Numba can make: take arrays or tuples instead, and make it inside"
    if isinstance(typ, types.Dispatcher | types.FunctionType | types.Callable):
        return "it takes a function, which would have to be compiled by Numba: call it by its name instead"
    if isinstance(typ, types.Literal):
        advice = "name plain types in signatures=[…], or make it a constant of the function"
        return f"it takes the value {typ.literal_value!r} itself as a part of its type: {advice}"
    if isinstance(typ, types.IntEnumMember):
        return (
            f"it takes {typ}, whose class is nothing without Numba: publish it for {typ.dtype}, as which members pass"
        )
    return f"it takes {typ}, which a node without Numba doesn't know how to hand over: {_KNOWN.format('take')}"


def check_result(typ: Any) -> None:
    """See that a result of this type becomes a Python object without Numba.  Raises Refused."""
    if isinstance(typ, types.BaseTuple):
        for item in typ.types:
            check_result(item)
    elif isinstance(typ, types.Optional):
        check_result(typ.type)
    elif isinstance(typ, types.Literal):
        check_result(typ.literal_type)
    elif isinstance(typ, types.List | types.Set):
        check_result(typ.dtype)
    elif isinstance(typ, types.Generator):
        check_result(typ.yield_type)
    elif isinstance(typ, _CONTAINERS):
        raise Refused(f"it returns {typ}, which only Numba can hold: return arrays or tuples of its content instead")
    elif isinstance(typ, types.Dispatcher | types.FunctionType | types.Callable):
        raise Refused(
            "it returns a function, which would have to be called by Numba: call it inside, and return the result"
        )
    elif not isinstance(typ, _BOXED):
        raise Refused(f"it returns {typ}, which a node without Numba doesn't know: {_KNOWN.format('return')}")


def loop_dtypes(operands: Iterable[Any]) -> tuple[Constant, ...]:
    """The dtypes of the operands of a ufunc's loop.  Raises Refused."""
    found = [as_dtype(typ.dtype if isinstance(typ, types.Array) else typ) for typ in operands]
    return tuple({"dtype": dtype_data(np.dtype(each))} for each in found)


def c_types(typs: Iterable[Any]) -> tuple[Constant, ...]:
    """The types of a C function: a scalar's name, ``void`` for a pointer to anything, each with a ``*`` for a pointer.

    Raises Refused.
    """
    return tuple({"json": _c_type(typ)} for typ in typs)


def _c_type(typ: Any) -> str:
    if isinstance(typ, types.CPointer):
        return _c_type(typ.dtype) + "*"
    if typ == types.voidptr:
        return "void*"
    if str(typ) in {*SCALARS, "none"} and not isinstance(typ, types.Complex):
        return str(typ)
    raise Refused(f"it takes or returns {typ}, which ctypes has no type for: use pointers to it")
