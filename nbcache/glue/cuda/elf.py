"""What a cubin says of its kernels: registers and shared memory (no idea of CUDA's API).

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


class Resources(Record):
    """What one kernel needs."""

    registers: int
    """Of each thread."""
    shared: int
    """Static shared memory of each block [bytes]."""


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
