"""Where a C function lies: in which shared library, and how far from the library's beginning.

Such a *place* is the same in each process that has loaded the library, whatever address the kernel gave it, and is
found without a search, also for functions that no symbol names: static ones, and those that the C library chooses for
a processor. A library is known by its build id, or by the digest of its file if it has none.

Nothing of a library is compiled into a caller, which calls it by its address. So a place need only tell the functions
of one process apart, and a second address at the same place (a copy of the library, or the library loaded again)
counts as another *copy*. Within a process, places and addresses therefore correspond one to one, and code that was
compiled for a place is bound to the address that a function of this process has, never to one that is looked up.
"""

from __future__ import annotations

from nbcache.process import os
from nbcache.records import Record
from nbcache.shared_libraries import build_of, locate


class Place(Record):
    """*offset* bytes from the beginning of a *library*, which is its build id or digest."""

    library: str
    offset: int
    copy: int
    """0 for the first address that this process met at the place."""


_addresses: dict[tuple[str, int], list[int]] = {}


def place_of(address: int) -> Place | None:
    """The place of what lies at *address*; None for what is in no library, or in one whose file is gone."""
    found = locate(address)
    library = None if found is None else build_of(os.fsdecode(found.file), found.base)
    if found is None or library is None:
        return None
    offset = address - found.base
    known = _addresses.setdefault((library, offset), [])
    if address not in known:
        known.append(address)
    return Place(library, offset, known.index(address))


def address_at(place: Place) -> int | None:
    """The address at a place that `place_of` has returned in this process; None if it hasn't."""
    known = _addresses.get((place.library, place.offset), ())
    return known[place.copy] if place.copy < len(known) else None


def file_of(address: int) -> str:
    """The file of the library in which *address* lies, as it was named when it was loaded; "" if there is none."""
    found = locate(address)
    return "" if found is None else os.fsdecode(found.file)
