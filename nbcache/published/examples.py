"""Arguments made up for a type: small, and of no meaning."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from nbcache.protocol.manifests import SCALARS, TypeData
from nbcache.published.manifest_names import named
from nbcache.published.runtime import dtype

_SIDE: Final = 2
"""The length of an array in each dimension."""
_LARGEST: Final = 1 << 16
"""The most elements of an array: an array of many dimensions is one element in each."""


class CannotMakeUp(Exception):  # noqa: N818  a verdict, not a malfunction
    """There is no telling what an argument of this type might be."""


def example(data: TypeData) -> Any:
    """Return a value of the type that type data describes. Raises CannotMakeUp."""
    kind = data["k"]
    if kind in SCALARS:
        return np.dtype(kind).type(1) if kind not in _PYTHON else _PYTHON[kind](1)
    if kind == "array":
        return _array(data)
    if kind == "tuple":
        return tuple(map(example, data["items"]))
    if kind == "namedtuple":
        try:
            return named(data["class"])(*map(example, data["items"]))
        except Exception as exc:
            raise CannotMakeUp(data["class"]) from exc
    if kind == "record":
        return np.zeros(1, dtype(data["dtype"]))[0]
    if kind in {"datetime64", "timedelta64"}:
        return getattr(np, kind)(1, *([data["unit"]] if data["unit"] else []))
    plain = {"none": None, "unicode_type": "a", "bytes": b"a", "optional": None}
    if kind not in plain:
        raise CannotMakeUp(kind)
    return plain[kind]


_PYTHON: Final[dict[str, type]] = {"bool": bool, "int64": int, "float64": float, "complex128": complex}


def _array(data: TypeData) -> Any:
    dimensions = data["ndim"]
    side = _SIDE if _SIDE**dimensions <= _LARGEST else 1
    described = dtype(data["dtype"])
    # A layout of neither kind: every second element of an array that is twice as long.
    strided = data["layout"] == "A" and dimensions
    shape = [side] * dimensions
    if strided:
        shape[-1] *= 2
    found = np.zeros(shape, described, order="F" if data["layout"] == "F" else "C")
    if described.kind in "biufc":
        found += np.ones((), described)
    found = found[..., ::2] if strided else found
    found.flags.writeable = data["mutable"]
    return found
