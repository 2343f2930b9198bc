"""Reading what is published by name: each file is judged when it is read.

Where it lies, who writes it, and which names there may be: :mod:`nbcache.store.name_writing`.

What is guaranteed: what :meth:`Named.read` returns was read from a file that the rule of trust allows, in directories
that it allows, of this format version, undamaged, and published under this very name. Everything else is one clear
error. A reader sees one version whole, the old one or the new one (:mod:`nbcache.store.atomic`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nbcache.passing_exceptions import errors
from nbcache.store import layout, publication
from nbcache.store.content import Inside, stamp_of
from nbcache.store.publication_files import Files, failing

if TYPE_CHECKING:
    from nbcache.file_trust import Trust
    from nbcache.store.publication import Publication

_AGAIN: Final = {
    publication.DAMAGED: f"{publication.DAMAGED}: publish it again",
    publication.OTHER_VERSION: f"{publication.OTHER_VERSION}: publish it again with this one, or use that one here",
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
            read = self._inside.read(layout.NAMES, file, publication.MAX_SIZE)
        found = publication.decode(read) if isinstance(read, bytes) else read
        if isinstance(found, str):
            raise errors.PublicationError(name, f"{path} {_AGAIN.get(found, found)}")
        if found is not None and found.name != name:
            told = f"{path} was published as {found.name}: publish it again under this name"
            raise errors.PublicationError(name, told)
        return found

    def _file(self, name: str, version: int | None = None) -> str:
        return f"{self._path}/{layout.name_file(name, version)}"
