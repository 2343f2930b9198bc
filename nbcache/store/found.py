"""An entry that a look-up found: its header, and its sections when they are asked for."""

from __future__ import annotations

import errno
import stat
from typing import TYPE_CHECKING, Final

from nbcache.passing import let_pass
from nbcache.process import os
from nbcache.store import entry, layout
from nbcache.store.entry import UNREADABLE, examine_open, pread_exactly
from nbcache.store.reasons import OTHER_KEY, REVOKED, UNTRUSTED
from nbcache.trust import OPEN_FLAGS, Trust

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nbcache.store.entry import Header, ParsedEntry

GONE: Final = frozenset({errno.ENOENT, errno.ESTALE, errno.ENOTDIR})


class FoundEntry:
    """An entry that may be used. ``section(name)`` checks each section before it returns it."""

    __slots__ = ("_parsed", "header", "layer", "path", "proven", "used")

    def __init__(self, path: str, parsed: ParsedEntry, *, proven: bool = True, layer: str = "") -> None:
        """Wrap an entry that was found trusted and valid."""
        self.path = path
        self.layer = layer
        """The name of the layer that it lies in; "" for the store itself."""
        self.proven = proven
        """Whether some process is known to have used it and ended well (:mod:`nbcache.store.quarantine`)."""
        self.used = False
        """Whether this process goes on with what was read of it."""
        self.header = parsed.header
        self._parsed = parsed

    @property
    def digest(self) -> str:
        """What tells it from every other entry, also from one of the same key: 32 hex digits."""
        return self._parsed.digest.hex()

    @property
    def damaged(self) -> bool:
        """Whether a section that was asked for isn't what was written."""
        return self._parsed.damaged

    @property
    def whole(self) -> bool:
        """Whether all of it can be read and is as it was written."""
        return all(self.section(name) is not None for name in self.section_sizes)

    @property
    def section_sizes(self) -> dict[str, int]:
        """Name and size [bytes] of each section."""
        return self._parsed.section_sizes

    def section(self, name: str) -> bytes | None:
        """Return a section; None when absent, damaged, or when it must be read now and the file is gone or replaced."""
        return self._parsed.section(name)


class Later:
    """Fetches bytes of an entry that weren't read along, from the file that the others came from or not at all."""

    __slots__ = ("_digest", "_path", "_size", "_trust")

    def __init__(self, path: str, trust: Trust, digest: bytes, size: int) -> None:
        self._path = path
        self._trust = trust
        self._digest = digest
        self._size = size

    def __call__(self, offset: int, count: int) -> bytes | None:
        """Return so many bytes from there; None if the entry is another one now, or gone."""
        try:
            fd = os.open(self._path, OPEN_FLAGS)
        except OSError as raised:
            let_pass(raised)
            return None
        try:
            status = os.fstat(fd)
            # The header's digest tells the same entry from a replacement; it covers the digests of all sections. Better
            # than an inode number, which can be used again, and an entry that moved to another slot isn't mistaken for
            # one.
            same = self._trust.allows(status, fd) and status.st_size == self._size
            same = same and os.pread(fd, entry.DIGEST_SIZE, entry.DIGEST_OFFSET) == self._digest
            return pread_exactly(fd, offset, count) if same else None
        except OSError as raised:
            let_pass(raised)
            return None
        finally:
            os.close(fd)


def variants(
    stem: str,
    key: str,
    reject: Callable[[str], None],
    *,
    trust: Trust,
    trusts_shard: Callable[[str], bool],
    admits: Callable[[Header], bool],
    layer: str,
) -> Iterator[FoundEntry]:
    """Yield what :meth:`nbcache.store.directory.Store.find` does, for a key whose files begin with *stem*."""
    for suffix in layout.SUFFIXES:
        path = stem + suffix
        try:
            fd = os.open(path, OPEN_FLAGS)
        except OSError as error:
            let_pass(error)
            if error.errno in GONE:
                return
            reject(UNTRUSTED if error.errno == errno.ELOOP else UNREADABLE)
            continue
        try:
            status = os.fstat(fd)
            found = examine_trusted(fd, status, key, trust, trusts_shard)
        except OSError as raised:
            let_pass(raised)
            found = UNREADABLE
        finally:
            os.close(fd)
        if not isinstance(found, str) and not admits(found.header):
            found = REVOKED
        if isinstance(found, str):
            reject(found)
            continue
        found.refetch(Later(path, trust, found.digest, found.size))
        # Of a layer's files the permission says nothing: an installer may have set it.
        proven = status.st_mode & stat.S_IXUSR != 0 and not layer
        yield FoundEntry(path, found, proven=proven, layer=layer)


def examine_trusted(
    fd: int, status: os.stat_result, key: str, trust: Trust, trusts_shard: Callable[[str], bool]
) -> ParsedEntry | str:
    """Like :func:`nbcache.store.entry.examine`, of an open file with this status that has to be a key's and trusted."""
    try:
        if not trust.allows(status, fd) or not trusts_shard(key[: layout.SHARD]):
            return UNTRUSTED
        found = examine_open(fd, status.st_size)
    except (OSError, ValueError) as raised:
        let_pass(raised)
        return UNREADABLE
    if not isinstance(found, str) and found.header.key != key:
        return OTHER_KEY
    return found
