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

What is signed of an entry::

    text = "nbcache signature 1" LF "format " FORMAT_VERSION LF "key " key LF "blake2b-256 " digest LF

The digest is over the whole entry as it is encoded without signatures; the digests in entries are shorter and only
notice damage. The key of the entry and the format's version stand beside it, so that a signature is of no use
elsewhere. What follows the text, :mod:`nbcache.signing_keys` says.

What is guaranteed of an entry that is admitted into a store (:func:`admit`):

- It is under the key that was asked for, in a slot that was asked for.
- It is encoded exactly as nbcache encodes it; so there is no second way to write the same thing.
- Programs of this host didn't crash with it.
- At least one signature by a trusted key, neither expired, is over every byte of it. Only signatures that were verified
  stay on it. Of those who signed what it says it was built beside, at least one is trusted for each. Without keys,
  where ``unsigned`` is the explicit word, it is marked as from elsewhere all the same, so that it counts only as long
  as that word is given.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from hashlib import blake2b
from struct import Struct
from typing import Any, Final, NamedTuple

from nbcache import signing_keys
from nbcache.errors import EntryError
from nbcache.grammar import choice, record, row, several, text, up_to, whole
from nbcache.keyring import Keyring, Signature
from nbcache.records import Record
from nbcache.signing_keys import SecretKey
from nbcache.store import entry, layout
from nbcache.store.entry import Entry, Header

OBJECT_VERSION: Final = 2
MAGIC: Final = b"\x89NBR\r\n\x1a\n"
HEAD_BYTES: Final = 512
"""What is asked for to see a head [bytes]. Most heads have half of that, and no object is as short."""
_MAX_HEAD: Final = 1 << 16
"""The longest head [bytes]: each signature takes some 100 of it, and anybody may have written it."""
ZLIB: Final = "zlib"
NONE: Final = "none"
_LEVEL: Final = 6
_FIXED: Final = Struct("<8sII")


class Head(Record):
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
    if start > len(data) or length > _MAX_HEAD:
        return DAMAGED
    try:
        return _HEAD(json.loads(data[_FIXED.size : start])), start
    except (ValueError, RecursionError):
        return DAMAGED


def _signature(value: Any) -> Signature:
    name, public, not_after = row(text, text, whole)(value)
    return Signature(name, public, not_after, "")


def _head_of(data: bytes, codec: str) -> Head | None:
    """Return what the head of an entry has to say; None for what is no entry."""
    found = entry.parse(data)
    if found is None:
        return None
    signed = tuple(each._replace(value="") for each in found.header.signed or ())
    return Head(codec, len(data), found.digest, found.header.guard, signed)


MAX_OBJECT: Final = 64 << 20
"""The largest entry that is taken or sent, and the largest object that holds one [bytes]."""
_HEAD: Final = record(Head, others=True, codec=choice(ZLIB, NONE), size=up_to(MAX_OBJECT), signed=several(_signature))
DAMAGED: Final = "it is damaged or was altered"
OTHER_VERSION: Final = "it is of another version of nbcache"
OTHER_KEY: Final = "it belongs under another key"
UNSIGNED: Final = "nobody signed it"
UNTRUSTED: Final = "nobody who is trusted signed it"
WRONG: Final = "its signature is wrong or has expired"
BESIDE_UNTRUSTED: Final = "it was built beside code that nobody who is trusted signed"
CRASHED: Final = "programs of this host crashed with it"


class Admitted(NamedTuple):
    """An entry that may go into the store."""

    header: Header
    sections: Mapping[str, bytes]


def admit(data: bytes, key: str, keyring: Keyring, condemned: AbstractSet[str] = frozenset()) -> Admitted | str:
    """Judge an entry that was found under a key; if it is refused, say why, as one of the words above.

    *condemned* are the digests of those that programs crashed with (:func:`nbcache.store.quarantine.condemned`).
    """
    found = _examined(data)
    if isinstance(found, str):
        return found
    if found.header.key != key:
        return OTHER_KEY
    # Before the whole of it is looked at, which takes time and memory.
    listed = trusted(found.header.signed or (), keyring)
    if isinstance(listed, str):
        return listed
    opened = _whole(found, data)
    if isinstance(opened, str):
        return opened
    text = _text(*opened) if listed else b""
    right = tuple(each for each in listed if signing_keys.is_right(each, text))
    if not right and not keyring.unsigned:
        return WRONG
    admitted = opened._replace(header=opened.header._replace(signed=right))
    if not keyring.admits(right, admitted.header.extra.get(entry.BESIDE)):
        return BESIDE_UNTRUSTED
    # As it would lie in the store, where what is known of it is its digest.
    return CRASHED if condemned and entry.digest_of(*admitted) in condemned else admitted


def sign(key: SecretKey, header: Header, sections: Mapping[str, bytes]) -> Signature:
    """Sign an entry. Raises EntryError."""
    return signing_keys.sign(key, _text(header, sections))


def _text(header: Header, sections: Mapping[str, bytes]) -> bytes:
    data = entry.encode(header._replace(signed=None), sections)
    digest = blake2b(data, digest_size=32).hexdigest()
    text = f"nbcache signature 1\nformat {entry.FORMAT_VERSION}\nkey {header.key}\nblake2b-256 {digest}\n"
    return text.encode()


def trusted(signed: tuple[Signature, ...], keyring: Keyring) -> tuple[Signature, ...] | str:
    """Return those signatures that count if they are right; or why nothing that has only these is taken."""
    found = tuple(filter(keyring.trusted, signed))
    if found or keyring.unsigned:
        return found
    known = any((each.name, each.public) in keyring.keys for each in signed)
    return WRONG if known else UNTRUSTED if signed else UNSIGNED


def open_entry(data: bytes) -> Admitted | str:
    """Read an entry without judging who signed it; if it is none, say why."""
    found = _examined(data)
    return found if isinstance(found, str) else _whole(found, data)


def _examined(data: bytes) -> Entry | str:
    if len(data) > MAX_OBJECT:
        return DAMAGED
    found = entry.examine(data)
    if isinstance(found, str):
        return OTHER_VERSION if found == entry.OTHER_VERSION else DAMAGED
    return found


def _whole(found: Entry, data: bytes) -> Admitted | str:
    sections = found.sections()
    try:
        same = sections is not None and entry.encode(found.header, sections) == data
    except EntryError:
        # JSON has ways to say what nbcache never says: numbers that are none, say.
        return DAMAGED
    return Admitted(found.header, sections) if sections is not None and same else DAMAGED
