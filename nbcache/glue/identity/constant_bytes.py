"""Exact bytes for immutable values.

Two values get the same bytes only if compiled code cannot tell them apart: ``1``, ``1.0`` and
``True`` differ, so do ``0.0`` and ``-0.0``, two NaNs with different payloads, ``"a"`` and ``b"a"``.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import numpy as np


def _framed(tag: bytes, payload: bytes) -> bytes:
    return tag + len(payload).to_bytes(8, "little") + payload


def _encode_complex(value: complex) -> bytes:
    return _framed(b"c", struct.pack("<dd", value.real, value.imag))


def _encode_generic(value: np.generic) -> bytes:
    return _framed(b"g", encode_dtype(value.dtype) + value.tobytes())


def encode_dtype(dtype: np.dtype) -> bytes:
    """Byte order, layout, field names and offsets, alignment: all that typing reads."""
    text = f"{dtype.str}|{dtype!r}|{dtype.itemsize}|{dtype.alignment}|{dtype.isalignedstruct}"
    # Of a record inside it says neither whether that one is aligned nor, where it lists fields, how far apart they lie.
    fields = (field[0].base for field in (dtype.base.fields or {}).values())
    inside = b"".join(encode_dtype(field) for field in fields if field.names is not None)
    return _framed(b"d", text.encode() + inside)


def _encode_slice(value: Any) -> bytes | None:
    parts = [encode_atom(part) for part in (value.start, value.stop, value.step)]
    found = [part for part in parts if part is not None]
    return _framed(b"l", b"".join(found)) if len(found) == len(parts) else None


_ATOMS: dict[type, Callable[[Any], bytes | None]] = {
    type(None): lambda _value: b"N",
    type(Ellipsis): lambda _value: b"E",
    type(NotImplemented): lambda _value: b"I",
    bool: lambda value: b"T" if value else b"F",
    int: lambda value: _framed(b"i", b"%d" % value),
    float: lambda value: _framed(b"f", struct.pack("<d", value)),
    complex: _encode_complex,
    str: lambda value: _framed(b"s", value.encode("utf-8", "surrogatepass")),
    bytes: lambda value: _framed(b"b", value),
    range: lambda value: _framed(b"r", repr(value).encode()),
    slice: _encode_slice,
}


def encode_atom(value: object) -> bytes | None:
    """The bytes of *value*, or None when it is no atom.  Subclasses of atoms are no atoms, nor is a slice of others."""
    encoder = _ATOMS.get(type(value))
    if encoder is not None:
        return encoder(value)
    # Its class is asked, and not the value, which may do anything when somebody asks what it is.
    kind = type(value)
    if issubclass(kind, np.generic):
        scalar = cast("np.generic", value)
        # A record can be assigned to.
        fixed = kind.__module__ == "numpy" and not scalar.dtype.hasobject and not issubclass(kind, np.void)
        return _encode_generic(scalar) if fixed else None
    # Fields can be renamed.
    return encode_value(value) if issubclass(kind, np.dtype) and cast("np.dtype", value).base.names is None else None


def encode_value(value: object) -> bytes | None:
    """The same for whatever a copy is as good as; a dtype's fields count by the names that they have now."""
    if issubclass(type(value), np.dtype):
        dtype = cast("np.dtype", value)
        return None if list(extras_of(dtype)) else encode_dtype(dtype)
    return encode_atom(value)


def extras_of(dtype: np.dtype) -> Iterator[object]:
    """What a dtype holds that isn't in its bytes: metadata, and classes of scalars that aren't NumPy's."""
    if dtype.metadata:
        yield dict(dtype.metadata)
    if dtype.type.__module__ != "numpy":
        yield dtype.type
    if dtype.subdtype is not None:
        yield from extras_of(dtype.subdtype[0])
    for field in (dtype.fields or {}).values():
        yield from extras_of(field[0])


def have_one_order(items: Iterable[object]) -> bool:
    """Whether all processes go in one order through sets that were made alike of *items*.

    The hashes of numbers have no seed. Those of texts have one, which processes may have been given.
    """
    return _SEED_IS_GIVEN or all(
        have_one_order(item) if type(item) is tuple or type(item) is frozenset else type(item) in _NUMBERS
        for item in items
    )


_NUMBERS = frozenset({bool, int, float, complex})
_SEED_IS_GIVEN = not sys.flags.hash_randomization or os.environ.get("PYTHONHASHSEED", "") not in {"", "random"}


def encode_constant(value: object, *, ordered: bool = True) -> bytes:
    """The bytes of a constant the Python compiler can put into ``co_consts`` (no code objects).

    *ordered*: whether the order of a frozen set may matter to somebody.
    """
    found = encode_plain(value, ordered=ordered)
    if found is None:
        raise TypeError(f"unknown constant of type {type(value).__name__}")
    return found


def encode_plain(value: object, *, ordered: bool = True) -> bytes | None:
    """The bytes of an atom, or of a tuple or frozen set of nothing else; None for all others."""
    encoder = _ATOMS.get(type(value))
    if encoder is not None:
        return encoder(value)
    if type(value) is not tuple and type(value) is not frozenset:
        return encode_atom(value)
    items = [encode_plain(item) for item in value]
    parts = [item for item in items if item is not None]
    if len(parts) < len(items):
        return None
    if type(value) is tuple:
        return _framed(b"(", b"".join(parts))
    # Numba puts them into a set in the order that processes share, and code that runs goes through them.
    return _framed(b"{", b"".join(parts if ordered and have_one_order(value) else sorted(parts)))


def spelt(value: Any) -> str:
    """A value as `repr` has it, but for the order of sets, which processes don't share, and of dictionaries."""
    if type(value) in {set, frozenset}:
        return f"{type(value).__name__}({sorted(map(spelt, value))})"
    if type(value) is dict:
        return f"dict({sorted((spelt(key), spelt(each)) for key, each in value.items())})"
    return repr(value)
