r"""The format of an entry: one compiled unit as one file.

::

    FORMAT_VERSION = 2

    entry     = preamble header section*         ; nothing before, between or after
    preamble  = magic version length digest      ; 32 bytes, integers little-endian
    magic     = 89 4E 42 4F 0D 0A 1A 0A          ; "\\x89NBO\\r\\n\\x1a\\n", broken by any text-mode transfer
    version   = u32                              ; FORMAT_VERSION
    length    = u32                              ; bytes of the header, at most 1 MiB
    digest    = 16 bytes                         ; blake2b-128 over magic, version, length and header
    header    = JSON object, UTF-8               ; the fields of Header, and "sections"
    sections  = [[name, size, digest], ...]      ; in the order on disk; digest: 32 hex digits, blake2b-128
    section   = size bytes

Version log:

1. First version.
2. ``signed`` in the header: an entry that came from elsewhere counts as long as one of its keys is trusted.

What is guaranteed
------------------
- **Every byte is covered.** Preamble and header by the header's digest, each section by its own; the section table
  lies in the header; the file is as long as the table says, to the byte. So there are no slack bytes to differ in.
- **Nothing is used before its digest was checked.** A section's digest is compared when the section is asked for.
- **Parsing never raises and never blocks** on the bytes of a file, whatever they are: what isn't a valid entry of this
  version is a reason (:data:`DAMAGED`, :data:`OTHER_VERSION`, :data:`UNREADABLE`), never an exception.
- **Reading is lazy.** One ``read`` of :data:`FIRST_READ` bytes normally brings header, ``meta`` and ``object``; the
  other sections are only read when asked for.

A digest here notices damage. It is no proof of origin: who may write an entry is decided in :mod:`nbcache.file_trust`.

Unknown fields of the header are ignored, so that a field can be added without a new version; a change in the meaning
of a field, or a new field that a reader must heed, needs a new one.
"""

from __future__ import annotations

import stat
from struct import Struct
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from nbcache.passing_exceptions import errors, suppressed
from nbcache.process import os
from nbcache.records import Record
from nbcache.store.content import MAX_SIGNATURES, blake2b, parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from nbcache.keyring import Signature

FORMAT_VERSION: Final = 2
MAGIC: Final = b"\x89NBO\r\n\x1a\n"
DIGEST_SIZE: Final = 16
"""Bytes of a digest."""
MAX_HEADER: Final = 1 << 20
"""The longest header [bytes]. A longer one is refused by :func:`encode` and damage to :func:`examine`."""
MAX_ENTRY: Final = 1 << 30
"""The largest entry [bytes]: a bound on what a reader may be asked to hold, far above any object code."""
FIRST_READ: Final = 1 << 16
"""What a reader asks for in its first ``read`` [bytes]."""
ASKED_BY: Final = "request"
"""The section that says how to ask for an entry again."""
SECTION_ORDER: Final = ("meta", "object", "components", "ir", "bitcode")
"""Sections in the order on disk: what every hit needs first, what only a new caller links last; unknown ones after."""
EAGER: Final = frozenset({"meta", "object"})
"""Sections brought along by the first read (or, where they are longer, by a second one)."""

DAMAGED: Final = "damaged"
OTHER_VERSION: Final = "other-version"
UNREADABLE: Final = "unreadable"
OTHER_KEY: Final = "other-key"
UNTRUSTED: Final = "untrusted"
REVOKED: Final = "revoked"
"""It came from elsewhere, and none of the keys that signed it is trusted here."""

BESIDE: Final = "beside"
"""In what an entry's header says besides its fields: who signed what was loaded before in the process that built it.

A list of lists of ``[name, public key, not after]``: of each of these one has to be trusted (:mod:`nbcache.keyring`).
"""

_FIXED: Final = Struct("<8sII")
DIGEST_OFFSET: Final = _FIXED.size
"""Where the header's digest lies [bytes from the start]. It stands for the whole entry: the header holds the others."""
_PREAMBLE: Final = DIGEST_OFFSET + DIGEST_SIZE
_TEXT_FIELDS: Final = ("key", "kind", "function", "signature", "toolchain", "build", "guard")
_NUMBER_FIELDS: Final = ("compile_seconds", "created")
_TABLE_ROW: Final = [str, int, str]


class Header(Record):
    """What is known about an entry without reading its sections."""

    key: str
    """64 lowercase hex digits; also the name of the file."""
    kind: str
    """``"dispatcher"``, ``"ufunc"``, ``"cfunc"``, ``"gufunc-wrapper"``…"""
    function: str
    """``"module:qualname"``."""
    signature: str
    """The signature, readable."""
    toolchain: str
    """Versions and target, readable, in one line."""
    compile_seconds: float
    """How long the compilation took [s]: what a hit saves."""
    created: float
    """When it was built, Unix time [s]."""
    build: str
    """Build id, part of every symbol of the object."""
    guard: str
    """Digest of what must also hold for this variant; ``""`` for nothing."""
    extra: Mapping[str, object] = MappingProxyType({})
    """Small JSON; unknown fields are ignored.

    ``nbcache``: the version of the package that made the entry. ``here``: it is of no use on other hosts.
    ``beside``: who signed what was loaded in the process that built it (:data:`BESIDE`).
    """
    signed: tuple[Signature, ...] | None = None
    """The signatures of an entry that came from elsewhere (:mod:`nbcache.keyring`); None where it was built."""


class Entry:
    """An entry whose preamble and header were checked. Sections are checked when asked for."""

    __slots__ = ("_head", "_later", "_table", "damaged", "digest", "header", "layer", "path", "proven", "size", "used")

    def __init__(
        self,
        header: Header,
        *,
        table: dict[str, tuple[int, int, str]],
        head: bytes,
        later: Callable[[int, int], bytes | None] | None,
        digest: bytes,
        size: int,
    ) -> None:
        """Hold the parsed parts. ``later(offset, size)`` fetches bytes that ``head`` doesn't reach, or None."""
        self.header = header
        self.digest = digest.hex()
        """What tells it from every other entry, also from one of the same key: 32 hex digits."""
        self.size = size
        """[bytes]"""
        self.damaged = False
        """Whether a section that was asked for isn't what was written."""
        self.path = ""
        """Where it was found."""
        self.layer = ""
        """The name of the layer that it lies in; "" for the store itself."""
        self.proven = True
        """Whether some process is known to have used it and ended well (:mod:`nbcache.store.quarantine`)."""
        self.used = False
        """Whether this process goes on with what was read of it."""
        self._table = table
        self._head = head
        self._later = later

    @property
    def section_sizes(self) -> dict[str, int]:
        """Name and size [bytes] of each section, in the order on disk."""
        return {name: size for name, (_, size, _) in self._table.items()}

    def section(self, name: str) -> bytes | None:
        """Return a section's bytes once its digest was found right; None when absent, damaged or no longer readable."""
        row = self._table.get(name)
        if row is None:
            return None
        offset, size, digest = row
        if offset + size <= len(self._head):
            data: bytes | None = self._head[offset : offset + size]
        else:
            data = self._later(offset, size) if self._later is not None else None
        if data is None or len(data) != size:
            return None
        if blake2b(data, digest_size=DIGEST_SIZE).hexdigest() != digest:
            self.damaged = True
            return None
        return data

    def sections(self) -> dict[str, bytes] | None:
        """Return all sections; None if one of them isn't to be had as it was written."""
        found = {}
        for name in self._table:
            content = self.section(name)
            if content is None:
                return None
            found[name] = content
        return found

    def go_on_with(self) -> None:
        """This process goes on with what it has read. The rest isn't kept: few entries are ever asked for it."""
        self.used, self._head = True, b""

    def lies(self, path: str, layer: str, proven: bool, later: Callable[[int, int], bytes | None]) -> None:
        """Say where it was found, and where bytes come from once the descriptor that it was parsed from is closed."""
        self.path, self.layer, self.proven, self._later = path, layer, proven, later


def encode(header: Header, sections: Mapping[str, bytes]) -> bytes:
    """Return the bytes of an entry.

    Raises :class:`~nbcache.errors.EntryError` when the header isn't JSON, or it or the whole is too large.
    """
    names = ordered(sections)
    table = [[name, len(sections[name]), _digest(sections[name]).hex()] for name in names]
    fields = {name: getattr(header, name) for name in (*_TEXT_FIELDS, *_NUMBER_FIELDS)}
    fields["extra"] = dict(header.extra)
    if header.signed is not None:
        fields["signed"] = header.signed
    fields["sections"] = table
    import json  # who only reads doesn't need it

    try:
        text = json.dumps(fields, separators=(",", ":"), allow_nan=False).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise errors.EntryError(f"the header can't be written as JSON: {error}") from error
    if _read_header(text) is None:
        raise errors.EntryError("a field of the header has the wrong type")
    if len(text) > MAX_HEADER:
        raise errors.EntryError(f"the header is too large: {len(text)} bytes")
    fixed = _FIXED.pack(MAGIC, FORMAT_VERSION, len(text))
    data = b"".join([fixed, _digest(fixed, text), text, *(sections[name] for name in names)])
    if len(data) > MAX_ENTRY:
        raise errors.EntryError(f"the entry is too large: {len(data)} bytes")
    return data


def digest_of(header: Header, sections: Mapping[str, bytes]) -> str:
    """Return what tells an entry from all others, as its file has it, in 32 hex digits. Raises as `encode` does."""
    return encode(header, sections)[DIGEST_OFFSET:_PREAMBLE].hex()


def parse(source: int | bytes) -> Entry | None:
    """Parse an entry from an open file descriptor or from bytes; None if it isn't a valid one of this version."""
    entry = examine(source)
    return None if isinstance(entry, str) else entry


def examine(source: int | bytes, *, first: int = FIRST_READ, eager: bool = True) -> Entry | str:
    """Like :func:`parse`, but say why not: :data:`DAMAGED`, :data:`OTHER_VERSION` or :data:`UNREADABLE`.

    ``first`` is how much the first read asks for [bytes]; with ``eager`` false, no section is read along. The
    descriptor stays open and is read with ``pread``, so that its offset doesn't matter; sections that weren't read
    along are fetched from it when asked for, until :meth:`Entry.lies` names another place.
    """
    if isinstance(source, bytes):
        return _examine(len(source), source, None, eager=False)
    with suppressed(OSError, ValueError):
        status = os.fstat(source)
        if not stat.S_ISREG(status.st_mode):
            return UNREADABLE
        return examine_open(source, status.st_size, first=first, eager=eager)
    return UNREADABLE


def examine_open(fd: int, size: int, *, first: int = FIRST_READ, eager: bool = True) -> Entry | str:
    """Like :func:`examine` for a descriptor already known to be a regular file of ``size`` bytes. May raise OSError."""
    # No more than there is: room for the rest would be made, and given back.
    head = os.pread(fd, min(first, size), 0)
    return _examine(size, head, lambda offset, count: pread_exactly(fd, offset, count), eager=eager)


def pread_exactly(fd: int, offset: int, count: int) -> bytes | None:
    """Return ``count`` bytes at ``offset``; None when the file is shorter or can't be read."""
    if count > MAX_ENTRY:
        return None
    parts = []
    with suppressed(OSError):
        while count > 0 and (part := os.pread(fd, count, offset)):
            parts.append(part)
            offset += len(part)
            count -= len(part)
        if count <= 0:
            return parts[0] if len(parts) == 1 else b"".join(parts)
    return None


def ordered(names: Iterable[str]) -> list[str]:
    """Return section names in the order on disk: the known ones first."""
    given = set(names)
    return [name for name in SECTION_ORDER if name in given] + sorted(given.difference(SECTION_ORDER))


def _digest(*parts: bytes) -> bytes:
    hasher = blake2b(digest_size=DIGEST_SIZE)
    for part in parts:
        hasher.update(part)
    return hasher.digest()


def _examine(
    size: int,
    head: bytes,
    more: Callable[[int, int], bytes | None] | None,
    *,
    eager: bool,
) -> Entry | str:
    if len(head) < _PREAMBLE or size > MAX_ENTRY:
        return DAMAGED
    magic, version, length = _FIXED.unpack_from(head)
    if magic != MAGIC:
        return DAMAGED
    if version != FORMAT_VERSION:
        return OTHER_VERSION
    start = _PREAMBLE + length
    if length > MAX_HEADER or start > size:
        return DAMAGED
    grown = _grow(head, start, more)
    if grown is None:
        return DAMAGED
    head, text, digest = grown, grown[_PREAMBLE:start], grown[DIGEST_OFFSET:_PREAMBLE]
    if _digest(head[: _FIXED.size], text) != digest:
        return DAMAGED
    read = _read_header(text)
    if read is None:
        return DAMAGED
    header, rows = read
    table, end = _place(rows, start)
    if end != size:
        return DAMAGED
    if eager:
        wanted = max((offset + count for name, (offset, count, _) in table.items() if name in EAGER), default=0)
        grown = _grow(head, wanted, more)
        if grown is None:
            return DAMAGED
        head = grown
    return Entry(header, table=table, head=head, later=more, digest=digest, size=size)


def _grow(head: bytes, end: int, more: Callable[[int, int], bytes | None] | None) -> bytes | None:
    """Return the bytes up to ``end`` at least; None when they can't be had."""
    if len(head) >= end:
        return head
    rest = None if more is None else more(len(head), end - len(head))
    return None if rest is None else head + rest


def _place(rows: list[tuple[str, int, str]], start: int) -> tuple[dict[str, tuple[int, int, str]], int]:
    """Give each section its offset. Offsets aren't stored, so that sections can't overlap or leave gaps."""
    table = {}
    for name, size, digest in rows:
        table[name] = (start, size, digest)
        start += size
    return table, start


def _read_header(text: bytes) -> tuple[Header, list[tuple[str, int, str]]] | None:
    """Decode the header's JSON and check each type; None on anything unexpected."""
    try:
        fields = parsed(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    values = [fields.get(name) for name in _TEXT_FIELDS]
    numbers = [fields.get(name) for name in _NUMBER_FIELDS]
    extra = fields.get("extra")
    rows = _read_table(fields.get("sections"))
    if rows is None or not isinstance(extra, dict):
        return None
    if {*map(type, values)} != {str} or not {*map(type, numbers)} <= {int, float}:
        return None
    signed = _read_signed(fields["signed"]) if "signed" in fields else None
    if signed is None and "signed" in fields:
        return None
    key, kind, function, signature, toolchain, build, guard = values
    seconds, created = numbers
    return Header(key, kind, function, signature, toolchain, seconds, created, build, guard, extra, signed), rows  # type: ignore[arg-type]  # checked above


def _read_signed(rows: object) -> tuple[Signature, ...] | None:
    from nbcache.keyring import Signature  # most entries were built here

    if not isinstance(rows, list) or len(rows) > MAX_SIGNATURES:
        return None
    found = []
    for row in rows:
        if not isinstance(row, list) or list(map(type, row)) != [str, str, int, str]:
            return None
        found.append(Signature(*row))
    return tuple(found)


def _read_table(rows: object) -> list[tuple[str, int, str]] | None:
    if not isinstance(rows, list):
        return None
    table = []
    for row in rows:
        if not isinstance(row, list) or [*map(type, row)] != _TABLE_ROW or row[1] < 0:
            return None
        table.append(tuple(row))
    return table if len({name for name, _, _ in table}) == len(table) else None
