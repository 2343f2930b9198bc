"""Published names: what is published under a name, in versions, each file written atomically and judged when it is
read.

::

    v1/names/<name>.json          the newest version
    v1/names/<name>~<n>.json      the n-th version: the last :data:`KEPT` before the newest one are kept
    v1/names/<name>~0.json        when it was taken back last, where that was to be remembered

A **name** is one to many parts joined by dots, which are its namespaces: letters, digits, ``_`` and ``-``, ASCII only,
:data:`MAX_NAME` characters at most. So a name is never a path, an option or a hidden file. As a file's name, each
capital is written as ``!`` and the small letter, as Go's module cache does (https://go.dev/ref/mod#module-cache):
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

import itertools
import math
import re
from typing import TYPE_CHECKING, Final

from nbcache.passing import errors, let_pass, suppressed
from nbcache.process import os, time
from nbcache.store import layout, publication, tree
from nbcache.store.content import stamp_of
from nbcache.store.files import Files, failing
from nbcache.store.publication import WITHDRAWN, Publication

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nbcache.store.locks import Lease
    from nbcache.store.pins import Acquire
    from nbcache.trust import Trust

MAX_NAME: Final = 100
"""The longest name [characters]: written with ``!`` before each, it still fits a file's name."""
KEPT: Final = 3
"""How many versions of a name are kept besides the newest one."""
SUFFIX: Final = ".json"
NEAR: Final = 3
"""How many names that look like the one that isn't there are told."""
REMEMBERED_SECONDS: Final = 90 * 86400.0
"""For how long it is remembered that something was taken back [s]."""
_TAKEN_BACK: Final = 0
"""Stands for a version's number in the name of the file that remembers it."""
_LOOKED_AT: Final = 200
"""Among how many names such are looked for: with more, finding out that one isn't there would take ever longer."""
_FILE: Final = r"([a-z0-9_.!-]+?)(?:~(0|[1-9][0-9]{0,8}))?\.json"
_AGAIN: Final = {
    publication.DAMAGED: f"{publication.DAMAGED}: publish it again",
    publication.OTHER_VERSION: f"{publication.OTHER_VERSION}: publish it again with this one, or use that one here",
}


def check_name(name: object) -> str:
    """Return a name; raise :class:`~nbcache.errors.BadNameError` for anything that is none."""
    if not isinstance(name, str) or len(name) > MAX_NAME or not _is_name(name):
        raise errors.BadNameError(name)
    return name


def _is_name(name: str) -> bool:
    # By hand: compiling an expression for it takes longer than all else that a node does with names.
    return name.isascii() and all(
        part and part[0] != "-" and part.replace("-", "_").replace("_", "a").isalnum() for part in name.split(".")
    )


def file_name(name: str, version: int | None = None) -> str:
    """Return the name of the file of a (checked) name: of the newest version, or the one that holds an older
    version.
    """
    escaped = "".join(f"!{letter.lower()}" if letter.isupper() else letter for letter in name)
    return f"{escaped}{SUFFIX}" if version is None else f"{escaped}~{version}{SUFFIX}"


def read_file_name(name: str) -> tuple[str, int | None] | None:
    """Return the name and version that :func:`file_name` was given; None for what is no such file's name."""
    found = re.fullmatch(_FILE, name, re.ASCII)
    if found is None:
        return None
    plain = re.sub("!([a-z])", lambda small: small[1].upper(), found[1])
    if len(plain) > MAX_NAME or not _is_name(plain):
        return None
    return plain, None if found[2] is None else int(found[2])


def withdrawal(name: str, after: Publication | None = None) -> Publication:
    """Return what says that a name is taken back now, whatever the date of what was published *after* all says."""
    now = time.time()
    return Publication(name, 1, _later(now, after), (), (), WITHDRAWN, "", expires=now + REMEMBERED_SECONDS)


def _later(now: float, before: Publication | None) -> float:
    """Return the time, or that after the date of what is replaced, where a clock that was ahead gave it."""
    return now if before is None else max(now, math.nextafter(before.created, math.inf))


class Names:
    """The published names of one store. Threads and forked children may use one object."""

    def __init__(self, root: str, trust: Trust, acquire: Acquire | None = None) -> None:
        """``root`` is a store's, opened and judged; ``acquire`` takes a lease on a key. Without it, they are only
        read.
        """
        self.root = root
        self.trust = trust
        self._acquire = acquire
        self._path = f"{root}/{layout.NAMES}"
        self._inside = tree.Inside(root, trust)
        self.files = Files(root, self._inside)
        """The files that belong to publications."""

    def read(self, name: str, version: int | None = None) -> Publication:
        """Return what is published under a name, the newest or a given version of it.

        Raises :class:`~nbcache.errors.BadNameError`, :class:`~nbcache.errors.NotPublishedError`, which says what is
        near, and :class:`~nbcache.errors.PublicationError` for what is damaged, of another version, or a stranger's.
        """
        check_name(name)
        found = self._read(name, file_name(name))
        if found is None:
            raise errors.NotPublishedError(name, self.root, lambda: self.near(name))
        if version is None or found.version == version:
            return found
        older = self._read(name, file_name(name, version))
        if older is None:
            there = ", ".join(map(str, self.versions(name)))
            raise errors.PublicationError(name, f"version {version} is not there (there are: {there})")
        return older

    def stamp(self, name: str) -> tuple[int, int, int] | None:
        """Return what tells whether something new is published under a name: one ``stat``; None if nothing is."""
        return stamp_of(self._file(check_name(name)))

    def known(self) -> list[str]:
        """Return all names, sorted. Nothing of them is looked at but that they are there. Never raises."""
        return sorted({name for name, version in self._listed() if version is None})

    def withdrawn(self) -> list[str]:
        """Return all names of which it is remembered that they were taken back, sorted. Never raises."""
        return sorted({name for name, version in self._listed() if version == _TAKEN_BACK})

    def withdrawal(self, name: str) -> Publication | None:
        """Return what says when a name was taken back last; None if that isn't remembered. Raises PublicationError."""
        return self._present(check_name(name), _TAKEN_BACK)

    def versions(self, name: str) -> list[int]:
        """Return which versions of a name there are, the newest last. Raises as :meth:`read`, but for what isn't
        there.
        """
        found = self._read(check_name(name), file_name(name))
        older = {version for version in self._older(name, found) if os.path.lexists(self._file(name, version))}
        return sorted(older | ({found.version} if found is not None else set()))

    def near(self, name: str) -> tuple[str, ...]:
        """Return the names that look like this one, the nearest first; none where there are hundreds."""
        listed = self._listed(_LOOKED_AT + 1)
        if len(listed) > _LOOKED_AT:
            return ()
        import difflib  # most processes ask for names that are there

        there = {known.lower(): known for known, version in listed if version is None}
        return tuple(there[close] for close in difflib.get_close_matches(name.lower(), there, NEAR))

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
            for suffix in layout.SUFFIXES:
                try:
                    os.utime(layout.stem(self.root, layout.check_key(key)) + suffix, follow_symlinks=False)
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
        wanted = Publication(check_name(name), 0, now, tuple(entries), tuple(digests), manifest, "", expires=until)
        with self._alone(name):
            before = self._present(name) or self.withdrawal(name)
            return self._write(wanted._replace(created=_later(now, before)))

    def adopt(self, found: Publication) -> Publication:
        """Publish what was published in another store, as the same version if this one has none as high.

        Returns what is published. Raises as :meth:`write`; what it refers to has to be here by now.
        """
        present = self._present(check_name(found.name))
        if present is not None and present.is_same(found):
            return present
        with self._alone(found.name):
            return self._write(found)

    def lacks(self, found: Publication, counts: Callable[[Publication], bool]) -> bool:
        """Whether what was found elsewhere says something else than the store, and is newer than all of it that counts.
        Raises PublicationError.
        """
        present = self._read(check_name(found.name), file_name(found.name))
        if present is None and found.manifest == WITHDRAWN:
            return False
        here = filter(None, (present, self.withdrawal(found.name)))
        return all(each.created < found.created for each in here if counts(each))

    def take(self, found: Publication, counts: Callable[[Publication], bool]) -> bool:
        """Have the store say what was found elsewhere, also that a name was taken back, if it :meth:`lacks` that now;
        return whether it did.

        What it refers to has to be here by now. Raises as :meth:`write`.
        """
        with self._alone(check_name(found.name)):
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
        older = self._older(name, before) + ([] if before is None else [before.version])
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
        with self._alone(check_name(name)):
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
                older = self._older(name, self._present(name))
                wanted = [*(file_name(name, version) for version in older), file_name(name)]
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

    def _present(self, name: str, version: int | None = None) -> Publication | None:
        """Return what is published now; what can't be used is none, and is replaced. Raises PublicationError."""
        try:
            return self._read(name, file_name(name, version))
        except errors.PublicationError as error:
            # What can't be read for the moment may be right, and its version is not to be given to something else.
            if isinstance(error.__cause__, OSError):
                raise
            return None

    def _file(self, name: str, version: int | None = None) -> str:
        return f"{self._path}/{file_name(name, version)}"

    def _older(self, name: str, newest: Publication | None) -> list[int]:
        """Return which versions of a name may lie beside the newest one, sorted."""
        if newest is not None and newest.older is not None:
            return sorted(newest.older)
        # All names are listed only where the newest version is damaged, or as nbcache 0.2 wrote it.
        if newest is None and not os.path.lexists(self._file(name)):
            return []
        return sorted(version for listed, version in self._listed() if listed == name and version)

    def _drop(self, name: str, versions: list[int]) -> list[int]:
        """Remove versions of a name; return those that are there still."""
        from nbcache.store.folders import Folder

        with suppressed(OSError), Folder(self.root, layout.NAMES) as folder:
            for version in versions:
                folder.remove(file_name(name, version))
        return [version for version in versions if os.path.lexists(self._file(name, version))]

    def _listed(self, most: int | None = None) -> list[tuple[str, int | None]]:
        from nbcache.store.folders import Folder

        with suppressed(OSError), Folder(self.root, layout.NAMES) as folder:
            items = itertools.islice(folder.json_files(), most)
            return list(filter(None, (read_file_name(item.name) for item in items)))
        return []
