"""Pins: what a published name refers to is neither evicted nor collected, also by who begins while it is published.

Every version that lies in ``v1/names/`` pins its entries and files; taking a name back frees them. So does its age,
where it was published with one: who evicts or collects first gives up the versions that have expired, the oldest first.
Where that is the newest one, the one before it is the newest from then on. Two things that happen at once could still
lose an entry: one process finds that it is there and publishes a name, another has just
found that nobody refers to it and removes it. So whoever publishes, and whoever evicts or collects, is **alone** with
it: there is one lease (:mod:`nbcache.store.locks`) in a store for that, held from looking to having acted. Who evicts
without being asked to doesn't wait for it, and leaves the eviction to the next one.

Where no lease can be had (a network filesystem that has no locks of any kind), both go on: an entry may then be lost,
and loading the name says so.

What can't be read now, or is of another version of nbcache, may pin anything. Then nothing is evicted, and
:attr:`Pins.problem` says why. What is damaged or a stranger's pins nothing: nobody can load it.
"""

from __future__ import annotations

import errno
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, TypeVar

from nbcache.errors import PublicationError
from nbcache.passing_exceptions import let_pass, suppressed
from nbcache.process import os, time
from nbcache.records import Record
from nbcache.store import layout, listing, publication
from nbcache.store.content import read_up_to, reading
from nbcache.store.folders import Folder
from nbcache.store.publication import Publication

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from nbcache.file_trust import Trust
    from nbcache.store.locks import Lease

    Found = TypeVar("Found", "References", Publication)
    Acquire = Callable[[str], Lease | None]
    """Takes a lease on a key without waiting; None if somebody alive has it: `nbcache.store.directory.Store.lease`."""

ALONE: Final = blake2b(b"nbcache published names", digest_size=32).hexdigest()
"""The key of the lease that whoever publishes or evicts has."""
PATIENCE_SECONDS: Final = 60.0
"""How long who publishes, or evicts because somebody asked for it, waits for others to have done [s]."""
YOUNG_SECONDS: Final = 3600.0
"""Up to this age a file may belong to a publication that is being made [s]."""
_PAUSE_SECONDS: Final = 0.02
_FIRST_READ: Final = 1 << 14
"""How much of a publication is read for the sake of what it refers to, if that is enough [bytes]."""
_NO_FILE: Final = frozenset({errno.ENOENT, errno.ESTALE, errno.ELOOP, errno.ENXIO})
"""What opening an older version that was just dropped is answered with, or a link, or a socket."""


class References(Record):
    """What keeps entries and files from being evicted."""

    entries: tuple[str, ...]
    """Keys."""
    files: tuple[str, ...]
    """Digests."""
    expires: float | None
    """Until when, Unix time [s]; None for ever."""


class Pins(Record):
    """What published names refer to."""

    entries: frozenset[str] = frozenset()
    """Keys."""
    files: frozenset[str] = frozenset()
    """Digests."""
    problem: str | None = None
    """Why it isn't known what else is pinned, in one line: then nothing may go."""
    expired: tuple[str, ...] = ()
    """The files of what has expired, which pins nothing, those of the oldest first."""


class MissingError(PublicationError):
    """Something that a publication refers to isn't in the store. ``keys`` and ``digests`` say what."""

    def __init__(self, name: str, reason: str, keys: tuple[str, ...] = (), digests: tuple[str, ...] = ()) -> None:
        """Keep the parts, so that the exception survives pickling."""
        super().__init__(name, reason)
        self.args = (name, reason, keys, digests)
        self.keys = keys
        self.digests = digests


def alone(acquire: Acquire, patience: float) -> Lease | None:
    """Return the lease, a context manager; None if others had it for all of ``patience`` [s]. ``acquire`` doesn't
    wait.
    """
    deadline = time.monotonic() + patience
    while True:
        lease = acquire(ALONE)
        if lease is not None or time.monotonic() >= deadline:
            return lease
        time.sleep(_PAUSE_SECONDS)


@contextmanager
def held(
    acquire: Acquire, root: str, trust: Trust, *, patience: float = 0.0, deadline: float = float("inf")
) -> Iterator[Pins]:
    """Be alone, and know what is pinned meanwhile; or know why not, after ``patience`` [s]. Arguments as
    :func:`read`.
    """
    lease = alone(acquire, patience)
    if lease is None:
        yield Pins(problem="another process publishes, or evicts")
        return
    with lease:
        found = read(root, trust, deadline)
        with suppressed(OSError), Folder(root, layout.NAMES) as folder:
            for name in found.expired:
                if time.monotonic() > deadline:
                    break
                _give_up(folder, name, trust)
        yield found


def _give_up(folder: Folder, name: str, trust: Trust) -> None:
    """Remove a version that has expired. Where it is the newest one, the one before it takes its place.

    It is read again, and whole: it may be damaged, and where no lease can be had another one may lie there by now.
    """
    found = _whole(folder, name, trust)
    if found is None or _expired(found, time.time()) is None:
        return
    newest = _newest(name)
    if name == newest:
        for version in sorted(found.older or (), reverse=True):
            before = f"{newest.removesuffix('.json')}~{version}.json"
            if _whole(folder, before, trust) is not None:
                with suppressed(OSError):
                    folder.replace(before, newest)
                return
    folder.remove(name)


def _whole(folder: Folder, name: str, trust: Trust) -> Publication | None:
    """Return what is published; None for what can't be used, or read."""
    with suppressed(OSError):
        found = _read(folder, name, trust, _content)
        return None if isinstance(found, str) else found
    return None


def _newest(name: str) -> str:
    """Return the name of the file of the newest version, of which one of the versions has this file."""
    return name.removesuffix(".json").partition("~")[0] + ".json"


def read(root: str, trust: Trust, deadline: float = float("inf")) -> Pins:
    """Return what is pinned in a store. Never raises. After ``deadline`` (of :func:`time.monotonic`), it isn't
    known.
    """
    there: dict[str, dict[str, References]] = {}
    try:
        with Folder(root, layout.NAMES) as folder:
            for item in folder.json_files():
                if time.monotonic() > deadline:
                    return Pins(problem="there was no time to see what published names refer to")
                found = _read(folder, item.name, trust, _references)
                if found == publication.OTHER_VERSION:
                    return Pins(problem=f"{root}/{layout.NAMES}/{item.name} {found}, and may refer to anything")
                if isinstance(found, References):
                    there.setdefault(_newest(item.name), {})[item.name] = found
    except FileNotFoundError:
        pass
    except OSError as error:
        let_pass(error)
        return Pins(problem=f"published names can't be read: {error.strerror or error}")
    return _pinned(there)


def _pinned(there: Mapping[str, Mapping[str, References]]) -> Pins:
    """Return what is pinned by versions, which are given by the names of their files, by that of the newest one."""
    now = time.time()
    entries: set[str] = set()
    digests: set[str] = set()
    expired: list[tuple[float, bool, str]] = []
    for newest, versions in there.items():
        gone = {name: found.expires or 0.0 for name, found in versions.items() if _expired(found, now) is not None}
        for name, found in versions.items():
            until = gone.get(name)
            if until is None:
                entries.update(found.entries)
                digests.update(found.files)
            else:
                # The newest last: it says which others there are.
                last = name == newest
                expired.append((max(gone.values()) if last else until, last, name))
    return Pins(frozenset(entries), frozenset(digests), None, tuple(name for *_, name in sorted(expired)))


def _expired(found: References | Publication, now: float) -> float | None:
    """Return when something expired; None if it hasn't."""
    return None if found.expires is None or found.expires > now else found.expires


def size(root: str, pinned: Pins | None = None, shards: Iterable[str] | None = None) -> int:
    """Return the size [bytes] of the files by digest: of those that are pinned, or all; in some shards, or all. Never
    raises.
    """
    total = 0
    for shard in listing.shards(root, layout.FILES) if shards is None else shards:
        with suppressed(OSError), Folder(root, f"{layout.FILES}/{shard}") as folder:
            for item in folder.files():
                with suppressed(OSError):
                    if pinned is None or shard + item.name in pinned.files:
                        total += item.stat(follow_symlinks=False).st_size
    return total


def missing(root: str, found: Publication) -> MissingError | None:
    """Return what a publication refers to and isn't in the store; None if all of it is. Looks at names only."""
    keys = tuple(key for key in found.entries if not os.path.lexists(layout.slot_path(root, key)))
    digests = tuple(digest for digest in found.files if not os.path.lexists(publication.path_of(root, digest)))
    if not keys and not digests:
        return None
    what = f"entry {keys[0]}" if keys else f"file {digests[0]}"
    return MissingError(found.name, f"its {what} is not in {root} (any more): publish it again", keys, digests)


def collect(root: str, pinned: Pins, now: float | None = None) -> tuple[int, int]:
    """Remove files by digest that nobody refers to; return how many, and their size [bytes]. Never raises.

    Who calls it is alone. Those younger than :data:`YOUNG_SECONDS` stay.
    """
    count = size = 0
    if pinned.problem is not None:
        return count, size
    limit = (time.time() if now is None else now) - YOUNG_SECONDS
    for shard in listing.shards(root, layout.FILES):
        with suppressed(OSError), Folder(root, f"{layout.FILES}/{shard}") as folder:
            for item in list(folder.files()):
                digest = shard + item.name
                if not layout.is_key(digest) or digest in pinned.files:
                    continue
                with suppressed(OSError):
                    status = item.stat(follow_symlinks=False)
                    if status.st_mtime < limit and folder.remove(item.name):
                        count, size = count + 1, size + status.st_size
    return count, size


def references(beginning: bytes) -> References | str | None:
    """Return what a publication refers to and until when, without its manifest; nothing is compared with the digest.

    A file that doesn't say is :data:`~nbcache.store.publication.DAMAGED`, or of another version; None says that more of
    it is needed.
    """
    digest, rest = publication.first_line(beginning)
    if digest is None:
        return publication.stranger(beginning)
    line, end, _ = rest.partition(b",\n")
    if not end:
        return None
    members = publication.about(line)
    if members is None:
        return publication.DAMAGED
    return References(members["entries"], members["files"], members["expires"])


def _references(fd: int, size: int) -> References | str:
    """Return what a file of that size refers to, or what is wrong with it. Raises OSError."""
    data = read_up_to(fd, _FIRST_READ)
    found = references(data)
    return (references(data + read_up_to(fd, size)) or publication.DAMAGED) if found is None else found


def _content(fd: int, size: int) -> Publication | str:
    """Return what a file of that size says, every byte of which is checked. Raises OSError."""
    return publication.decode(read_up_to(fd, size))


def _read(folder: Folder, name: str, trust: Trust, look: Callable[[int, int], Found | str]) -> Found | str:
    """Return what ``look`` says of a file, or what is wrong with it. Raises OSError where somebody else may be able to
    read it.
    """
    try:
        with reading(name, folder.open) as (fd, status):
            if not trust.allows(status, fd) or status.st_size > publication.MAX_SIZE:
                return publication.DAMAGED
            return look(fd, status.st_size)
    except OSError as error:
        let_pass(error)
        if error.errno in _NO_FILE:
            return publication.DAMAGED
        raise
