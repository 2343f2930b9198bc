r"""What lies in a remote tier: an entry, compressed, behind a head that can be read alone.

::

    OBJECT_VERSION = 2

    object  = magic version length head body       ; integers little-endian
    magic   = 89 4E 42 52 0D 0A 1A 0A              ; "\x89NBR\r\n\x1a\n"
    version = u32                                  ; OBJECT_VERSION
    length  = u32                                  ; bytes of the head
    head    = {"codec": "zlib" | "none", "size": bytes of the entry, "digest": of its header, 32 hex digits,
               "guard": its guard, "signed": [[name, public key, not after], ...]}
    body    = the entry (nbcache.store.entry), with its signatures in the header, compressed as "codec" says

Version log:

1. An entry as it is.
2. Compressed, behind a head.

The head is for who uploads, and has to know which variant lies there and who signed it without fetching all of it.
It proves nothing. Who fetches compares it with the entry behind it, so an object whose head says otherwise is damaged.

The names of objects are digests that cover both versions: nbcache of one version never meets what another one stored.
What lies there all the same, of another version, is not there for a reader, and makes room for a writer.
"""

from __future__ import annotations

import json
import zlib
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple

from nbcache.keyring import Signature
from nbcache.remote.admission import DAMAGED, MAX_OBJECT, OTHER_VERSION
from nbcache.store import entry, layout

OBJECT_VERSION: Final = 2
MAGIC: Final = b"\x89NBR\r\n\x1a\n"
HEAD_BYTES: Final = 512
"""What is asked for to see a head [bytes]. Most heads have half of that, and no object is as short."""
ZLIB: Final = "zlib"
NONE: Final = "none"
_LEVEL: Final = 6
_FIXED: Final = Struct("<8sII")


class Head(NamedTuple):
    """What an object says of itself."""

    codec: str
    size: int
    """Of the entry [bytes]."""
    digest: str
    """The digest in the entry's preamble: what tells it from all others."""
    guard: str
    signed: tuple[Signature, ...]
    """Who says to have signed it, without the signatures."""


def name_of(key: str, slot: int) -> str:
    """Return what the object in a slot of a key is called: 64 hex digits, which every server takes."""
    text = f"nbcache object {OBJECT_VERSION}\nformat {entry.FORMAT_VERSION}\nkey {layout.check_key(key)}\nslot {slot}\n"
    return blake2b(text.encode(), digest_size=32).hexdigest()


def pack(data: bytes) -> bytes:
    """Return the object of an entry, as :func:`nbcache.store.entry.encode` gave it."""
    head = _head_of(data, ZLIB)
    assert head is not None  # whoever encoded it knows
    body = zlib.compress(data, _LEVEL)
    if len(body) >= len(data):
        head, body = head._replace(codec=NONE), data
    fields = head._asdict() | {"signed": [[each.name, each.public, each.not_after] for each in head.signed]}
    text = json.dumps(fields, separators=(",", ":")).encode("ascii")
    return _FIXED.pack(MAGIC, OBJECT_VERSION, len(text)) + text + body


def unpack(data: bytes) -> bytes | str:
    """Return the entry of an object, unjudged; or say why there is none, as one of the words in `admission`."""
    found = _split(data)
    if isinstance(found, str):
        return found
    head, start = found
    body = data[start:]
    if head.codec == ZLIB:
        inflate = zlib.decompressobj()
        try:
            body = inflate.decompress(body, head.size + 1)
        except zlib.error:
            return DAMAGED
        if not inflate.eof or inflate.unused_data:
            return DAMAGED
    if len(body) != head.size:
        return DAMAGED
    # What is no entry, whoever judges entries says.
    return body if _head_of(body, head.codec) in (head, None) else DAMAGED


def read_head(data: bytes) -> Head | str | None:
    """Return the head of an object, of which *data* is the beginning at least; None if that isn't all of the head.

    Or why there is none, as of :func:`unpack`.
    """
    if len(data) >= _FIXED.size:
        magic, version, length = _FIXED.unpack_from(data)
        if (magic, version) == (MAGIC, OBJECT_VERSION) and _FIXED.size + length > len(data) == HEAD_BYTES:
            return None
    found = _split(data)
    return found if isinstance(found, str) else found[0]


def _split(data: bytes) -> tuple[Head, int] | str:
    """Return the head of an object, and where its body begins."""
    if data[: len(entry.MAGIC)] == entry.MAGIC:
        return OTHER_VERSION
    if len(data) < _FIXED.size:
        return DAMAGED
    magic, version, length = _FIXED.unpack_from(data)
    if magic != MAGIC:
        return DAMAGED
    if version != OBJECT_VERSION:
        return OTHER_VERSION
    start = _FIXED.size + length
    head = _read(data[_FIXED.size : start]) if start <= len(data) else None
    return DAMAGED if head is None else (head, start)


def _read(text: bytes) -> Head | None:
    """Decode a head and check each type; None on anything unexpected."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or not isinstance(fields.get("signed"), list):
        return None
    codec, size, digest, guard = (fields.get(name) for name in Head._fields[:4])
    if type(codec) is not str or codec not in {ZLIB, NONE} or type(size) is not int or not 0 <= size <= MAX_OBJECT:
        return None
    if type(digest) is not str or type(guard) is not str:
        return None
    signed = []
    for row in fields["signed"]:
        if not isinstance(row, list) or list(map(type, row)) != [str, str, int]:
            return None
        signed.append(Signature(row[0], row[1], row[2], ""))
    return Head(codec, size, digest, guard, tuple(signed))


def _head_of(data: bytes, codec: str) -> Head | None:
    """Return what the head of an entry has to say; None for what is no entry."""
    found = entry.parse(data)
    if found is None:
        return None
    signed = tuple(each._replace(value="") for each in found.header.signed or ())
    return Head(codec, len(data), found.digest.hex(), found.header.guard, signed)
