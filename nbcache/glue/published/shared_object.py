"""What a linker wrote into a shared object: which places it leaves to the dynamic linker, and where symbols lie.

An image must load in processes where the dynamic linker would find none of its symbols, or the wrong ones: Numba's C
extensions keep theirs to themselves, and ``PyExc_ValueError`` means the class and not the variable. So its
relocations by name are taken out (:func:`detach`), and what they said becomes a table for whoever loads it.

Source: System V ABI, chapters 4 and 5, with the supplements for x86-64 and AArch64; little-endian ELF64.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from nbcache.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from nbcache.protocol.images import Slot

_HEADER: Final = struct.Struct("<4sBB10xHH")
_TABLES: Final = struct.Struct("<QQ")
_COUNTS: Final = struct.Struct("<HHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_RELOCATION: Final = struct.Struct("<QQq")
_SHARED_OBJECT: Final = 3
_SYMBOL_TABLE, _RELOCATIONS, _DYNAMIC_SYMBOLS = 2, 4, 11
_ALLOCATED: Final = 0x2
_SEALED, _NO_SEGMENT = 0x6474E552, 0  # PT_GNU_RELRO, PT_NULL
_NO_RELOCATION: Final = 0  # R_X86_64_NONE, R_AARCH64_NONE


class _Machine(NamedTuple):
    """Numbers of relocations: those that store a symbol's address, and the one for an address inside the image."""

    by_name: frozenset[int]  # absolute, GLOB_DAT, JUMP_SLOT
    relative: int


_MACHINES: Final = {62: _Machine(frozenset({1, 6, 7}), 8), 183: _Machine(frozenset({257, 1025, 1026}), 1027)}


class Detached(NamedTuple):
    """A shared object without relocations by name; what they were; where its symbols lie, local ones as well."""

    code: bytes
    slots: tuple[Slot, ...]
    symbols: dict[str, int]
    sealed: tuple[int, int]


def detach(code: bytes, keep: Collection[str]) -> Detached:
    """Take the relocations by name out of a shared object.

    ``keep`` are the symbols to be found in it. Raises ImageError for another kind of file, and for a relocation that
    can't become a slot.
    """
    try:
        machine, sections = _read(code)
        changed = bytearray(code)
        slots = sorted(_detach(changed, machine, sections))
        defined = {name: value for name, section, value in _symbols(code, sections, _SYMBOL_TABLE) if section}
        missing = sorted(set(keep) - defined.keys())
        if missing:
            raise ImageError(f"the linker left out {', '.join(missing)}")
        sealed = _unseal(changed)
        return Detached(bytes(changed), tuple(slots), {name: defined[name] for name in keep}, sealed)
    except (struct.error, IndexError, ValueError, StopIteration) as error:
        raise ImageError("the linker wrote something else than a shared object") from error


def _read(code: bytes) -> tuple[_Machine, list[tuple[int, ...]]]:
    magic, width, order, kind, number = _HEADER.unpack_from(code)
    if magic != b"\x7fELF" or (width, order, kind) != (2, 1, _SHARED_OBJECT) or number not in _MACHINES:
        raise ImageError(f"the linker made no shared object of a kind that can be an image (machine {number})")
    _, table = _TABLES.unpack_from(code, 0x20)
    _, _, size, count = _COUNTS.unpack_from(code, 0x36)
    return _MACHINES[number], [_SECTION.unpack_from(code, table + index * size) for index in range(count)]


def _detach(code: bytearray, machine: _Machine, sections: list[tuple[int, ...]]) -> Iterator[Slot]:
    """Replace each relocation by name by none, and yield what it said."""
    names = list(_symbols(code, sections, _DYNAMIC_SYMBOLS))
    for _name, kind, flags, _address, start, size, _link, _info, _align, _entry in sections:
        if kind != _RELOCATIONS or not flags & _ALLOCATED:
            continue
        for place in range(start, start + size, _RELOCATION.size):
            offset, info, addend = _RELOCATION.unpack_from(code, place)
            relocation, (name, section, _value) = info & 0xFFFFFFFF, names[info >> 32]
            if relocation in {machine.relative, _NO_RELOCATION}:
                continue
            if relocation not in machine.by_name or section or not name:
                raise ImageError(
                    f"its code refers to {name or 'something'} in a way that needs the dynamic linker ({relocation})"
                )
            _RELOCATION.pack_into(code, place, offset, _NO_RELOCATION, 0)
            yield offset, name, addend


def _symbols(code: bytes | bytearray, sections: list[tuple[int, ...]], table: int) -> Iterator[tuple[str, int, int]]:
    """Yield name, section and value of the symbols in the table of that kind, in its order."""
    _, _, _, _, start, size, link, *_ = next(section for section in sections if section[1] == table)
    strings = sections[link][4]
    for name, _info, _other, section, value, _size in _SYMBOL.iter_unpack(code[start : start + size]):
        yield bytes(code[strings + name : code.index(b"\0", strings + name)]).decode(), section, value


def _unseal(code: bytearray) -> tuple[int, int]:
    """Have the dynamic linker leave writable what it would make read-only; return the offset and size of that.

    The slots are among it, and are filled when the dynamic linker is done.
    """
    table, _ = _TABLES.unpack_from(code, 0x20)
    size, count, _, _ = _COUNTS.unpack_from(code, 0x36)
    for index in range(count):
        kind, *rest = _SEGMENT.unpack_from(code, table + index * size)
        if kind == _SEALED:
            _SEGMENT.pack_into(code, table + index * size, _NO_SEGMENT, *rest)
            _flags, _offset, address, _physical, _stored, length, _align = rest
            return address, length
    return 0, 0
