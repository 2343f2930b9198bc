"""Bundles: entries with their signatures in one file, which whatever keeps files can keep, such as a CI runner's cache.

::

    bundle = gzip of: "nbcache bundle 2" LF, object*, zeros of the size of an object's head    ; integers little-endian
    object = key size entry                      ; a head: 32 bytes, u32; and an entry with its signatures (objects.py)

Version log: 1 was a tar.

Each entry is judged for itself, as one from a remote cache is. So nothing has to be believed of the archive: entries
that were taken out of one are missing, and what was put in is refused.
"""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from nbcache import keyring
from nbcache.errors import RemoteError
from nbcache.keyring import Keyring
from nbcache.regular_files import open_to_read
from nbcache.remote import objects
from nbcache.remote.objects import Admitted
from nbcache.signing_keys import SecretKey
from nbcache.store import entry, layout, quarantine
from nbcache.store.directory import Store
from nbcache.store.entry import Header
from nbcache.store.slots import PUBLISHED

VERSION: Final = 2
_BEGIN: Final = f"nbcache bundle {VERSION}\n".encode()
_HEAD: Final = struct.Struct("<32sI")
MAX_ENTRIES: Final = 1_000_000
MAX_BYTES: Final = 16 << 30
"""How large all entries of a bundle may be together [bytes]."""
_LEVEL: Final = 6


def write(path: str, entries: Iterator[bytes]) -> tuple[int, int]:
    """Write entries into a bundle, in place of one that is there; return how many, and their size [bytes].

    Raises OSError; nothing is left of an unfinished bundle then.
    """
    temporary = f"{path}.{layout.unique()}.tmp"
    count = size = 0
    file = open(temporary, "xb")  # noqa: SIM115  what isn't ours by that name stays
    try:
        with file, gzip.open(file, "wb", _LEVEL) as packed:
            packed.write(_BEGIN)
            for data in entries:
                opened = objects.open_entry(data)
                assert isinstance(opened, Admitted)  # whoever made it encoded it
                packed.write(_HEAD.pack(bytes.fromhex(opened.header.key), len(data)) + data)
                count += 1
                size += len(data)
            packed.write(bytes(_HEAD.size))
        if count:
            os.replace(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
    return count, size


def of_store(store: Store, key: SecretKey | None, trusted: Keyring | None) -> Iterator[bytes]:
    """Yield every entry of a store: signed by *key*, or with the signatures that it came with.

    What programs crashed with is left out; and what has no signature, and gets none, unless *trusted* has the word that
    nothing need be signed.
    """
    for name in sorted({info.key for info in store.scan()}):
        for found in quarantine.for_others(store.find(name), store.path, store.trust):
            sections, signed = found.sections(), found.header.signed
            if sections is None:
                continue
            if signed is None and key is not None:
                signed = (objects.sign(key, found.header, sections),)
            if signed or (trusted is not None and trusted.unsigned):
                yield entry.encode(found.header._replace(signed=signed or ()), sections)


def load(path: str, store: Store, trusted: Keyring, refuse: Callable[[str], None]) -> dict[str, int]:
    """Put the entries of a bundle into a store; return how many went how. Raises RemoteError, OSError.

    *refuse* is told why an entry wasn't taken.
    """
    counts = {"taken": 0, "already there": 0, "refused": 0}
    condemned = quarantine.condemned(store.path, store.trust)
    for name, data in read(path):
        admitted = objects.admit(data, name, trusted, condemned)
        if isinstance(admitted, str):
            counts["refused"] += 1
            refuse(f"{name[:12]}: {admitted}")
            continue
        stored = store.publish(admitted.header, admitted.sections, recache=False, durable=False)
        if not stored.ok:
            raise RemoteError(f"{store.path}: {stored.reason}")
        counts["taken" if stored.reason == PUBLISHED else "already there"] += 1
    return counts


def sign(path: str, key: SecretKey) -> int:
    """Add a signature to every entry of a bundle; return how many it has. Raises RemoteError, OSError.

    Whoever signs vouches for all that is in it, whoever made it.
    """

    def signed() -> Iterator[bytes]:
        for name, data in read(path):
            opened = objects.open_entry(data)
            if isinstance(opened, str):
                raise RemoteError(f"{path}: {name[:12]}: {opened}")
            header = _vouched(opened.header, key)
            own = objects.sign(key, header, opened.sections)
            others = tuple(each for each in header.signed or () if each.public != own.public)
            yield entry.encode(header._replace(signed=(*others, own)), opened.sections)

    return write(path, signed())[0]


def _vouched(header: Header, key: SecretKey) -> Header:
    """Vouch for what an entry was built beside as well; then nobody else's signature is over it any more."""
    groups = keyring.groups_of(header.extra.get(entry.BESIDE))
    if not groups:
        return header
    public = key.public
    own = (key.name, public.public, public.not_after)
    beside = [sorted({*group, own}) for group in groups]
    return header._replace(extra={**header.extra, entry.BESIDE: beside}, signed=None)


def read(path: str) -> Iterator[tuple[str, bytes]]:
    """Yield key and bytes of each entry of a bundle, unjudged. Raises RemoteError for what is no bundle, OSError."""
    count = total = 0
    try:
        with os.fdopen(open_to_read(path), "rb") as packed, gzip.open(packed) as file:
            if file.read(len(_BEGIN)) != _BEGIN:
                raise RemoteError(f"{path} is no bundle of nbcache's, or one of another version")
            while (head := _HEAD.unpack(_exactly(file, _HEAD.size)))[1]:
                count, total = count + 1, total + head[1]
                if head[1] > objects.MAX_OBJECT or count > MAX_ENTRIES or total > MAX_BYTES:
                    raise RemoteError(f"{path} is no bundle: there is more in it than any has")
                yield head[0].hex(), _exactly(file, head[1])
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise RemoteError(f"{path} is no bundle, or is damaged: {error}") from error


def _exactly(file: gzip.GzipFile, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError("it ends too early")
    return data
