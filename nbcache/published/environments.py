"""The environments of compiled functions: an object for each, with the constants that its code reads.

Compiled code finds an environment through a variable that holds its address, and reads `globals` and `consts` at fixed
places behind the object's head, as numba/_dynfunc.c lays them out. A class of two slots has the same layout.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nbcache.published import unpickling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nbcache.protocol import manifests

_HEAD: Final = object.__basicsize__


class Environment:
    """What a compiled function reads at run time. Slots are laid out by their names, in alphabetical order."""

    __slots__ = ("a_globals", "b_consts")

    def __init__(self, module: str, constants: Iterable[manifests.Constant]) -> None:
        """Take the constants of a manifest. Raises what unpickling raises."""
        self.a_globals = {"__name__": module}
        self.b_consts = [constant(each) for each in constants]


def _is_laid_out() -> bool:
    probe = Environment("", ())
    word = ctypes.sizeof(ctypes.c_void_p)
    found = [ctypes.c_void_p.from_address(id(probe) + _HEAD + i * word).value for i in range(2)]
    return found == [id(probe.a_globals), id(probe.b_consts)]


if not _is_laid_out():
    raise ImportError("this Python lays out objects with slots in another way than published code expects")


def bind(environments: Iterable[manifests.Environment], address_of: Callable[[str], int], kept: list[Any]) -> None:
    """Let the variables of these environments, wherever they lie, hold one each, if they don't yet.

    Code has bare pointers to them: whoever keeps the code keeps what is ``kept``. Raises what unpickling raises; those
    that are bound by then stay.
    """
    for each in environments:
        variable = ctypes.c_void_p.from_address(address_of(each.symbol))
        if not variable.value:
            kept.append(Environment(each.module, each.constants))
            variable.value = id(kept[-1])


def constant(data: manifests.Constant) -> Any:
    """What a constant of a manifest is. Raises what unpickling raises."""
    if "dtype" in data:
        return dtype(data["dtype"])
    if "pickle" in data:
        import base64

        return unpickling.loads(base64.b64decode(data["pickle"]))
    return data["json"]


def dtype(description: Any) -> np.dtype[Any]:
    """What a dtype of a manifest is (:mod:`nbcache.protocol.manifests`). Raises what NumPy raises."""
    if isinstance(description, str):
        return np.dtype(description)
    fields = description["fields"]
    titled = [name if isinstance(name, list) else (None, name) for name, *_ in fields]
    laid_out: Any = {
        "names": [name for _, name in titled],
        "formats": [(dtype(kind), tuple(shape)) for _, kind, shape, _ in fields],
        "offsets": [offset for *_, offset in fields],
        "titles": [title for title, _ in titled],
        "itemsize": description["size"],
    }
    found: np.dtype[Any] = np.dtype(laid_out, align=description["aligned"])
    return found
