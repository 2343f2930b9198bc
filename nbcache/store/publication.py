"""The format of a publication: what a name stands for, as one file.

::

    FORMAT_VERSION = 1

    publication = '{"nbcache-name":' FORMAT_VERSION ',"digest":"' digest '",' LF      ; first line
                  about ',' LF                                                        ; second line
                  '"manifest":' manifest '}' LF                                       ; third line
    digest      = 32 hex digits             ; blake2b-128 over everything after the first line
    about       = members of an object      ; "name", "version", "created" [Unix s],
                                            ; "entries": [key, ...], "files": [digest, ...],
                                            ; "older": [version, ...], which nbcache 0.2 didn't write,
                                            ; "expires" [Unix s], where it does,
                                            ; "objects": [digest, ...], where it came without its entries,
                                            ; "signed": [[name, public key, not after, signature], ...], where it came
                                            ;   from elsewhere (nbcache.remote.publications)
    manifest    = JSON on one line          ; the store doesn't know what it says

Altogether it is one JSON object, for people and their tools; a reader who only wants to know what a publication refers
to reads the second line, and parses no manifest.

What is guaranteed
------------------
- **Every byte is covered**: the first line is compared with what it must be, the others by the digest.
- **Parsing never raises**: what isn't a publication of this version is a reason (:data:`DAMAGED`,
  :data:`OTHER_VERSION`). It takes little time and memory, whoever wrote the file: of the JSON in it, the second line
  alone is read, up to :data:`MAX_ABOUT`.

The digest notices damage. It is no proof of origin: see :mod:`nbcache.file_trust`.
"""

from __future__ import annotations

import re
from typing import Any, Final

from nbcache.grammar import fields, hexadecimal, maybe, natural, number, row, several, text, whole
from nbcache.records import Record
from nbcache.store.content import MAX_SIGNATURES, blake2b, parsed
from nbcache.store.layout import KEY_SIZE, is_key

FORMAT_VERSION: Final = 1
MAX_SIZE: Final = 16 << 20
"""The largest publication [bytes], far above any manifest: a bound on what a reader may be asked to hold."""
MAX_ABOUT: Final = 4 << 20
"""The longest second line [bytes], which names some 60,000 entries or files."""
WITHDRAWN: Final = b"null"
"""The manifest of what was taken back: nothing is published under the name since then."""
DAMAGED: Final = "is damaged"
OTHER_VERSION: Final = "is of another version of nbcache"

_FIRST: Final = b'{"nbcache-name":%d,"digest":"' % FORMAT_VERSION
_FIRST_END: Final = b'",\n'
_DIGEST_SIZE: Final = 32
_ANY_VERSION: Final = rb'\{"nbcache-name":([0-9]{1,9}),'
_LATEST: Final = 1 << 53
_MANIFEST: Final = b'"manifest":'
_END: Final = b"}\n"


class Publication(Record):
    """What is published under a name."""

    name: str
    version: int
    """Counts from 1; of a name that was unpublished it begins anew."""
    created: float
    """Unix time [s]"""
    entries: tuple[str, ...]
    """The keys that it refers to, sorted."""
    files: tuple[str, ...]
    """The digests of the files that belong to it, sorted."""
    manifest: bytes
    """JSON."""
    digest: str
    """What tells it from each other publication: 32 hex digits."""
    older: tuple[int, ...] | None = None
    """Which versions lay beside it when it was written, the newest last; None if it doesn't say."""
    expires: float | None = None
    """From when on it may be given up, Unix time [s]; None for never."""
    objects: tuple[str, ...] | None = None
    """Those of the files that are the object files of its codes, in their order, where it came without its entries."""
    signed: tuple[tuple[str, str, int, str], ...] | None = None
    """Signatures (`nbcache.keyring.Signature`), of which one is to be trusted; None: it was published in this store."""

    def is_same(self, other: Publication) -> bool:
        """Whether both are one publication, which has a version of its own in each store."""
        return self[:1] + self[2:6] == other[:1] + other[2:6]


class References(Record):
    """What keeps entries and files from being evicted."""

    entries: tuple[str, ...]
    """Keys."""
    files: tuple[str, ...]
    """Digests."""
    expires: float | None
    """Until when, Unix time [s]; None for ever."""


def encode(published: Publication) -> bytes:
    """Return the file; the digest is of what is written. Raises ValueError for a manifest of several lines or a
    reference that is none.
    """
    import json  # who only reads doesn't need it

    about = {
        "name": published.name,
        "version": published.version,
        "created": published.created,
        "entries": sorted(set(published.entries)),
        "files": sorted(set(published.files)),
        **{name: value for name in _LEFT_OUT if (value := getattr(published, name)) is not None},
    }
    if b"\n" in published.manifest or not all(map(is_key, (*published.entries, *published.files))):
        raise ValueError(f"not a publication: {published!r:.200}")
    rest = json.dumps(about, separators=(",", ":"))[1:-1].encode() + b",\n" + _MANIFEST + published.manifest + _END
    return b'{"nbcache-name":%d,"digest":"%s",\n' % (FORMAT_VERSION, _digest(rest).encode()) + rest


def decode(data: bytes) -> Publication | str:
    """Return what a file says, or :data:`DAMAGED` or :data:`OTHER_VERSION`. Never raises."""
    digest, rest = _first_line(data)
    if digest is None:
        return _stranger(data)
    if _digest(rest).encode() != digest:
        return DAMAGED
    line, _, last = rest.partition(b",\n")
    if not (last.startswith(_MANIFEST) and last.endswith(_END) and last.find(b"\n") == len(last) - 1):
        return DAMAGED
    about = _about(line)
    if about is None:
        return DAMAGED
    return Publication(**about, manifest=last[len(_MANIFEST) : -len(_END)], digest=digest.decode())


def references(beginning: bytes) -> References | str | None:
    """Return what a publication refers to and until when, without its manifest; nothing is compared with the digest.

    A file that doesn't say is :data:`DAMAGED` or of :data:`OTHER_VERSION`; None says that more of it is needed.
    """
    digest, rest = _first_line(beginning)
    if digest is None:
        return _stranger(beginning)
    line, end, _ = rest.partition(b",\n")
    if not end:
        return None
    about = _about(line)
    return DAMAGED if about is None else References(about["entries"], about["files"], about["expires"])


def _first_line(data: bytes) -> tuple[bytes | None, bytes]:
    """Return the digest that the first line has, and what follows; None for a line that isn't of this version."""
    start = len(_FIRST)
    digest, rest = data[start : start + _DIGEST_SIZE], data[start + _DIGEST_SIZE :]
    if not (data.startswith(_FIRST) and rest.startswith(_FIRST_END)) or digest.strip(b"0123456789abcdef"):
        return None, b""
    return digest, rest[len(_FIRST_END) :]


def _stranger(data: bytes) -> str:
    version = re.match(_ANY_VERSION, data)
    return DAMAGED if version is None or int(version[1]) == FORMAT_VERSION else OTHER_VERSION


def _about(line: bytes) -> dict[str, Any] | None:
    """Return the members of the second line, checked."""
    if len(line) > MAX_ABOUT:
        return None
    try:
        about: dict[str, Any] = _ABOUT({**_LEFT_OUT, **parsed(b"{%s}" % line)})
    except (ValueError, RecursionError):
        return None
    times = about["created"], about["expires"] or 0.0
    return about if about["version"] > 0 and all(abs(each) < _LATEST for each in times) else None


_LEFT_OUT: Final = dict.fromkeys(("older", "expires", "objects", "signed"))
_KEYS: Final = several(hexadecimal(KEY_SIZE))
_ABOUT: Final = fields(
    {
        "name": text,
        "version": natural,
        "created": number,
        "entries": _KEYS,
        "files": _KEYS,
        "older": maybe(several(natural)),
        "expires": maybe(number),
        "objects": maybe(_KEYS),
        "signed": maybe(several(row(text, text, whole, text), most=MAX_SIGNATURES)),
    },
    others=True,
)


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
