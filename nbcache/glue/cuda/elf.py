"""What ELF files say of themselves: a library's build id, and what a kernel of a cubin needs (no idea of CUDA's API).

A cubin is an ELF file of 64 bits. Facts are from the generic ABI, and from what NVIDIA's cuobjdump prints: registers
are an attribute in the section ``.nv.info``, by symbol; a kernel's static shared memory is the size of
``.nv.shared.<kernel>``.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from nbcache.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAGIC = b"\x7fELF\x02\x01"
"""64 bits, little-endian: what CUDA exists for, and all cubins."""
_PT_NOTE = 4
_NT_GNU_BUILD_ID = 3
_LARGEST_NOTE = 1 << 16


class Resources(Record):
    """What one kernel needs."""

    registers: int
    """Of each thread."""
    shared: int
    """Static shared memory of each block [bytes]."""


def build_id(path: str) -> str | None:
    """The GNU build id of a library, in hex; None if it has none.  Raises OSError."""
    with open(path, "rb") as file:
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


def resources(cubin: bytes, kernel: str) -> Resources | None:
    """What *kernel* in a cubin needs; None if the file isn't one, or has no such kernel."""
    try:
        sections = {section.name: section for section in _sections(cubin)}
        symbols, names = sections[".symtab"].content, sections[".strtab"].content
        count = len(symbols) // _SYMBOL
        starts = [struct.unpack_from("<I", symbols, _SYMBOL * i)[0] for i in range(count)]
        number = next(
            i for i, start in enumerate(starts) if names[start : names.index(b"\0", start)].decode() == kernel
        )
        registers = dict(_register_counts(sections[".nv.info"].content))[number]
    except (struct.error, UnicodeDecodeError, ValueError, KeyError, StopIteration):
        return None
    shared = sections.get(f".nv.shared.{kernel}")
    return Resources(registers, 0 if shared is None else shared.size)


_SYMBOL = 24
"""Size of a symbol [bytes]."""
_REGCOUNT = 0x2F
"""The attribute of ``.nv.info`` that tells a function's registers."""
_SIZED = 4
"""The format of an attribute that is followed by its size; those of other formats have none to follow."""


def _register_counts(info: bytes) -> Iterator[tuple[int, int]]:
    """(number of a function's symbol, its registers)."""
    at = 0
    while at + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == _SIZED:
            if attribute == _REGCOUNT:
                yield struct.unpack_from("<II", info, at)
            at += size


class _Section(Record):
    name: str
    size: int
    content: bytes
    """Empty for one that takes no place in the file."""


_NOBITS = 8


def _sections(content: bytes) -> Iterator[_Section]:
    if not content.startswith(_MAGIC):
        return
    (offset,) = struct.unpack_from("<Q", content, 40)
    size, count, names_at = struct.unpack_from("<HHH", content, 58)
    headers = [struct.unpack_from("<IIQQQQII", content, offset + size * i) for i in range(count)]
    if not headers:
        return
    names = content[headers[names_at][4] : headers[names_at][4] + headers[names_at][5]]
    for name, kind, _flags, _address, position, length, _link, _info in headers:
        held = b"" if kind == _NOBITS else content[position : position + length]
        yield _Section(names[name : names.index(b"\0", name)].decode(), length, held)
