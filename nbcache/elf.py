"""Reads ELF files: object files of LLVM, shared objects that a linker made, libraries, cubins.

All of these are ELF64, little-endian. Source: System V ABI, chapters 4 and 5. What is malformed raises one of
:data:`MALFORMED`.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator
from typing import Final

from nbcache.records import Record

MALFORMED: Final = (struct.error, IndexError, ValueError)
SECTION: Final = struct.Struct("<IIQ8xQQI20x")
SEGMENT: Final = struct.Struct("<IIQQQQQQ")
SYMBOL: Final = struct.Struct("<IBBHQQ")
SYMBOL_TABLE, RELOCATIONS, DYNAMIC, DYNAMIC_SYMBOLS = 2, 4, 6, 11
SHARED_OBJECT: Final = 3
UNDEFINED: Final = 0
_HEADER: Final = struct.Struct("<4sBB10xHH12xQQ6xHHHHH")
_NOBITS: Final = 8
_LOCAL: Final = 0
_FUNCTION: Final = 2
_WEAK_FUNCTION: Final = 2 << 4 | _FUNCTION
_CHOSEN_FUNCTION: Final = 10
"""One that the library chooses for the processor when it is loaded (STT_GNU_IFUNC)."""
_DYNAMIC_ENTRY: Final = struct.Struct("<QQ")
_SONAME: Final = 14
_NOTE, _GNU_BUILD_ID = 4, 3
_LARGEST_NOTE: Final = 1 << 16
# Made by the linker, which of object files is RuntimeDyld.
_LINKERS_OWN: Final = frozenset({"", "_GLOBAL_OFFSET_TABLE_"})


class Section(Record):
    """The header of a section."""

    name: int
    kind: int
    flags: int
    start: int
    size: int
    link: int


class Symbol(Record):
    """A row of a symbol table; its section is 0 if it is expected from elsewhere."""

    name: str
    info: int
    section: int
    value: int


class Symbols(Record):
    """Names that an object file leaves ``undefined``; ``functions`` and ``variables`` that it gives to others.

    ``weak``: the functions that only count where no other object has them.
    """

    undefined: tuple[str, ...]
    functions: tuple[str, ...]
    variables: tuple[str, ...]
    weak: frozenset[str]


class Elf:
    """One file; ``segments`` are the places of the headers of its segments."""

    def __init__(self, code: bytes | bytearray) -> None:
        """Read the file's header, for which its first 64 bytes suffice."""
        self.code = code
        magic, width, order, self.kind, self.machine, *tables = _HEADER.unpack_from(code)
        if magic != b"\x7fELF" or (width, order) != (2, 1):
            raise ValueError("no ELF file of 64 bits")
        segments, sections, segment_size, segment_count, section_size, section_count, self._names = tables
        self.segments = range(segments, segments + segment_size * segment_count, segment_size or 1)
        self._sections = range(sections, sections + section_size * section_count, section_size or 1)

    @functools.cached_property
    def sections(self) -> list[Section]:
        """The headers of all sections."""
        return [Section._make(SECTION.unpack_from(self.code, place)) for place in self._sections]

    def content(self, section: Section) -> bytes:
        """Return the bytes of a section; none if it takes no place in the file."""
        return b"" if section.kind == _NOBITS else bytes(self.code[section.start : section.start + section.size])

    def text(self, strings: Section, offset: int) -> str:
        """Return a name."""
        begin = strings.start + offset
        return bytes(self.code[begin : self.code.index(b"\0", begin)]).decode()

    def named(self) -> dict[str, Section]:
        """Return the sections by name."""
        strings = self.sections[self._names]
        return {self.text(strings, section.name): section for section in self.sections}

    def symbols(self, kind: int) -> Iterator[Symbol]:
        """Yield the symbols in tables of this kind, in their order."""
        for table in self.sections:
            if table.kind == kind:
                strings = self.sections[table.link]
                for name, info, _other, section, value, _size in SYMBOL.iter_unpack(self.content(table)):
                    yield Symbol(self.text(strings, name), info, section, value)


def soname_of(path: str) -> str:
    """Return the name by which the dynamic linker knows a library; "" if it has none. Raises OSError."""
    with open(path, "rb") as file:
        code = file.read()
    try:
        elf = Elf(code)
        for table in elf.sections:
            if table.kind == DYNAMIC:
                for tag, value in _DYNAMIC_ENTRY.iter_unpack(elf.content(table)):
                    if tag == _SONAME:
                        return elf.text(elf.sections[table.link], value)
    except MALFORMED:
        pass
    return ""


def functions_in(path: str) -> list[str]:
    """Return the names of a library's functions. Raises OSError."""
    with open(path, "rb") as file:
        code = file.read()
    try:
        return [
            symbol.name
            for symbol in Elf(code).symbols(DYNAMIC_SYMBOLS)
            if symbol.section != UNDEFINED and symbol.info & 0xF in {_FUNCTION, _CHOSEN_FUNCTION}
        ]
    except MALFORMED:
        return []


def symbols_of(code: bytes) -> Symbols | None:
    """Return the symbols of an object file, or None when it is none.

    The module that was compiled names the functions it calls, but not the ones that code generation calls for it
    (``__powidf2``, ``fmod``, ``memcpy``), and MCJIT ends the process over one that is missing.
    """
    undefined: list[str] = []
    functions: list[str] = []
    variables: list[str] = []
    weak: list[str] = []
    try:
        for symbol in Elf(code).symbols(SYMBOL_TABLE):
            if symbol.section == UNDEFINED:
                if symbol.name not in _LINKERS_OWN:
                    undefined.append(symbol.name)
            elif symbol.info >> 4 != _LOCAL:
                (functions if symbol.info & 0xF == _FUNCTION else variables).append(symbol.name)
                if symbol.info == _WEAK_FUNCTION:
                    weak.append(symbol.name)
    except MALFORMED:
        return None
    return Symbols(tuple(undefined), tuple(functions), tuple(variables), frozenset(weak))


def build_id(path: str) -> str | None:
    """Return the GNU build id of a library, in hex; None if it has none. Raises OSError."""
    with open(path, "rb") as file:
        try:
            places = Elf(file.read(_HEADER.size)).segments
            file.seek(places.start)
            table = file.read(places.stop - places.start)
            for start in range(0, len(table), places.step):
                kind, _flags, position, _address, _physical, length, *_ = SEGMENT.unpack_from(table, start)
                if kind == _NOTE and length <= _LARGEST_NOTE:
                    file.seek(position)
                    for name, note, content in _notes(file.read(length)):
                        if name == b"GNU\0" and note == _GNU_BUILD_ID:
                            return content.hex()
        except MALFORMED:
            pass
    return None


def _notes(content: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    at = 0
    while at + 12 <= len(content):
        name_size, size, kind = struct.unpack_from("<III", content, at)
        name_end = at + 12 + (name_size + 3 & ~3)
        yield content[at + 12 : at + 12 + name_size], kind, content[name_end : name_end + size]
        at = name_end + (size + 3 & ~3)
