"""What a manifest says of an image: the shared object that holds a publication's machine code.

An image has no symbols for the dynamic linker to look up. What it needs from outside are *slots*: places of eight
bytes that whoever opens it fills with addresses. All offsets are from where the image is mapped.

::

    image   = {"digest": digest, "size": bytes, "anchor": name, "slots": [slot, ...], "sealed": [offset, bytes],
               "symbols": {name: offset, ...}}
    digest  = 64 hex digits           ; blake2b-256 of the file, which is also its name in the store
    anchor  = name                    ; the one symbol that the image exports, as no other does; among "symbols", too
    slot    = [offset, name, addend]  ; takes the address of what the name means, plus the addend
    sealed  = [offset, bytes]         ; made read-only by who filled the slots; may be [0, 0]
"""

from __future__ import annotations

import itertools
from typing import Final

from nbcache.errors import ImageError
from nbcache.records import Record

ANCHOR: Final = "nbcache_image_"
"""What every anchor begins with; 32 hex digits follow."""
ADDRESS_SIZE: Final = 8


Slot = tuple[int, str, int]
"""Offset, symbol and addend of a place of eight bytes that takes an address."""


class ImageFacts(Record):
    """What is known of an image before it is mapped. Offsets and sizes in bytes."""

    digest: str
    size: int
    anchor: str
    slots: tuple[Slot, ...]
    """By offset, in ascending order."""
    sealed: tuple[int, int]
    """Offset and size of what is read-only once the slots are filled."""
    symbols: dict[str, int]
    """Offsets of what is called or written to by address."""


def parse(said: object) -> ImageFacts:
    """Return what a manifest says of an image, every field checked. Raises ImageError for what can't be that."""
    if not isinstance(said, dict) or said.keys() != set(ImageFacts._fields):
        raise ImageError("the manifest's part on its image is damaged: it has other fields")
    size, anchor, symbols = said["size"], said["anchor"], said["symbols"]
    if not (_is_count(size) and isinstance(symbols, dict) and isinstance(said["slots"], list)):
        raise ImageError("the manifest's part on its image is damaged: its size, slots or symbols are none")
    if not (_is_hex(said["digest"], 64) and _is_anchor(anchor) and anchor in symbols):
        raise ImageError("the manifest's part on its image is damaged: its digest or anchor is none")
    slots = tuple(map(tuple, said["slots"])) if all(map(_is_slot, said["slots"])) else None
    if slots is None or not _ascend(slots) or not all(map(_is_count, symbols.values())):
        raise ImageError("the manifest's part on its image is damaged: a slot or a symbol is none")
    sealed = said["sealed"]
    if not (isinstance(sealed, list) and len(sealed) == 2 and all(map(_is_count, sealed))):
        raise ImageError("the manifest's part on its image is damaged: what it seals is no range")
    return ImageFacts(said["digest"], size, anchor, slots, (sealed[0], sealed[1]), symbols)


def _is_hex(text: object, digits: int) -> bool:
    return isinstance(text, str) and len(text) == digits and not text.strip("0123456789abcdef")


def _is_anchor(name: object) -> bool:
    return isinstance(name, str) and name.startswith(ANCHOR) and _is_hex(name[len(ANCHOR) :], 32)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 31


def _ascend(slots: tuple[Slot, ...]) -> bool:
    """Whether each slot lies behind the one before it."""
    return all(after[0] - before[0] >= ADDRESS_SIZE for before, after in itertools.pairwise(slots))


def _is_slot(slot: object) -> bool:
    if not isinstance(slot, list) or len(slot) != 3:
        return False
    offset, symbol, addend = slot
    return _is_count(offset) and type(symbol) is str and type(addend) is int
