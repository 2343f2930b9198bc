"""C functions, for those who take pointers to them."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbcache.protocol.manifests import Function

_TYPES: Final[dict[str, Any]] = {
    "none": None,
    "void*": ctypes.c_void_p,
    "bool": ctypes.c_bool,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    **{f"{sign}int{bits}": getattr(ctypes, f"c_{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


class Callback:
    """What ``@cfunc`` made: an address for C, and a function of ctypes."""

    def __init__(self, function: Function, address: int) -> None:
        """Take the function of a manifest, and where its code lies."""
        self.__name__ = function.name
        self.__module__ = function.module
        self.__doc__ = function.doc
        self.address = address
        """What C calls: it is valid for the life of the process."""
        *arguments, result = (_c_type(each["json"]) for each in function.signatures[0].types)
        self.ctypes = ctypes.CFUNCTYPE(result, *arguments)(address)

    def __call__(self, *args: Any) -> Any:
        """Call it through ctypes."""
        return self.ctypes(*args)


def make(function: Function, address_of: Callable[[str], int]) -> Callback:
    """The callback that a function of a manifest is."""
    return Callback(function, address_of(function.signatures[0].symbol))


def _c_type(name: str) -> Any:
    found = _TYPES.get(name)
    if found is None and name != "none":
        found = ctypes.POINTER(_c_type(name.removesuffix("*")))
    return found
