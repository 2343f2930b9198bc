r"""A publication as bytes: a manifest and all that it refers to, for any wire.

::

    BLOB_VERSION = 2

    blob      = magic version length digest head manifest part*   ; integers little-endian
    magic     = 89 4E 42 50 0D 0A 1A 0A                          ; "\x89NBP\r\n\x1a\n"
    version   = u32                                              ; BLOB_VERSION
    length    = u32                                              ; bytes of the head
    digest    = 32 bytes                                         ; blake2b-256 of the head
    head      = {"manifest": [digest, bytes],                    ; digests: 64 hex digits, blake2b-256
                 "objects": [digest, ...],                       ; where there is no image, of each code's object file
                 "parts": [[digest, bytes], ...],                ; all that it refers to
                 "here": [index, ...],                           ; which of them follow, in ascending order
                 "signed": [[name, public key, not after, signature], ...]}
    text      = "nbcache publication 1" LF "blake2b-256 " digest LF

What is signed is the text (:mod:`nbcache.signing_keys`); its digest is that of "manifest", "objects" and "parts" as
they are encoded here. So parts that are left out, since the reader has them, change no signature.

What is guaranteed
------------------
- **Every byte is covered**, and once: by the digest, by those that the head has of the manifest and of the parts, or
  by being one of a few values.
- :func:`parse` takes no time and no memory that the size of its argument doesn't account for, unpickles nothing,
  imports nothing, and raises :class:`~nbcache.errors.ManifestError` alone, whatever it is given.

A digest is no proof of origin: whether a blob may be used, :mod:`nbcache.published.as_bytes` says.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from nbcache.grammar import Malformed, fields, hexadecimal, natural, row, several, text, whole
from nbcache.passing_exceptions import errors, suppressed
from nbcache.records import Record
from nbcache.store.content import MAX_SIGNATURES, blake2b, digest_of, parsed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from nbcache.keyring import Signature

BLOB_VERSION: Final = 2
MAGIC: Final = b"\x89NBP\r\n\x1a\n"
MAX_HEAD: Final = 4 << 20
"""The largest head [bytes], and far above any: each part takes some 80 bytes of it."""
_FIXED: Final = struct.Struct("<8sII32s")
_DIGEST_SIZE: Final = 32
_DAMAGED: Final = "they are cut off, damaged or altered"


class Blob(Record):
    """What bytes say."""

    manifest: bytes
    objects: tuple[str, ...]
    """Digests of the object files of the manifest's codes, in their order; none where there is an image."""
    parts: Mapping[str, int]
    """Digest and size [bytes] of all that the publication refers to."""
    here: Mapping[str, memoryview]
    """Those of the parts that came along, by digest: they are what they are said to be."""
    signed: tuple[Signature, ...]

    @property
    def digest(self) -> str:
        """What tells it from each other publication, whichever parts came along: 64 hex digits."""
        return _digest(self.manifest, self.objects, self.parts)


def text_of(digest: str) -> bytes:
    """Return what is signed of a blob with this digest."""
    return f"nbcache publication {BLOB_VERSION}\nblake2b-256 {digest}\n".encode()


def encode(
    manifest: bytes,
    objects: tuple[str, ...],
    parts: Mapping[str, int],
    here: Mapping[str, bytes],
    signed: Collection[Signature] = (),
) -> bytes:
    """Return the bytes; arguments as the fields of :class:`Blob`."""
    listed = list(parts)
    head = _members(manifest, objects, parts)
    head += f',"here":{_encoded([listed.index(each) for each in parts if each in here])}'
    head += f',"signed":{_encoded([list(each) for each in signed])}}}'
    start = _FIXED.pack(MAGIC, BLOB_VERSION, len(head), _raw_digest(head.encode("ascii")))
    return b"".join([start, head.encode("ascii"), manifest, *(here[each] for each in parts if each in here)])


def parse(data: bytes) -> Blob:
    """Return what bytes say. Raises ManifestError for anything that isn't what :func:`encode` returned."""
    view = memoryview(data).cast("B")
    magic, version, length, digest = _FIXED.unpack_from(view) if len(view) >= _FIXED.size else (b"", 0, 0, b"")
    if magic != MAGIC:
        raise errors.ManifestError("they are not what nbcache.dumps returned")
    if version != BLOB_VERSION:
        raise errors.ManifestError(f"they are of version {version}, and this nbcache reads version {BLOB_VERSION}")
    body = view[_FIXED.size :]
    if length > min(MAX_HEAD, len(body)) or _raw_digest(body[:length]) != digest:
        raise errors.ManifestError(_DAMAGED)
    try:
        head = _HEAD(parsed(bytes(body[:length])))
        found = _split(head, body[length:])
    except Malformed as error:
        raise errors.ManifestError(f"what they say of themselves is wrong: {error.inside('head')}") from None
    except (ValueError, RecursionError) as error:
        raise errors.ManifestError(f"their head is not JSON ({type(error).__name__})") from error
    digest, size = head["manifest"]
    if size + sum(found.parts[part] for part in found.here) != len(body) - length:
        raise errors.ManifestError(_DAMAGED)
    if digest_of(found.manifest) != digest or any(digest_of(data) != part for part, data in found.here.items()):
        raise errors.ManifestError(_DAMAGED)
    return found


def _split(head: Mapping[str, Any], rest: memoryview) -> Blob:
    """Give each part its bytes. Raises Malformed."""
    listed: list[tuple[str, int]] = list(head["parts"])
    sizes = dict(listed)
    if len(sizes) != len(listed):
        raise Malformed("a list without repetition", "one digest twice").inside("parts")
    for digest in head["objects"]:
        if digest not in sizes:
            raise Malformed("one of the parts", digest).inside("objects")
    at = head["manifest"][1]
    manifest, here, before = bytes(rest[:at]), {}, -1
    for index in head["here"]:
        if not before < index < len(listed):
            raise Malformed("a part that follows", index).inside("here")
        part, size = listed[index]
        here[part] = rest[at : at + size]
        at, before = at + size, index
    return Blob(manifest, head["objects"], sizes, here, head["signed"])


def _members(manifest: bytes, objects: tuple[str, ...], parts: Mapping[str, int]) -> str:
    """Return the beginning of a head, which is what its digest is of."""
    about = [digest_of(manifest), len(manifest)]
    sizes = [[digest, size] for digest, size in parts.items()]
    return f'{{"manifest":{_encoded(about)},"objects":{_encoded(list(objects))},"parts":{_encoded(sizes)}'


def _digest(manifest: bytes, objects: tuple[str, ...], parts: Mapping[str, int]) -> str:
    return digest_of(_members(manifest, objects, parts).encode("ascii"))


def _raw_digest(data: bytes | memoryview) -> bytes:
    return blake2b(data, digest_size=_DIGEST_SIZE).digest()


def _encoded(value: Any) -> str:
    """Return lists, whole numbers, and texts that need no escapes, as JSON: nodes don't import the package for it."""
    if isinstance(value, list):
        return f"[{','.join(map(_encoded, value))}]"
    return str(value) if isinstance(value, int) else f'"{value}"'


def _signature(value: Any) -> Signature:
    from nbcache.keyring import Signature, is_name, unbase64  # bytes that their reader trusts may have none

    signature = Signature(*row(text, text, natural, text)(value))
    with suppressed(ValueError):
        if is_name(signature.name) and all(map(unbase64, (signature.public, signature.value))):
            return signature
    raise Malformed("a signature", value)


_SHA: Final = hexadecimal(64)
_SIZED: Final = row(_SHA, natural)
_HEAD: Final = fields(
    {
        "manifest": _SIZED,
        "objects": several(_SHA),
        "parts": several(_SIZED),
        "here": several(whole),
        "signed": several(_signature, most=MAX_SIGNATURES),
    }
)
