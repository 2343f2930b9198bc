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

from typing import Final

from nbcache.passing import errors
from nbcache.records import Record

ANCHOR: Final = "nbcache_image_"
"""What every anchor begins with; 32 hex digits follow."""
ADDRESS_SIZE: Final = 8
_END: Final = 1 << 31
"""Above all offsets and sizes."""


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
        raise errors.ImageError("the manifest's part on its image is damaged: it has other fields")
    size, anchor, symbols = said["size"], said["anchor"], said["symbols"]
    if not (_is_count(size) and isinstance(symbols, dict) and isinstance(said["slots"], list)):
        raise errors.ImageError("the manifest's part on its image is damaged: its size, slots or symbols are none")
    if not (_is_hex(said["digest"], 64) and _is_anchor(anchor) and anchor in symbols):
        raise errors.ImageError("the manifest's part on its image is damaged: its digest or anchor is none")
    slots = _slots(said["slots"])
    if slots is None or not all(map(_is_count, symbols.values())):
        raise errors.ImageError("the manifest's part on its image is damaged: a slot or a symbol is none")
    sealed = said["sealed"]
    if not (isinstance(sealed, list) and len(sealed) == 2 and all(map(_is_count, sealed))):
        raise errors.ImageError("the manifest's part on its image is damaged: what it seals is no range")
    return ImageFacts(said["digest"], size, anchor, slots, (sealed[0], sealed[1]), symbols)


def _is_hex(text: object, digits: int) -> bool:
    return isinstance(text, str) and len(text) == digits and not text.strip("0123456789abcdef")


def _is_anchor(name: object) -> bool:
    return isinstance(name, str) and name.startswith(ANCHOR) and _is_hex(name[len(ANCHOR) :], 32)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < _END


def _slots(said: list[object]) -> tuple[Slot, ...] | None:
    """Return what that says of slots, or None if one isn't any or doesn't lie behind the one before it."""
    slots, end = [], 0
    for slot in said:
        if type(slot) is not list or len(slot) != 3:
            return None
        offset, symbol, addend = slot
        if type(offset) is not int or not end <= offset < _END or type(symbol) is not str or type(addend) is not int:
            return None
        slots.append((offset, symbol, addend))
        end = offset + ADDRESS_SIZE
    return tuple(slots)
