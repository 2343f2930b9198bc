"""What ELF files say of themselves: a library's build id, and what a kernel of a cubin needs (no idea of CUDA's API).

A cubin is an ELF file of 64 bits. Facts are from the generic ABI, and from what NVIDIA's nvdisasm prints: a kernel's
registers are the upper byte of ``sh_info`` of its section ``.text.<kernel>``, its static shared memory is the size of
``.nv.shared.<kernel>``.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAGIC = b"\x7fELF\x02\x01"
"""64 bits, little-endian: what CUDA exists for, and all cubins."""
_PT_NOTE = 4
_NT_GNU_BUILD_ID = 3
_LARGEST_NOTE = 1 << 16


class Resources(NamedTuple):
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
    registers, shared = None, 0
    try:
        for name, size, info in _sections(cubin):
            if name == f".text.{kernel}":
                registers = info >> 24
            elif name == f".nv.shared.{kernel}":
                shared = size
    except (struct.error, UnicodeDecodeError, ValueError):
        return None
    return None if registers is None else Resources(registers, shared)


def _sections(content: bytes) -> Iterator[tuple[str, int, int]]:
    """(name, size, info) of each section."""
    if not content.startswith(_MAGIC):
        return
    (offset,) = struct.unpack_from("<Q", content, 40)
    size, count, names_at = struct.unpack_from("<HHH", content, 58)
    headers = [struct.unpack_from("<IIQQQQII", content, offset + size * i) for i in range(count)]
    if not headers:
        return
    names = content[headers[names_at][4] : headers[names_at][4] + headers[names_at][5]]
    for name, _kind, _flags, _address, _position, length, _link, info in headers:
        yield names[name : names.index(b"\0", name)].decode(), length, info
