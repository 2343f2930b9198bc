"""Files that belong to publications (images, arrays, parts of Numba's runtime): ``v1/files/ab/<62 hex>``, by digest.

A file is named by the digest of its content (:mod:`nbcache.store.content`), so publications share what is the same,
nobody replaces one, and who reads one knows that it is the one that was meant. Who adds one that is there renews its
date: a file that nobody refers to yet, because its publication is still being made, is young
(:func:`nbcache.store.pins.collect`).

What is guaranteed: what :meth:`Files.read` returns was read from a file that the rule of trust allows, and has that
digest.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from nbcache.file_trust import strerror
from nbcache.passing_exceptions import errors, let_pass, suppressed
from nbcache.process import os
from nbcache.store import layout
from nbcache.store.content import Inside, digest_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


MAX_SIZE: Final = 1 << 30
"""The largest file [bytes]."""


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

    def add(self, data: bytes, *, durable: bool = True) -> str:
        """Put a file there, unless it is; return its digest. Raises OSError.

        What is ``durable`` is on the disk when this returns; what isn't may be lost in a power failure until
        :meth:`flush` was called.
        """
        if len(data) > MAX_SIZE:
            import errno

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
        directory, file = f"{layout.FILES}/{digest[: layout.SHARD]}", digest[layout.SHARD :]
        with failing(name, f"its file {path} can't be read"):
            found = self._inside.read(directory, file, MAX_SIZE)
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
