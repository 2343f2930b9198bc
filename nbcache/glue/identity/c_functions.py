"""C functions, which compiled code calls by their addresses: those of ctypes, cffi and Cython, and where they lie.

What is compiled depends on how such a function is called and not on its address, which is bound in each process
(addresses.py): that of the same place in a library, or else that of the object that stands where this one does. Cython
modules export theirs by name (``__pyx_capi__``), which `numba.extending.get_cython_function_address` gives programs.

A *place*, which is a shared library and how far from its beginning a function lies, is the same in each process that
has loaded the library, whatever address the kernel gave it, and is found without a search, also for functions that no
symbol names: static ones, and those that the C library chooses for a processor. A library is known by its build id, or
by the digest of its file if it has none.

Nothing of a library is compiled into a caller, which calls it by its address. So a place need only tell the functions
of one process apart, and a second address at the same place (a copy of the library, or the library loaded again)
counts as another *copy*. Within a process, places and addresses therefore correspond one to one, and code that was
compiled for a place is bound to the address that a function of this process has, never to one that is looked up.
"""

from __future__ import annotations

import ctypes
import sys
from types import BuiltinFunctionType
from typing import Any

from nbcache.process import os
from nbcache.records import Record
from nbcache.shared_libraries import build_of, capsule, exports_of, locate

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


# -- where they lie --------------------------------------------------------------------------------


class Place(Record):
    """*offset* bytes from the beginning of a *library*, which is its build id or digest."""

    library: str
    offset: int
    copy: int
    """0 for the first address that this process met at the place."""


_addresses: dict[tuple[str, int], list[int]] = {}


def place_of(address: int) -> Place | None:
    """The place of what lies at *address*; None for what is in no library, or in one whose file is gone."""
    found = locate(address)
    library = None if found is None else build_of(os.fsdecode(found.file), found.base)
    if found is None or library is None:
        return None
    offset = address - found.base
    known = _addresses.setdefault((library, offset), [])
    if address not in known:
        known.append(address)
    return Place(library, offset, known.index(address))


def address_at(place: Place) -> int | None:
    """The address at a place that `place_of` has returned in this process; None if it hasn't."""
    known = _addresses.get((place.library, place.offset), ())
    return known[place.copy] if place.copy < len(known) else None


def file_of(address: int) -> str:
    """The file of the library in which *address* lies, as it was named when it was loaded; "" if there is none."""
    found = locate(address)
    return "" if found is None else os.fsdecode(found.file)


def exported_address(module: str, name: str) -> int | None:
    """The address of what *module* exports as *name*; None if it isn't loaded or has nothing of that name."""
    found = exports_of(sys.modules.get(module)).get(name)
    return None if found is None else capsule(found)[1]


def exported_as(address: int) -> tuple[str, str] | None:
    """(module, name) of what the module exports in whose file *address* lies."""
    path = file_of(address)
    for module, loaded in sorted(sys.modules.items()) if path else ():
        if getattr(loaded, "__dict__", {}).get("__file__") == path:
            for name, exported in sorted(exports_of(loaded).items()):
                if capsule(exported)[1] == address:
                    return module, name
    return None
