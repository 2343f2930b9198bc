"""Types of arguments on a node: what a value's type is, and what converts to what, as Numba has it.

A type is a tuple whose first item is the kind of its type data (:mod:`nbcache.protocol.manifests`); equal types are
equal tuples. The rules are those of Numba 0.61 to 0.68: numba/core/typing/typeof.py for values, and for conversions
numba/core/typeconv/rules.py and the ``can_convert_to`` of numba/core/types.
"""

from __future__ import annotations

import enum
from typing import Any, Final

import numpy as np

from nbcache.protocol.manifests import SCALARS, TypeData
from nbcache.published.runtime import dtype

Type = tuple[Any, ...]

EXACT, PROMOTE, SAFE, UNSAFE = range(4)
"""How one type converts to another, the best first."""

_RULES: Final = {
    "bool": "essssssssssss",
    "int8": "uepppuuuussss",
    "int16": "uueppuuuussss",
    "int32": "uuuepuuuuusus",
    "int64": "uuuueuuuuusus",
    "uint8": "uusssepppssss",
    "uint16": "uuussueppusus",
    "uint32": "uuuusuuepusus",
    "uint64": "uuuuuuuueusus",
    "float32": "uuuuuuuuuepss",
    "float64": "uuuuuuuuuueus",
    "complex64": "-----------ep",
    "complex128": "-----------ue",
    # No code takes one: Numba's own has neither arithmetic for it nor a way to hand it over.
    "float16": "uuuuuuuuuppss",
}
"""From each scalar to each of `SCALARS`: exact, promotion, safe, unsafe or not at all."""
_WORD: Final = 64
"""Bits of the largest integers."""
_RANKS: Final = {"e": EXACT, "p": PROMOTE, "s": SAFE, "u": UNSAFE, "-": None}
_CONVERSIONS: Final = {
    (source, target): _RANKS[letter]
    for source, row in _RULES.items()
    for target, letter in zip(SCALARS, row, strict=True)
}

_PYTHON: Final[dict[type, Type]] = {
    bool: ("bool",),
    int: ("int64",),
    float: ("float64",),
    complex: ("complex128",),
    str: ("unicode_type",),
    bytes: ("bytes",),
    type(None): ("none",),
}
_NUMPY: Final[dict[Any, Type]] = {
    np.bool_: ("bool",),
    **{np.dtype(name).type: (name,) for name in SCALARS if name != "bool"},
    np.float16: ("float16",),
    # C's integers of the same size are classes of their own.
    **{np.dtype(code).type: (np.dtype(code).name,) for code in "bhilqBHILQ"},
}
_dtypes: dict[Any, Any] = {}


def of_data(data: TypeData) -> Type:
    """The type that type data describes. Raises what NumPy raises for a dtype that it doesn't know."""
    kind = data["k"]
    if kind == "array":
        return (kind, _shared(dtype(data["dtype"])), data["ndim"], data["layout"], data["mutable"], data["aligned"])
    if kind == "tuple":
        return (kind, tuple(map(of_data, data["items"])))
    if kind == "namedtuple":
        return (kind, data["class"], tuple(data["fields"]), tuple(map(of_data, data["items"])))
    if kind == "optional":
        return (kind, of_data(data["of"]))
    if kind == "record":
        return (kind, _shared(dtype(data["dtype"])))
    if kind in {"datetime64", "timedelta64"}:
        return (kind, data["unit"])
    return (kind,)


def of_value(value: Any) -> Type | None:
    """The type that Numba gives a value; None for one that published code never takes."""
    kind = type(value)
    found = _PYTHON.get(kind) or _NUMPY.get(kind)
    if found is not None:
        return found
    if isinstance(value, np.ndarray):
        return _of_array(value)
    if isinstance(value, tuple):
        items = tuple(map(of_value, value))
        if None in items:
            return None
        if kind is tuple:
            return ("tuple", items)
        # The fields as well: a node's version of the class may have them in another order.
        fields = getattr(kind, "_fields", None)
        return ("namedtuple", class_name(kind), fields, items) if isinstance(fields, tuple) else None
    if isinstance(value, np.void) and value.dtype.names is not None:
        return ("record", _shared(value.dtype))
    if isinstance(value, np.datetime64 | np.timedelta64):
        unit, count = np.datetime_data(value.dtype)
        return (kind.__name__, "" if unit == "generic" else unit) if count == 1 else None
    return _of_subclass(value)


def _of_array(value: np.ndarray[Any, Any]) -> Type | None:
    if isinstance(value, np.ma.MaskedArray):
        return None
    flags = value.flags
    layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
    # Numba takes every array for an aligned one, but of records without padding, wherever they are.
    aligned = value.dtype.names is None or value.dtype.isalignedstruct
    return ("array", _shared(value.dtype), value.ndim, layout, flags.writeable, aligned)


def _of_subclass(value: Any) -> Type | None:
    if isinstance(value, enum.IntEnum):
        return _of_member(type(value))
    # Python's numbers and strings are taken for what they are also as subclasses, other enumerations' members among
    # them; an integer by its size, then.
    if isinstance(value, int):
        return _of_integer(value)
    for base in (float, complex, str):
        if isinstance(value, base):
            return _PYTHON[base]
    return None


def _of_member(kind: type[enum.IntEnum]) -> Type | None:
    """The type of an enumeration's members; None where their values are of several."""
    values = [each.value for each in kind]
    found = {_of_integer(each) if type(each) is int else of_value(each) for each in values}
    only = found.pop() if len(found) == 1 else None
    return None if only is None else ("enum", only)


def _of_integer(value: int) -> Type | None:
    size = int.bit_length(value if value >= 0 else int.__invert__(value))
    return ("int64",) if size < _WORD else ("uint64",) if size == _WORD and value >= 0 else None


def _shared(described: np.dtype[Any]) -> Any:
    """One object for equal dtypes, so that comparing them is comparing addresses, mostly."""
    return _dtypes.setdefault(described, described)


def class_name(kind: type) -> str:
    """The name by which a manifest knows a class."""
    return f"{kind.__module__}:{kind.__qualname__}"


def conversion(source: Type, target: Type) -> int | None:
    """How a value of one type converts to another: one of the ranks above, or None."""
    if source == target:
        return EXACT
    kind, wanted = source[0], target[0]
    if wanted == "optional":
        if kind == "none":
            return PROMOTE
        inner = conversion(source, target[1])
        return None if inner is None else max(inner, PROMOTE)
    if kind == "enum":
        inner = conversion(source[1], target)
        return None if inner is None else max(inner, SAFE)
    if kind != wanted:
        return _CONVERSIONS.get((kind, wanted))
    if kind == "array":
        return _array_conversion(source, target)
    if kind == "record":
        return SAFE if _begins_with(source[1], target[1]) else None
    if kind == "tuple" and len(source[1]) == len(target[1]):
        ranks = [conversion(*pair) for pair in zip(source[1], target[1], strict=True)]
        return None if None in ranks else max(ranks, default=EXACT)  # type: ignore[type-var]
    return None


def _array_conversion(source: Type, target: Type) -> int | None:
    _, kind, dimensions, layout, mutable, aligned = source
    _, wanted_kind, wanted_dimensions, wanted_layout, wanted_mutable, wanted_aligned = target
    same = kind == wanted_kind and dimensions == wanted_dimensions and wanted_layout in {"A", layout}
    fits = (mutable or not wanted_mutable) and (aligned or not wanted_aligned)
    return SAFE if same and fits else None


def _begins_with(one: np.dtype[Any], other: np.dtype[Any]) -> bool:
    """Whether a record has all that the other one has, at the same places, before it has anything else."""
    fields, wanted = map(_by_place, (one, other))
    return fields[: len(wanted)] == wanted and all(map(_is_typed, (kind for _, _, kind, *_ in fields[len(wanted) :])))


def _by_place(described: np.dtype[Any]) -> list[tuple[Any, ...]]:
    fields = [(offset, name, kind, *title) for name, (kind, offset, *title) in (described.fields or {}).items()]
    # Without what a field is known by as well.
    return sorted((each for each in fields if each[1] in (described.names or ())), key=lambda each: each[:2])


def _is_typed(kind: np.dtype[Any]) -> bool:
    """Whether Numba has a type for a record with such a field."""
    base = kind.base
    if base.names is not None:
        return all(_is_typed(base[name]) for name in base.names)
    if base.kind in "mM":
        return base.isnative and np.datetime_data(base)[1] == 1
    return base.isnative and (base.kind in "SU" or base.name in {*SCALARS, "float16"})


def words(described: Type) -> str:
    """A type as a person reads it."""
    kind = described[0]
    if kind == "array":
        _, element, dimensions, layout, mutable, aligned = described
        notes = ("" if mutable else ", read-only") + ("" if aligned else ", unaligned")
        return f"array({element}, {dimensions}d, {layout}{notes})"
    if kind == "tuple":
        items = ", ".join(map(words, described[1]))
        return f"({items},)" if len(described[1]) == 1 else f"({items})"
    if kind == "namedtuple":
        return f"{described[1].rpartition(':')[2]}({', '.join(map(_field_words, described[2], described[3]))})"
    if kind == "optional":
        return f"{words(described[1])} or None"
    if kind == "record":
        return f"record({described[1]})"
    if kind == "enum":
        return f"member of an IntEnum of {words(described[1])}"
    if kind in {"datetime64", "timedelta64"}:
        return f"{kind}[{described[1]}]"
    return {"unicode_type": "str", "none": "None"}.get(kind, str(kind))


def _field_words(name: str, described: Type) -> str:
    return f"{name}: {words(described)}"


def words_of(value: Any) -> str:
    """A value's type as a person reads it, also for what published code never takes."""
    found = of_value(value)
    return words(found) if found is not None else type(value).__name__
