"""Cubins as values to compare: sections by name, with their content, and no numbers of numba-cuda's in any name."""

import re
import struct

_NUMBERS = ((re.compile(rb"B\d+v\d+"), b"Bv"), (re.compile(rb"RecordILi\d+E"), b"Record"))
"""What numba-cuda numbers functions and types with, in the order of the process."""


def plain_name(name):
    """A symbol without the numbers that a process gives."""
    for pattern, replacement in _NUMBERS:
        name = pattern.sub(replacement, name)
    return name


def sections(cubin):
    """Yield (name, content) of each section of an ELF file of 64 bits."""
    assert cubin.startswith(b"\x7fELF\x02\x01")
    (offset,) = struct.unpack_from("<Q", cubin, 40)
    size, count, names_at = struct.unpack_from("<HHH", cubin, 58)
    headers = [struct.unpack_from("<IIQQQQII", cubin, offset + size * i) for i in range(count)]
    names = cubin[headers[names_at][4] : headers[names_at][4] + headers[names_at][5]]
    for name, kind, _flags, _address, position, length, _link, info in headers:
        content = b"" if kind == 8 else cubin[position : position + length]  # SHT_NOBITS has a size and no bytes
        yield names[name : names.index(b"\0", name)], kind, length, info, content


_COMPARED = (b".text", b".nv.constant", b".nv.shared", b".nv.local", b".nv.global")
"""Sections that say what a kernel does and needs; in others, lengths depend on how long names are."""


def normalised(cubin):
    """What must be equal in two cubins of the same code: machine code, constants, memory, registers."""
    found = []
    for name, _kind, length, info, content in sections(cubin):
        if name.startswith(_COMPARED):
            found.append((plain_name(name), length, info >> 24, content))
    return sorted(found)
