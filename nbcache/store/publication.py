"""Publications: what a name stands for, as one file; reading it by its name, and the files that belong to it.

Where they lie, who writes them, and which names there may be: :mod:`nbcache.store.name_writing`.

The format
----------
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

- **Each file is judged when it is read**: what :meth:`Named.read` returns was read from a file that the rule of trust
  allows, in directories that it allows, of this format version, undamaged, and published under this very name.
  Everything else is one clear error. A reader sees one version whole, the old one or the new one
  (:mod:`nbcache.store.atomic`).
- **Files are what was meant**: images, arrays and parts of Numba's runtime lie in ``v1/files/ab/<62 hex>``, named by
  the digest of their content (:mod:`nbcache.store.content`), so publications share what is the same. What
  :meth:`Files.read` returns was read from a file that the rule of trust allows, and has that digest. Who adds one that
  is there renews its date: a file that nobody refers to yet, because its publication is still being made, is young
  (:func:`nbcache.store.pins.collect`).

The digest of a publication notices damage. It is no proof of origin: see :mod:`nbcache.file_trust`.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from nbcache.file_trust import strerror
from nbcache.grammar import fields, hexadecimal, maybe, natural, number, row, several, text, whole
from nbcache.passing_exceptions import errors, let_pass, suppressed
from nbcache.process import os
from nbcache.records import Record
from nbcache.store import layout
from nbcache.store.content import MAX_SIGNATURES, Inside, blake2b, digest_of, parsed, stamp_of
from nbcache.store.layout import KEY_SIZE, is_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nbcache.file_trust import Trust

FORMAT_VERSION: Final = 1
MAX_SIZE: Final = 16 << 20
"""The largest publication [bytes], far above any manifest: a bound on what a reader may be asked to hold."""
MAX_FILE_SIZE: Final = 1 << 30
"""The largest file [bytes]."""
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


def encode(published: Publication) -> bytes:
    """Return the file; the digest is of what is written. Raises ValueError for a manifest of several lines or a
    reference that is none.
    """
    import json  # who only reads doesn't need it

    written = {
        "name": published.name,
        "version": published.version,
        "created": published.created,
        "entries": sorted(set(published.entries)),
        "files": sorted(set(published.files)),
        **{name: value for name in _LEFT_OUT if (value := getattr(published, name)) is not None},
    }
    if b"\n" in published.manifest or not all(map(is_key, (*published.entries, *published.files))):
        raise ValueError(f"not a publication: {published!r:.200}")
    rest = json.dumps(written, separators=(",", ":"))[1:-1].encode() + b",\n" + _MANIFEST + published.manifest + _END
    return b'{"nbcache-name":%d,"digest":"%s",\n' % (FORMAT_VERSION, _digest(rest).encode()) + rest


def decode(data: bytes) -> Publication | str:
    """Return what a file says, or :data:`DAMAGED` or :data:`OTHER_VERSION`. Never raises."""
    digest, rest = first_line(data)
    if digest is None:
        return stranger(data)
    if _digest(rest).encode() != digest:
        return DAMAGED
    line, _, last = rest.partition(b",\n")
    if not (last.startswith(_MANIFEST) and last.endswith(_END) and last.find(b"\n") == len(last) - 1):
        return DAMAGED
    members = about(line)
    if members is None:
        return DAMAGED
    return Publication(**members, manifest=last[len(_MANIFEST) : -len(_END)], digest=digest.decode())


def first_line(data: bytes) -> tuple[bytes | None, bytes]:
    """Return the digest that the first line has, and what follows; None for a line that isn't of this version."""
    start = len(_FIRST)
    digest, rest = data[start : start + _DIGEST_SIZE], data[start + _DIGEST_SIZE :]
    if not (data.startswith(_FIRST) and rest.startswith(_FIRST_END)) or digest.strip(b"0123456789abcdef"):
        return None, b""
    return digest, rest[len(_FIRST_END) :]


def stranger(data: bytes) -> str:
    """Return what is wrong with a file whose first line isn't of this version."""
    import re  # most files are of this version

    version = re.match(_ANY_VERSION, data)
    return DAMAGED if version is None or int(version[1]) == FORMAT_VERSION else OTHER_VERSION


def about(line: bytes) -> dict[str, Any] | None:
    """Return the members of the second line, checked."""
    if len(line) > MAX_ABOUT:
        return None
    try:
        found: dict[str, Any] = _ABOUT({**_LEFT_OUT, **parsed(b"{%s}" % line)})
    except (ValueError, RecursionError):
        return None
    times = found["created"], found["expires"] or 0.0
    return found if found["version"] > 0 and all(abs(each) < _LATEST for each in times) else None


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


def path_of(root: str, digest: str) -> str:
    """Return where a file lies. ``digest`` is checked: :class:`~nbcache.errors.BadKeyError`."""
    layout.check_key(digest)
    return f"{root}/{layout.FILES}/{digest[: layout.SHARD]}/{digest[layout.SHARD :]}"


@contextmanager
def failing(name: str, what: str) -> Iterator[None]:
    """Raise PublicationError, for the publication ``name``, in the place of an OSError: *what*, and why."""
    try:
        yield
    except OSError as error:
        let_pass(error)
        raise errors.PublicationError(name, f"{what}: {strerror(error)}") from error


class Files:
    """The files of one store, by digest."""

    def __init__(self, root: str, inside: Inside) -> None:
        """``root`` is a store's, opened and judged, and ``inside`` reads it."""
        self._root = root
        self._inside = inside

    def add(self, data: bytes, digest: str | None = None, *, durable: bool = True) -> str:
        """Put a file there, unless it is; return its digest, which who has just made it says. Raises OSError.

        What is ``durable`` is on the disk when this returns; what isn't may be lost in a power failure until
        :meth:`flush` was called.
        """
        if len(data) > MAX_FILE_SIZE:
            import errno

            raise OSError(errno.EFBIG, f"a file of {len(data)} bytes is too large to be published")
        digest = digest_of(data) if digest is None else digest
        path = path_of(self._root, digest)
        if self.has(digest):
            # Somebody else's can't be renewed, and is there all the same: who publishes looks again when he is alone.
            with suppressed(OSError):
                os.utime(path, follow_symlinks=False)
            return digest
        from nbcache.store import atomic  # nodes only read

        for directory in (f"{self._root}/{layout.FILES}", os.path.dirname(path)):
            atomic.make_directory(directory)
        atomic.write_file(path, data, durable=durable)
        return digest

    def flush(self, digests: Iterable[str]) -> None:
        """Have files on the disk when this returns, whoever has just added them. Raises OSError."""
        from nbcache.store import atomic

        atomic.flush(path_of(self._root, digest) for digest in digests)

    def read(self, digest: str, name: str = "") -> bytes:
        """Return what a file holds. Raises PublicationError, for the publication ``name``, if it isn't there or isn't
        as it was.
        """
        return self.opened(digest, name)[1]

    def opened(self, digest: str, name: str = "") -> tuple[str, bytes]:
        """Return where a file lies as well as what it holds. Raises as :meth:`read`.

        Who opens it again by that path opens what was judged: only who is trusted can put another in its place.
        """
        path = path_of(self._root, digest)
        directory, file = f"{layout.FILES}/{digest[: layout.SHARD]}", digest[layout.SHARD :]
        with failing(name, f"its file {path} can't be read"):
            found = self._inside.read(directory, file, MAX_FILE_SIZE)
        if isinstance(found, bytes) and digest_of(found) == digest:
            return path, found
        if not isinstance(found, str):
            found = f"is {'gone' if found is None else 'damaged'}: publish it again"
        raise errors.PublicationError(name, f"its file {path} {found}")

    def has(self, digest: str) -> bool:
        """Whether a file is there, as it was."""
        try:
            self.read(digest)
        except errors.PublicationError:
            return False
        return True


_AGAIN: Final = {
    DAMAGED: f"{DAMAGED}: publish it again",
    OTHER_VERSION: f"{OTHER_VERSION}: publish it again with this one, or use that one here",
}


class Named:
    """The published names of one store, to be read. Threads and forked children may use one object."""

    def __init__(self, root: str, trust: Trust, inside: Inside) -> None:
        """``root`` is a store's, opened and judged, and ``inside`` reads it."""
        self.root = root
        self.trust = trust
        self._path = f"{root}/{layout.NAMES}"
        self._inside = inside
        self.files = Files(root, self._inside)
        """The files that belong to publications."""

    def read(self, name: str, version: int | None = None) -> Publication:
        """Return what is published under a name, the newest or a given version of it.

        Raises :class:`~nbcache.errors.BadNameError`, :class:`~nbcache.errors.NotPublishedError`, which says what is
        near, and :class:`~nbcache.errors.PublicationError` for what is damaged, of another version, or a stranger's.
        """
        layout.check_name(name)
        found = self._read(name, layout.name_file(name))
        if found is None:
            raise errors.NotPublishedError(name, self.root, lambda: self.near(name))
        if version is None or found.version == version:
            return found
        older = self._read(name, layout.name_file(name, version))
        if older is None:
            there = ", ".join(map(str, self.versions(name)))
            raise errors.PublicationError(name, f"version {version} is not there (there are: {there})")
        return older

    def stamp(self, name: str) -> tuple[int, int, int] | None:
        """Return what tells whether something new is published under a name: one ``stat``; None if nothing is."""
        return stamp_of(self._file(layout.check_name(name)))

    def known(self) -> list[str]:
        """Return all names, sorted. Nothing of them is looked at but that they are there. Never raises."""
        from nbcache.store import name_listing  # most processes list none, here and below

        return sorted({name for name, version in name_listing.listed(self.root) if version is None})

    def versions(self, name: str) -> list[int]:
        """Return which versions of a name there are, the newest last. Raises as :meth:`read`, but for what isn't
        there.
        """
        from nbcache.store import name_listing

        found = self._read(layout.check_name(name), layout.name_file(name))
        return name_listing.versions(self.root, name, found)

    def near(self, name: str) -> tuple[str, ...]:
        """Return the names that look like this one, the nearest first; none where there are hundreds."""
        from nbcache.store import name_listing

        return name_listing.near(self.root, name)

    def _read(self, name: str, file: str) -> Publication | None:
        """Return what one file says; None if it isn't there. Raises PublicationError."""
        path = f"{self._path}/{file}"
        with failing(name, f"{path} can't be read"):
            read = self._inside.read(layout.NAMES, file, MAX_SIZE)
        found = decode(read) if isinstance(read, bytes) else read
        if isinstance(found, str):
            raise errors.PublicationError(name, f"{path} {_AGAIN.get(found, found)}")
        if found is not None and found.name != name:
            told = f"{path} was published as {found.name}: publish it again under this name"
            raise errors.PublicationError(name, told)
        return found

    def _file(self, name: str, version: int | None = None) -> str:
        return f"{self._path}/{layout.name_file(name, version)}"
