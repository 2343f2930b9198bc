"""Functions that Cython modules export (``__pyx_capi__``): the name of an address, and the address of a name.

`numba.extending.get_cython_function_address` gives programs such addresses, which differ from process to process.
"""

from __future__ import annotations

import sys

from nbcache.glue.identity.c_libraries import file_of
from nbcache.shared_libraries import capsule, exports_of


def address_of(module: str, name: str) -> int | None:
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
