"""What the manifests of few publications have: arrays that code points to, C functions that it calls, ufuncs.

See :mod:`nbcache.protocol.manifests`, which reads and writes them with all else.
"""

from __future__ import annotations

from typing import Final

from nbcache import grammar
from nbcache.grammar import choice, hexadecimal, record
from nbcache.records import Record


class Array(Record):
    """A global array that code points to: a file in NumPy's format."""

    digest: str
    what: str
    """``data``: its first element is pointed to; ``object``: the array itself, as Python has it."""
    offset: int
    """Where in the data the first element lies [bytes]."""


class Native(Record):
    """A C function that code calls, where a node finds it."""

    what: str
    """``function``: the symbol is the function. ``pointer``: it is a variable that holds its address."""
    library: str
    """How the dynamic linker knows it; of a Cython module its dotted name."""
    path: str
    """The file in which it was; "" for what a node has in any case, and for modules."""
    build: str
    """The library's build id, or the digest of its file; "" where any build will do."""
    symbol: str
    """Its name there; "" if it has none."""
    offset: int
    """Where it lies from the library's beginning, for one without a name [bytes]."""
    signature: str
    """In C, of what a Cython module exports; "" for all else."""


class Ufunc(Record):
    """What a NumPy ufunc is besides its loops."""

    inputs: int
    outputs: int
    identity: int
    """As NumPy's C API has it: ``PyUFunc_None`` is -1."""
    signature: str | None
    """Of a generalised ufunc."""


ARRAY: Final = record(Array, digest=hexadecimal(64), what=choice("data", "object"))
NATIVE: Final = record(Native, what=choice("function", "pointer"))
UFUNC: Final = record(Ufunc, identity=grammar.whole)
