"""Numba's own types, such as `int64`, which entries refer to by name: made anew, one takes ten times as long."""

from __future__ import annotations

from typing import Any

from numba.core import types

from nbcache.glue.identity.ownership import is_numba_type

_NAMES = {id(each): name for name, each in vars(types).items() if is_numba_type(each)}


def name_of(obj: object) -> str | None:
    """Its name in `numba.core.types`, if it is one of them."""
    return _NAMES.get(id(obj))


def type_called(name: str) -> Any:
    """Called by unpickling.  Raises AttributeError where there is none of that name."""
    return getattr(types, name)
