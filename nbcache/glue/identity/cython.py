"""Functions that Cython modules export (``__pyx_capi__``): the name of an address, and the address of a name.

`numba.extending.get_cython_function_address` gives programs such addresses, which differ from process to process.
"""

from __future__ import annotations

import ctypes
import sys
from types import ModuleType
from typing import Any

from nbcache.glue.identity.libraries import file_of

_CAPI = "__pyx_capi__"
# Prototypes of our own: the attributes of ctypes.pythonapi are everybody's.
_name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_pointer_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def address_of(module: str, name: str) -> int | None:
    """The address of what *module* exports as *name*; None if it isn't loaded or has nothing of that name."""
    capsule = _exports(sys.modules.get(module)).get(name)
    if type(capsule).__name__ != "PyCapsule":
        return None
    found: int | None = _pointer_in(capsule, _name_of(capsule))
    return found


def exported_as(address: int) -> tuple[str, str] | None:
    """(module, name) of what the module exports in whose file *address* lies."""
    path = file_of(address)
    for module, loaded in sorted(sys.modules.items()) if path else ():
        if getattr(loaded, "__dict__", {}).get("__file__") == path:
            for name in sorted(_exports(loaded)):
                if address_of(module, name) == address:
                    return module, name
    return None


def _exports(module: Any) -> dict[str, Any]:
    # Not getattr: a module that loads itself late would.
    found = vars(module).get(_CAPI) if isinstance(module, ModuleType) else None
    return found if isinstance(found, dict) else {}
