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

import ctypes
import functools
import struct
from typing import TYPE_CHECKING

from nbcache.glue.identity.files import file_digest
from nbcache.passing import suppressed
from nbcache.process import opened, os
from nbcache.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator


class Place(Record):
    """*offset* bytes from the beginning of a *library*, which is its build id or digest."""

    library: str
    offset: int
    copy: int
    """0 for the first address that this process met at the place."""


class _Info(ctypes.Structure):
    _fields_ = (
        ("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("symbol", ctypes.c_char_p), ("at", ctypes.c_void_p),
    )  # fmt: skip


# A prototype of our own: the attributes of ctypes.pythonapi are everybody's.
_dladdr = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Info))(("dladdr", ctypes.pythonapi))

_addresses: dict[tuple[str, int], list[int]] = {}


def place_of(address: int) -> Place | None:
    """The place of what lies at *address*; None for what is in no library, or in one whose file is gone."""
    found = _look(address)
    library = None if found is None else _identity(os.fsdecode(found.file), found.base)
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
    found = _look(address)
    return "" if found is None else os.fsdecode(found.file)


def in_words(address: int) -> str:
    """What lies at an address of a library, for people: its symbol if it has one, and the library's file."""
    found = _look(address)
    if found is None:
        return hex(address)
    exact = found.symbol is not None and found.at == address
    name = found.symbol.decode("utf-8", "replace") if exact else hex(address - found.base)
    return f"{name} in {os.path.basename(os.fsdecode(found.file))}"


def _look(address: int) -> _Info | None:
    found = _Info()
    return found if _dladdr(address, found) and found.file and found.base else None


@functools.lru_cache(maxsize=1024)
def _identity(path: str, _base: int) -> str | None:
    with suppressed(OSError, struct.error):
        return build_id(path) or file_digest(path).hex()
    return None


_MAGIC = b"\x7fELF\x02\x01"
"""64 bits, little-endian."""
_PT_NOTE = 4
_NT_GNU_BUILD_ID = 3
_LARGEST_NOTE = 1 << 16


def build_id(path: str) -> str | None:
    """The GNU build id of a library, in hex; None if it has none.  Raises OSError."""
    with opened(path, "rb") as file:
        head = file.read(64)
        if len(head) < 64 or not head.startswith(_MAGIC):
            return None
        offset, size, count = *struct.unpack_from("<Q", head, 32), *struct.unpack_from("<HH", head, 54)
        file.seek(offset)
        table = file.read(size * count)
        for start in range(0, len(table) - 55, size):
            kind, _flags, position, _address, _physical, length = struct.unpack_from("<IIQQQQ", table, start)
            if kind == _PT_NOTE and length <= _LARGEST_NOTE:
                file.seek(position)
                for name, note, content in _notes(file.read(length)):
                    if name == b"GNU\0" and note == _NT_GNU_BUILD_ID:
                        return content.hex()
    return None


def _notes(content: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    at = 0
    while at + 12 <= len(content):
        name_size, size, kind = struct.unpack_from("<III", content, at)
        name_end = at + 12 + (name_size + 3 & ~3)
        yield content[at + 12 : at + 12 + name_size], kind, content[name_end : name_end + size]
        at = name_end + (size + 3 & ~3)
