"""What a kernel of a cubin needs, as the file itself says (no idea of CUDA's API).

A cubin is an ELF file. Facts are from what NVIDIA's cuobjdump prints: registers are an attribute in the section
``.nv.info``, by symbol; a kernel's static shared memory is the size of ``.nv.shared.<kernel>``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from nbcache.elf import MALFORMED, SYMBOL_TABLE, Elf
from nbcache.records import Record


class Resources(Record):
    """What one kernel needs."""

    registers: int
    """Of each thread."""
    shared: int
    """Static shared memory of each block [bytes]."""


def resources(cubin: bytes, kernel: str) -> Resources | None:
    """What *kernel* in a cubin needs; None if the file isn't one, or has no such kernel."""
    try:
        elf = Elf(cubin)
        sections = elf.named()
        number = next(i for i, symbol in enumerate(elf.symbols(SYMBOL_TABLE)) if symbol.name == kernel)
        registers = dict(_register_counts(elf.content(sections[".nv.info"])))[number]
    except (*MALFORMED, KeyError, StopIteration):
        return None
    shared = sections.get(f".nv.shared.{kernel}")
    return Resources(registers, 0 if shared is None else shared.size)


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
