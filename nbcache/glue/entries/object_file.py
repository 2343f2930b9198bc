"""Which symbols an object file defines, and which it expects from elsewhere.

The module that was compiled names the functions it calls, but not the ones that code generation
calls for it (``__powidf2``, ``fmod``, ``memcpy``), and MCJIT ends the process over one that is missing.
Source: System V ABI, chapter 4; little-endian ELF64, which is what LLVM emits for 64-bit Linux.
"""

from __future__ import annotations

import struct

from nbcache.records import Record

_HEADER = struct.Struct("<4sBB58x")
_SECTION_TABLE = struct.Struct("<Q10xHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOL_TABLE = 2
_UNDEFINED = 0
_LOCAL = 0
_FUNCTION = 2
_WEAK_FUNCTION = 2 << 4 | _FUNCTION
# Made by the linker, which here is RuntimeDyld.
_LINKERS_OWN = frozenset({"", "_GLOBAL_OFFSET_TABLE_"})


class Symbols(Record):
    """Names that an object file leaves ``undefined``; ``functions`` and ``variables`` that it gives to others.

    ``weak``: the functions that only count where no other object has them.
    """

    undefined: tuple[str, ...]
    functions: tuple[str, ...]
    variables: tuple[str, ...]
    weak: frozenset[str]


def symbols_of(code: bytes) -> Symbols | None:
    """The symbols of *code*, or None when it is no object file of this kind."""
    try:
        magic, width, order = _HEADER.unpack_from(code)
        if magic != b"\x7fELF" or (width, order) != (2, 1):
            return None
        offset, size, count = _SECTION_TABLE.unpack_from(code, 0x28)
        sections = [_SECTION.unpack_from(code, offset + i * size) for i in range(count)]
        undefined: list[str] = []
        functions: list[str] = []
        variables: list[str] = []
        weak: list[str] = []
        for _name, kind, _flags, _address, start, length, link, _info, _align, _entry in sections:
            if kind != _SYMBOL_TABLE:
                continue
            strings = sections[link][4]
            for name, info, _other, section, _value, _size in _SYMBOL.iter_unpack(code[start : start + length]):
                if section != _UNDEFINED and info >> 4 == _LOCAL:
                    continue
                text = code[strings + name : code.index(b"\0", strings + name)].decode()
                if section != _UNDEFINED:
                    (functions if info & 0xF == _FUNCTION else variables).append(text)
                    if info == _WEAK_FUNCTION:
                        weak.append(text)
                elif text not in _LINKERS_OWN:
                    undefined.append(text)
        return Symbols(tuple(undefined), tuple(functions), tuple(variables), frozenset(weak))
    except (struct.error, IndexError, ValueError):
        return None
