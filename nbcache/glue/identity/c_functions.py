"""Functions of ctypes and cffi, which compiled code calls by their addresses.

What is compiled depends on how such a function is called and not on its address, which is bound in each process
(addresses.py): that of the same place in a library, or else that of the object that stands where this one does.
"""

from __future__ import annotations

import ctypes
import sys
from types import BuiltinFunctionType
from typing import Any

CFuncPtr: type = ctypes._CFuncPtr  # type: ignore[attr-defined]


def is_ctypes_function(obj: object) -> bool:
    """Whether *obj* is a function pointer of ctypes."""
    return isinstance(obj, CFuncPtr)


def is_cffi_function(obj: object) -> bool:
    """Whether *obj* is a function pointer of cffi, or a function of a compiled cffi module that Numba was told of."""
    if isinstance(obj, BuiltinFunctionType):
        # Telling Numba of a module imports it. Importing it for a look would have cffi build a parser of C: 12 ms.
        known = sys.modules.get("numba.core.typing.cffi_utils")
        return obj in getattr(known, "_ool_func_ptr", ())
    # Asking about anything else would have cffi parse C.
    if type(obj).__module__ != "_cffi_backend":
        return False
    from numba.core.typing import cffi_utils

    return cffi_utils.SUPPORTED and bool(cffi_utils.is_cffi_func(obj))


def is_ffi(obj: object) -> bool:
    """Whether *obj*, of one of cffi's classes of that name, is one to Numba: those of compiled modules only if told."""
    known = sys.modules.get("numba.core.typing.cffi_utils")
    return type(obj).__module__ != "_cffi_backend" or obj in getattr(known, "_ffi_instances", ())


def address_of(function: Any) -> int:
    """Where *function* is in this process; 0 if it is nowhere."""
    if is_ctypes_function(function):
        return ctypes.cast(function, ctypes.c_void_p).value or 0
    from numba.core.typing import cffi_utils

    return cffi_utils.get_pointer(function)


def cffi_signature(function: Any) -> str:
    """How Numba calls a function of cffi.  Raises TypeError if it can't."""
    from numba.core.typing import cffi_utils

    typ = cffi_utils.make_function_type(function)
    return f"{typ.sig} {typ.cconv}"
