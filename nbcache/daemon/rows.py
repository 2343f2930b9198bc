"""What the daemon's state is made of: rows of known columns, as JSON holds them. What is malformed is left out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from nbcache.store import layout, standing

_MOST: Final = float(1 << 53)
_FILE: Final = (int, int, float, float, float, int)
_ENTRY: Final = (float, list)


class File(NamedTuple):
    """One variant of an entry."""

    slot: int
    size: int
    """[bytes]"""
    mtime: float
    """Unix time [s]."""
    created: float
    """Unix time [s]; 0 when the header can't be read."""
    compile_seconds: float
    """[s]; 0 when the header can't be read."""
    asked: int = standing.OWNER
    """Whom it was built for (:func:`nbcache.store.standing.asker`)."""


@dataclass(slots=True)
class Entry:
    """What is known of a key."""

    files: tuple[File, ...] = ()
    """By slot."""
    last_use: float = 0.0
    """When it was last hit, as far as usage records tell; Unix time [s]."""


Shard = dict[str, Entry]
"""The entries of one shard, by key."""


def encode(entries: Shard) -> dict[str, object] | None:
    """Return what :func:`decode` takes; None for nothing."""
    return {key: (entry.last_use, entry.files) for key, entry in entries.items()} or None


def decode(value: object) -> Shard:
    """Return a shard without what is malformed."""
    entries = {}
    for key, raw in mapping(value).items():
        columns = row(raw, _ENTRY)
        if columns is not None and layout.is_key(key):
            last_use, files = columns
            found = [File(*file) for file in (row(item, _FILE) for item in files) if file is not None]
            entries[key] = Entry(tuple(file for file in found if 0 <= file.slot < layout.MAX_SLOTS), last_use)
    return entries


def mapping(value: object) -> dict[str, Any]:
    """Return a JSON object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def row(value: object, types: tuple[type, ...]) -> Any:
    """Return a row as a tuple if its columns are of ``types`` (whole numbers pass for floats); None otherwise."""
    if not isinstance(value, (list, tuple)) or len(value) != len(types):
        return None
    pairs = zip(value, types, strict=True)
    columns = tuple(float(item) if kind is float and type(item) is int else item for item, kind in pairs)
    return columns if all(type(item) is kind for item, kind in zip(columns, types, strict=True)) else None


def number(value: object) -> float:
    """Return a number as a float; 0 for what isn't one, is negative, infinite or beyond reason."""
    if type(value) not in {int, float}:
        return 0.0
    found = float(value) if abs(value) < _MOST else 0.0  # type: ignore[arg-type]  # checked above
    return found if found > 0 and math.isfinite(found) else 0.0
