"""What a linker wrote into a shared object: which places it leaves to the dynamic linker, and where symbols lie.

An image must load in processes where the dynamic linker would find none of its symbols, or the wrong ones: Numba's C
extensions keep theirs to themselves, and ``PyExc_ValueError`` means the class and not the variable. So its
relocations by name are taken out (:func:`detach`), and what they said becomes a table for whoever loads it.

Source: System V ABI, chapters 4 and 5, with the supplements for x86-64 and AArch64; little-endian ELF64.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from nbcache import elf
from nbcache.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from nbcache.protocol.manifests import Slot

_RELOCATION: Final = struct.Struct("<QQq")
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
        file = elf.Elf(bytearray(code))
        slots = sorted(_detach(file))
        defined = {
            symbol.name: symbol.value for symbol in file.symbols(elf.SYMBOL_TABLE) if symbol.section != elf.UNDEFINED
        }
        missing = sorted(set(keep) - defined.keys())
        if missing:
            raise ImageError(f"the linker left out {', '.join(missing)}")
        sealed = _unseal(file)
        return Detached(bytes(file.code), tuple(slots), {name: defined[name] for name in keep}, sealed)
    except elf.MALFORMED as error:
        raise ImageError("the linker wrote something else than a shared object") from error


def _detach(file: elf.Elf) -> Iterator[Slot]:
    """Replace each relocation by name by none, and yield what it said."""
    machine = _MACHINES.get(file.machine)
    if file.kind != elf.SHARED_OBJECT or machine is None:
        number = file.machine
        raise ImageError(f"the linker made no shared object of a kind that can be an image (machine {number})")
    names = list(file.symbols(elf.DYNAMIC_SYMBOLS))
    for section in file.sections:
        if section.kind != elf.RELOCATIONS or not section.flags & _ALLOCATED:
            continue
        for place in range(section.start, section.start + section.size, _RELOCATION.size):
            offset, info, addend = _RELOCATION.unpack_from(file.code, place)
            relocation, symbol = info & 0xFFFFFFFF, names[info >> 32]
            if relocation in {machine.relative, _NO_RELOCATION}:
                continue
            if relocation not in machine.by_name or symbol.section != elf.UNDEFINED or not symbol.name:
                raise ImageError(
                    f"its code refers to {symbol.name or 'something'} in a way that needs the dynamic linker "
                    f"({relocation})"
                )
            _RELOCATION.pack_into(file.code, place, offset, _NO_RELOCATION, 0)
            yield offset, symbol.name, addend


def _unseal(file: elf.Elf) -> tuple[int, int]:
    """Have the dynamic linker leave writable what it would make read-only; return the offset and size of that.

    The slots are among it, and are filled when the dynamic linker is done.
    """
    for place in file.segments:
        kind, *rest = elf.SEGMENT.unpack_from(file.code, place)
        if kind == _SEALED:
            elf.SEGMENT.pack_into(file.code, place, _NO_SEGMENT, *rest)
            _flags, _offset, address, _physical, _stored, length, _align = rest
            return address, length
    return 0, 0
