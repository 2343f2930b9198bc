"""Finding the entries of a key: which of its files may be used."""

from __future__ import annotations

import errno
import stat
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from nbcache.file_trust import OPEN_FLAGS, Trust
from nbcache.passing_exceptions import let_pass, suppressed
from nbcache.process import os
from nbcache.store import entry, layout
from nbcache.store.content import reading
from nbcache.store.entry import OTHER_KEY, REVOKED, UNREADABLE, UNTRUSTED, Entry, Header, examine_open, pread_exactly

GONE: Final = frozenset({errno.ENOENT, errno.ESTALE, errno.ENOTDIR})
"""What says that nothing is there."""

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    class Opened(Protocol):
        """What is needed of a :class:`nbcache.store.opened.Opened`."""

        path: str
        trust: Trust
        layer: str

        def admits(self, header: Header) -> bool:
            """Whether an entry may be used for who signed it."""

        def trusts_shard(self, shard: str) -> bool:
            """Whether the directory is trusted in which the keys lie that begin so."""


def _later(path: str, trust: Trust, meant: tuple[int, str], offset: int, count: int) -> bytes | None:
    """Return so many bytes from there that weren't read along; None if what is meant, by size and digest, is gone."""
    with suppressed(OSError), reading(path) as (fd, status):
        # The header's digest tells the same entry from a replacement; it covers the digests of all sections. Better
        # than an inode number, which can be used again, and an entry that moved to another slot isn't mistaken for one.
        digest = os.pread(fd, entry.DIGEST_SIZE, entry.DIGEST_OFFSET).hex() if trust.allows(status, fd) else ""
        if (status.st_size, digest) == meant:
            return pread_exactly(fd, offset, count)
    return None


def variants(store: Opened, key: str, reject: Callable[[str], None]) -> Iterator[Entry]:
    """Yield what may be used of what lies under this key: see :meth:`nbcache.store.opened.Opened.find`."""
    for path in layout.slot_paths(store.path, key):
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
            found = examine_trusted(store, fd, status, key)
        except OSError as raised:
            let_pass(raised)
            found = UNREADABLE
        finally:
            os.close(fd)
        if not isinstance(found, str) and not store.admits(found.header):
            found = REVOKED
        if isinstance(found, str):
            reject(found)
            continue
        # Of a layer's files the permission says nothing: an installer may have set it.
        proven = status.st_mode & stat.S_IXUSR != 0 and not store.layer
        found.lies(path, store.layer, proven, partial(_later, path, store.trust, (found.size, found.digest)))
        yield found


def examine_trusted(store: Opened, fd: int, status: os.stat_result, key: str) -> Entry | str:
    """Like :func:`nbcache.store.entry.examine`, of an open file with this status that has to be a key's and trusted."""
    try:
        if not store.trust.allows(status, fd) or not store.trusts_shard(key[: layout.SHARD]):
            return UNTRUSTED
        found = examine_open(fd, status.st_size)
    except (OSError, ValueError) as raised:
        let_pass(raised)
        return UNREADABLE
    if not isinstance(found, str) and found.header.key != key:
        return OTHER_KEY
    return found
