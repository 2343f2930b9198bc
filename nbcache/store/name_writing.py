"""Published names: what is published under a name, in versions, each file written atomically and judged when it is
read.

::

    v1/names/<name>.json          the newest version
    v1/names/<name>~<n>.json      the n-th version: the last :data:`KEPT` before the newest one are kept
    v1/names/<name>~0.json        when it was taken back last, where that was to be remembered

A **name** is one to many parts joined by dots, which are its namespaces: letters, digits, ``_`` and ``-``, ASCII only,
:data:`layout.MAX_NAME` characters at most. So a name is never a path, an option or a hidden file. As a file's name,
each capital is written as ``!`` and the small letter, as Go's module cache does (https://go.dev/ref/mod#module-cache):
``Fuse`` and ``fuse`` are two names on filesystems that don't tell capitals, too.

What is guaranteed
------------------
- A reader sees one version whole, the old one or the new one (:mod:`nbcache.store.atomic`).
- What :meth:`Names.read` returns was read from a file that the rule of trust allows, in directories that it allows, of
  this format version, undamaged, and published under this very name. Everything else is one clear error.
- Who publishes is alone: nobody else publishes, and nobody evicts (:mod:`nbcache.store.pins`), from the moment at which
  everything that is referred to was found to be there until the name refers to it.
- What was published with an age may be given up when it has that (:mod:`nbcache.store.pins`), and is there until then.
- Older versions stay, with all that they refer to, for those who are about to load one, or go back to one.
- What comes from elsewhere (:meth:`Names.take`) is newer than what is here, and than what is remembered as taken back,
  for :data:`REMEMBERED_SECONDS`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from nbcache.passing_exceptions import errors, let_pass, suppressed
from nbcache.process import os, time
from nbcache.store import layout, name_listing, publication
from nbcache.store.publication import WITHDRAWN, Named, Publication, failing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nbcache.file_trust import Trust
    from nbcache.store.content import Inside
    from nbcache.store.locks import Lease
    from nbcache.store.pins import Acquire

KEPT: Final = 3
"""How many versions of a name are kept besides the newest one."""
REMEMBERED_SECONDS: Final = 90 * 86400.0
"""For how long it is remembered that something was taken back [s]."""
_TAKEN_BACK: Final = 0
"""Stands for a version's number in the name of the file that remembers it."""


def withdrawal(name: str, after: Publication | None = None) -> Publication:
    """Return what says that a name is taken back now, whatever the date of what was published *after* all says."""
    now = time.time()
    return Publication(name, 1, _later(now, after), (), (), WITHDRAWN, "", expires=now + REMEMBERED_SECONDS)


def _later(now: float, before: Publication | None) -> float:
    """Return the time, or that after the date of what is replaced, where a clock that was ahead gave it."""
    return now if before is None else max(now, math.nextafter(before.created, math.inf))


class Names(Named):
    """The published names of one store, to be written as well."""

    def __init__(self, root: str, trust: Trust, inside: Inside, acquire: Acquire | None = None) -> None:
        """``acquire`` takes a lease on a key; without it, nothing is written."""
        super().__init__(root, trust, inside)
        self._acquire = acquire

    def withdrawn(self) -> list[str]:
        """Return all names of which it is remembered that they were taken back, sorted. Never raises."""
        return sorted({name for name, version in name_listing.listed(self.root) if version == _TAKEN_BACK})

    def withdrawal(self, name: str) -> Publication | None:
        """Return what says when a name was taken back last; None if that isn't remembered. Raises PublicationError."""
        return self._present(layout.check_name(name), _TAKEN_BACK)

    def missing(self, found: Publication) -> errors.PublicationError | None:
        """Return what a publication refers to and isn't in the store, or None if all of it is. Nothing is read."""
        from nbcache.store import pins

        return pins.missing(self.root, found)

    def renew(self, entries: Iterable[str]) -> None:
        """Say that entries are used now, for they are about to be published: what is used is evicted last. Never
        raises.

        Until a name refers to them, that is all that keeps them.
        """
        for key in entries:
            for path in layout.slot_paths(self.root, layout.check_key(key)):
                try:
                    os.utime(path, follow_symlinks=False)
                except OSError as raised:
                    let_pass(raised)
                    break

    def write(
        self,
        name: str,
        manifest: bytes,
        entries: Iterable[str] = (),
        digests: Iterable[str] = (),
        expires: float | None = None,
    ) -> Publication:
        """Publish a manifest (JSON on one line) as the newest version of a name; return what is published.

        ``entries`` are the keys that it refers to, ``digests`` the files. It may be given up after ``expires`` [s].
        Raises
        :class:`~nbcache.errors.BadNameError`, and :class:`~nbcache.errors.PublicationError` when it can't be written
        or something of it isn't there (:class:`~nbcache.store.pins.MissingError`, a kind of it, says what).
        """
        now = time.time()
        until = None if expires is None else now + expires
        wanted = Publication(
            layout.check_name(name), 0, now, tuple(entries), tuple(digests), manifest, "", expires=until
        )
        with self._alone(name):
            before = self._present(name) or self.withdrawal(name)
            return self._write(wanted._replace(created=_later(now, before)))

    def adopt(self, found: Publication) -> Publication:
        """Publish what was published in another store, as the same version if this one has none as high.

        Returns what is published. Raises as :meth:`write`; what it refers to has to be here by now.
        """
        present = self._present(layout.check_name(found.name))
        if present is not None and present.is_same(found):
            return present
        with self._alone(found.name):
            return self._write(found)

    def lacks(self, found: Publication, counts: Callable[[Publication], bool]) -> bool:
        """Whether what was found elsewhere says something else than the store, and is newer than all of it that counts.
        Raises PublicationError.
        """
        present = self._read(layout.check_name(found.name), layout.name_file(found.name))
        if present is None and found.manifest == WITHDRAWN:
            return False
        here = filter(None, (present, self.withdrawal(found.name)))
        return all(each.created < found.created for each in here if counts(each))

    def take(self, found: Publication, counts: Callable[[Publication], bool]) -> bool:
        """Have the store say what was found elsewhere, also that a name was taken back, if it :meth:`lacks` that now;
        return whether it did.

        What it refers to has to be here by now. Raises as :meth:`write`.
        """
        with self._alone(layout.check_name(found.name)):
            if not self.lacks(found, counts):
                return False
            if found.manifest == WITHDRAWN:
                self._remove(found.name, found)
            else:
                self._write(found)
        return True

    def _write(self, wanted: Publication) -> Publication:
        """Publish this, under a version of at least its own, being alone. Raises PublicationError."""
        from nbcache.store import atomic, pins  # a process that only loads never needs them

        name = wanted.name
        missing = pins.missing(self.root, wanted)
        if missing is not None:
            raise missing
        before = self._present(name)
        older = name_listing.older(self.root, name, before) + ([] if before is None else [before.version])
        left = self._drop(name, older[:-KEPT]) + older[-KEPT:]
        version = max(wanted.version, max(older, default=0) + 1)
        data = publication.encode(wanted._replace(version=version, older=tuple(left)))
        written = publication.decode(data)
        if isinstance(written, str) or len(data) > publication.MAX_SIZE:
            raise errors.PublicationError(name, f"is too large to be published ({len(data)} bytes)")
        with failing(name, "can't be published"):
            if before is not None:
                atomic.write_file(self._file(name, before.version), publication.encode(before))
            atomic.write_file(self._file(name), data)
        return written

    def remove(self, name: str, *, remember: bool = False) -> int:
        """Take back what is published under a name, all versions; return how many files went.

        What it referred to is free to be evicted or collected. With *remember*, no older one comes back from elsewhere.
        Raises :class:`~nbcache.errors.BadNameError`, :class:`~nbcache.errors.NotPublishedError`,
        :class:`~nbcache.errors.PublicationError`.
        """
        with self._alone(layout.check_name(name)):
            present = self._present(name)
            gone = self._remove(name, withdrawal(name, present) if remember and present is not None else None)
        if not gone:
            raise errors.NotPublishedError(name, self.root, lambda: self.near(name))
        return gone

    def _remove(self, name: str, remembered: Publication | None) -> int:
        """Remove all versions of a name, being alone, and remember that; return how many files went. Raises
        PublicationError.
        """
        from nbcache.store import atomic  # a process that only loads needs neither
        from nbcache.store.folders import Folder

        if remembered is not None:
            with failing(name, "can't be taken back"):
                atomic.write_file(self._file(name, _TAKEN_BACK), publication.encode(remembered))
        try:
            with Folder(self.root, layout.NAMES) as folder:
                # The newest last: it says which others there are, and nobody is to find these without it.
                older = name_listing.older(self.root, name, self._present(name))
                wanted = [*(layout.name_file(name, version) for version in older), layout.name_file(name)]
                gone = sum(folder.remove(each) for each in wanted)
                left = [each for each in wanted if folder.owner(each) is not None]
        except OSError as raised:
            let_pass(raised)
            gone, left = 0, []
        if left:
            raise errors.PublicationError(name, f"{self._path}/{left[0]} can't be removed")
        return gone

    def _alone(self, name: str) -> Lease:
        """Return what is held while something is published or taken back. Raises PublicationError."""
        from nbcache.store import atomic, pins

        if self._acquire is None:
            raise errors.PublicationError(
                name, f"{self.root} is read-only for this process: nothing is published or taken back"
            )
        with failing(name, f"{self._path} can't be made"):
            atomic.make_directory(self._path)
        problem = self._inside.problem(layout.NAMES)
        if problem is not None:
            raise errors.PublicationError(name, problem)
        lease = pins.alone(self._acquire, pins.PATIENCE_SECONDS)
        if lease is None:
            others = f"others publish or evict for {pins.PATIENCE_SECONDS:.0f} s"
            raise errors.PublicationError(name, f"{others} in {self.root}: try again later")
        return lease

    def _present(self, name: str, version: int | None = None) -> Publication | None:
        """Return what is published now; what can't be used is none, and is replaced. Raises PublicationError."""
        try:
            return self._read(name, layout.name_file(name, version))
        except errors.PublicationError as error:
            # What can't be read for the moment may be right, and its version is not to be given to something else.
            if isinstance(error.__cause__, OSError):
                raise
            return None

    def _drop(self, name: str, versions: list[int]) -> list[int]:
        """Remove versions of a name; return those that are there still."""
        from nbcache.store.folders import Folder

        with suppressed(OSError), Folder(self.root, layout.NAMES) as folder:
            for version in versions:
                folder.remove(layout.name_file(name, version))
        return [version for version in versions if os.path.lexists(self._file(name, version))]
