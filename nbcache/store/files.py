"""Files that belong to publications (images, arrays, parts of Numba's runtime): ``v1/files/ab/<62 hex>``, by digest.

A file is named by the digest of its content (:mod:`nbcache.store.content`), so publications share what is the same,
nobody replaces one, and who reads one knows that it is the one that was meant. Who adds one that is there renews its
date: a file that nobody refers to yet, because its publication is still being made, is young
(:func:`nbcache.store.pins.collect`).

What is guaranteed: what :meth:`Files.read` returns was read from a file that the rule of trust allows, and has that
digest.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from nbcache.passing import errors, let_pass, suppressed
from nbcache.process import os
from nbcache.store import layout, tree
from nbcache.store.content import digest_of, read_up_to
from nbcache.trust import OPEN_FLAGS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nbcache.trust import Trust

MAX_SIZE: Final = 1 << 30
"""The largest file [bytes]."""
_GONE: Final = frozenset({errno.ENOENT, errno.ESTALE, errno.ENOTDIR})


def path_of(root: str, digest: str) -> str:
    """Return where a file lies. ``digest`` is checked: :class:`~nbcache.errors.BadKeyError`."""
    layout.check_key(digest)
    return f"{root}/{layout.FILES}/{digest[: layout.SHARD]}/{digest[layout.SHARD :]}"


class Files:
    """The files of one store, by digest."""

    def __init__(self, root: str, trust: Trust) -> None:
        """``root`` is a store's, opened and judged."""
        self._root = root
        self._trust = trust
        self._trusted: set[str] = set()

    def add(self, data: bytes, *, durable: bool = True) -> str:
        """Put a file there, unless it is; return its digest. Raises OSError.

        What is ``durable`` is on the disk when this returns; what isn't may be lost in a power failure until
        :meth:`flush` was called.
        """
        if len(data) > MAX_SIZE:
            raise OSError(errno.EFBIG, f"a file of {len(data)} bytes is too large to be published")
        digest = digest_of(data)
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
        try:
            problem, data = self._read(path)
        except OSError as error:
            let_pass(error)
            if error.errno in _GONE:
                raise errors.PublicationError(name, f"its file {path} is gone: publish it again") from error
            raise errors.PublicationError(name, f"its file {path} can't be read: {tree.strerror(error)}") from error
        if problem is None and digest_of(data) != digest:
            problem = "is damaged: publish it again"
        if problem is not None:
            raise errors.PublicationError(name, f"its file {path} {problem}")
        return path, data

    def has(self, digest: str) -> bool:
        """Whether a file is there, as it was."""
        try:
            self.read(digest)
        except errors.PublicationError:
            return False
        return True

    def _read(self, path: str) -> tuple[str | None, bytes]:
        """Return what is wrong with a file, or what it holds. Raises OSError."""
        try:
            fd = os.open(path, OPEN_FLAGS)
        except OSError as error:
            if error.errno == errno.ELOOP:
                return "is a symbolic link: none is followed", b""
            raise
        try:
            status = os.fstat(fd)
            problem = self._trust.file_problem(status, fd) or self._directory_problem(os.path.dirname(path))
            if problem is None and status.st_size > MAX_SIZE:
                problem = "is damaged: publish it again"
            return problem, b"" if problem is not None else read_up_to(fd, status.st_size)
        finally:
            os.close(fd)

    def _directory_problem(self, shard: str) -> str | None:
        # Once for each, the inner one last: nobody but a trusted owner can make a directory that passed any worse.
        if shard in self._trusted:
            return None
        for path in (f"{self._root}/{layout.LAYOUT}", f"{self._root}/{layout.FILES}", shard):
            if path not in self._trusted:
                problem = self._trust.directory_problem(path)
                if problem is not None:
                    return f"lies in {path}, which {problem}"
                self._trusted.add(path)
        return None
