"""The values in a module that was imported while something was compiled: what was loaded before may have made them."""

from __future__ import annotations

import hashlib
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from nbcache.glue.identity.exact import encode_atom
from nbcache.glue.identity.instances import dictionary_of
from nbcache.glue.identity.node import Unidentifiable
from nbcache.glue.identity.ownership import cell_values, is_toolchain_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MOST_VALUES = 100_000


def values_in(module: ModuleType) -> str:
    """The digest of the plain values in a module, and in the functions, classes and objects that are in it.

    Its file says all else.  Raises Unidentifiable if there are more than `MOST_VALUES`.
    """
    hasher = hashlib.blake2b(digest_size=16)
    # Modules in it that were imported later would not be there yet.
    found = [(name, value) for name, value in vars(module).items() if not isinstance(value, ModuleType)]
    pending: list[Any] = [part for item in found if item[0] not in _OF_IMPORT for part in item]
    seen: set[int] = set()
    while pending:
        value = pending.pop()
        hasher.update(_bytes_of(value))
        if id(value) not in seen:
            seen.add(id(value))
            pending += _parts_of(value, module.__name__)
        if len(seen) > MOST_VALUES:
            msg = f"the module {module.__name__}, in which there are more than {MOST_VALUES} values"
            raise Unidentifiable(msg)
    return hasher.hexdigest()


_OF_IMPORT = frozenset({"__builtins__", "__cached__", "__file__", "__loader__", "__path__", "__spec__"})
"""What a module has from being imported, which tells where it lies."""


def _bytes_of(value: object) -> bytes:
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return f"{value.dtype.str}{value.shape}".encode() + value.tobytes()
    return encode_atom(value) or type(value).__qualname__.encode("utf-8", "surrogatepass")


def _parts_of(value: Any, module: str) -> Iterable[object]:
    kind = type(value)
    if kind in _CONTAINERS:
        return _CONTAINERS[kind](value)
    if kind is FunctionType:
        return (value.__defaults__, value.__kwdefaults__, *cell_values(value))
    if not is_toolchain_module(kind.__module__):
        return (kind, dictionary_of(value))
    if isinstance(value, type) and value.__module__ == module:
        return [part for item in vars(value).items() if item[0][:2] != "__" for part in item]
    return ()


_CONTAINERS: dict[type, Callable[[Any], Iterable[object]]] = {
    tuple: list,
    list: list,
    # Their order is another one in each process.
    **dict.fromkeys((set, frozenset), lambda value: sorted(value, key=_bytes_of)),
    dict: lambda value: [part for item in value.items() for part in item],
}
