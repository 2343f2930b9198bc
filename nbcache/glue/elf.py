"""Which symbols an object file expects from elsewhere.

The module that was compiled names the functions it calls, but not the ones that code generation
calls for it (``__powidf2``, ``fmod``, ``memcpy``), and MCJIT ends the process over one that is missing.
Source: System V ABI, chapter 4; little-endian ELF64, which is what LLVM emits for 64-bit Linux.
"""

from __future__ import annotations

import struct

_HEADER = struct.Struct("<4sBB58x")
_SECTION_TABLE = struct.Struct("<Q10xHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOL_TABLE = 2
_UNDEFINED = 0
# Made by the linker, which here is RuntimeDyld.
_LINKERS_OWN = frozenset({"", "_GLOBAL_OFFSET_TABLE_"})


def undefined_symbols(code: bytes) -> tuple[str, ...] | None:
    """Names that *code* leaves undefined, or None when it is no object file of this kind."""
    try:
        magic, width, order = _HEADER.unpack_from(code)
        if magic != b"\x7fELF" or (width, order) != (2, 1):
            return None
        offset, size, count = _SECTION_TABLE.unpack_from(code, 0x28)
        sections = [_SECTION.unpack_from(code, offset + i * size) for i in range(count)]
        names: list[str] = []
        for _name, kind, _flags, _address, start, length, link, _info, _align, _entry in sections:
            if kind != _SYMBOL_TABLE:
                continue
            strings = sections[link][4]
            for name, _kind, _other, section, _value, _size in _SYMBOL.iter_unpack(code[start : start + length]):
                if section == _UNDEFINED:
                    end = code.index(b"\0", strings + name)
                    names.append(code[strings + name : end].decode())
        return tuple(name for name in names if name not in _LINKERS_OWN)
    except (struct.error, IndexError, ValueError):
        return None
