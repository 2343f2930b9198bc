"""Entries that programs crashed with: ``v1/trials/<uid>/<process>.keys`` and ``.crash``.

An entry is on trial until a process that used it has ended well; its owner's execute permission says that one has.
A process that is about to use entries on trial notes them, before, in a file ``.keys``, one line each::

    <digest of the entry, 32 hex> <key> <when, Unix s> <function>

and has the interpreter write into the file ``.crash`` beside it, which is empty until then, should it die of a fatal
signal. One that ends well leaves nothing, one that is killed by somebody an empty file. So a file ``.crash`` that isn't
empty is a crash, and the entries that were begun with within :data:`WINDOW_SECONDS` before it are suspected of it. What
was suspected :data:`CRASHES` times is passed over, by everybody who trusts those who say so. An entry is known by its
digest, so one that was built again begins anew.

The files of a layer (:mod:`nbcache.store.layers`) are never changed. Of its entries, the file ``layers-1.good`` beside
the others says which were used well: one digest a line, and the version of this format in its name.
"""

from __future__ import annotations

import stat
from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING, Final

from nbcache import regular
from nbcache.passing import suppressed
from nbcache.process import os, time
from nbcache.records import Record
from nbcache.store import drops, layout
from nbcache.store.content import read_up_to
from nbcache.store.entry import DIGEST_OFFSET, DIGEST_SIZE
from nbcache.trust import OPEN_FLAGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nbcache.store.folders import Folder
    from nbcache.store.found import FoundEntry
    from nbcache.trust import Trust

CRASHES: Final = 2
"""After so many crashes an entry is passed over."""
WINDOW_SECONDS: Final = 5.0
"""How long after its first use began an entry is suspected of a crash [s]."""
PROVEN: Final = stat.S_IXUSR
"""The permission of an entry's file which says that a process used it and ended well."""
CRASH: Final = ".crash"
KEYS: Final = ".keys"
GOOD: Final = "layers-1.good"
STALE_SECONDS: Final = 3600.0
"""From this age what nobody crashed with is removed [s]: its process was killed, or goes on with what it has proven."""
KEPT_SECONDS: Final = 30 * 86400.0
"""How long a crash is remembered [s]."""
MAX_FILES: Final = 5000
"""How many files of a user are looked at."""
MAX_KEYS: Final = 1 << 20
"""How much of a file is read [bytes]."""


class Suspect(Record):
    """An entry that processes crashed with."""

    digest: str
    key: str
    function: str
    crashes: int
    latest: float
    """When that happened last [Unix s]."""

    @property
    def condemned(self) -> bool:
        """Whether it is passed over."""
        return self.crashes >= CRASHES


def read(root: str, trust: Trust) -> dict[str, Suspect]:
    """Return what is suspected by trusted users, by digest. Never raises."""
    found: dict[str, Suspect] = {}
    for folder in drops.folders(root, layout.TRIALS, trust):
        with suppressed(OSError):
            for item in islice(folder.items(), MAX_FILES):
                if item.name.endswith(CRASH):
                    status = item.stat(follow_symlinks=False)
                    if status.st_size:
                        _add(found, folder, item.name.removesuffix(CRASH), status.st_mtime, trust)
    return found


def condemned(root: str, trust: Trust) -> frozenset[str]:
    """Return the digests of what is passed over. Never raises."""
    return frozenset(digest for digest, suspect in read(root, trust).items() if suspect.condemned)


def for_others(entries: Iterable[FoundEntry], root: str, trust: Trust) -> Iterator[FoundEntry]:
    """Yield what may go to other hosts: what is of use there, and what programs didn't crash with. Never raises."""
    return sound((entry for entry in entries if not entry.header.extra.get("here")), root, trust)


def sound(entries: Iterable[FoundEntry], root: str, trust: Trust) -> Iterator[FoundEntry]:
    """Yield those that programs didn't crash with. Never raises."""
    bad: frozenset[str] | None = None
    for entry in entries:
        if not entry.proven:
            bad = condemned(root, trust) if bad is None else bad
            if entry.digest in bad:
                continue
        yield entry


def approve(path: str, digest: str) -> bool:
    """Say of an entry that it was used well, if it is one's own and still the same; return whether. Never raises."""
    with suppressed(OSError):
        fd = os.open(path, OPEN_FLAGS)
        try:
            status = os.fstat(fd)
            same = os.pread(fd, DIGEST_SIZE, DIGEST_OFFSET).hex() == digest
            if same and status.st_uid == os.geteuid() and stat.S_ISREG(status.st_mode):
                os.fchmod(fd, stat.S_IMODE(status.st_mode) | PROVEN)
                return True
        finally:
            os.close(fd)
    return False


def good(root: str, trust: Trust) -> frozenset[str]:
    """Return the digests of the entries of layers that trusted users' programs used well. Never raises."""
    found: set[str] = set()
    for folder in drops.folders(root, layout.TRIALS, trust):
        with suppressed(OSError, ValueError):
            fd = folder.open(GOOD, OPEN_FLAGS)
            try:
                if trust.allows(os.fstat(fd), fd):
                    found.update(read_up_to(fd, MAX_KEYS).decode("ascii").split())
            finally:
                os.close(fd)
    return frozenset(found)


def vouch(root: str, digests: Iterable[str]) -> bool:
    """Say of entries of layers that they were used well; return whether that could be said. Raises OSError."""
    drop = drops.own(root, layout.TRIALS)
    if drop is None:
        return False
    text = "".join(f"{digest}\n" for digest in digests).encode()
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(f"{drop}/{GOOD}", flags, layout.FILE_MODE)
    try:
        # Those of packages long gone are in it too: when it is full, it is begun anew.
        if os.fstat(fd).st_size + len(text) > MAX_KEYS:
            os.ftruncate(fd, 0)
        regular.write(fd, text)  # at once, so that lines of other processes stay whole
    finally:
        os.close(fd)
    return True


def clear(root: str, trust: Trust, digests: set[str] | None = None) -> int:
    """Forget crashes, all or those with one of these entries; return how many were forgotten."""
    count = 0
    for folder in drops.folders(root, layout.TRIALS, trust):
        with suppressed(OSError):
            for item in list(islice(folder.items(), MAX_FILES)):
                stem = item.name.removesuffix(CRASH)
                if stem == item.name or not item.stat(follow_symlinks=False).st_size:
                    continue
                if digests is None or digests & {digest for digest, *_ in _lines(folder, stem, trust)[0]}:
                    count += folder.remove(item.name)
                    folder.remove(stem + KEYS)
    return count


def sweep(root: str, trust: Trust) -> int:
    """Remove what is of no use any more; return how many files went. Never raises."""
    count, now = 0, time.time()
    for folder in drops.folders(root, layout.TRIALS, trust):
        with suppressed(OSError):
            for item in list(islice(folder.items(), MAX_FILES)):
                status = item.stat(follow_symlinks=False)
                if item.name == GOOD:
                    count += now - status.st_mtime > KEPT_SECONDS and folder.remove(item.name)
                    continue
                crash = item.name.removesuffix(KEYS).removesuffix(CRASH) + CRASH
                kept = KEPT_SECONDS if folder.size(crash) else STALE_SECONDS
                if now - status.st_mtime > kept:
                    count += folder.remove(item.name)
    return count


def _add(found: dict[str, Suspect], folder: Folder, stem: str, crashed: float, trust: Trust) -> None:
    lines, noted = _lines(folder, stem, trust)
    if not lines:
        return
    # By one clock each: how long before the last line by the program's, how long ago that was by the store's.
    last = lines[-1][2]
    recent = {line for line in lines if last - line[2] + crashed - noted < WINDOW_SECONDS}
    for digest, key, _, function in recent:
        before = found.get(digest)
        crashes, latest = (before.crashes, before.latest) if before is not None else (0, 0.0)
        found[digest] = Suspect(digest, key, function, crashes + 1, max(latest, crashed))


def _lines(folder: Folder, stem: str, trust: Trust) -> tuple[list[tuple[str, str, float, str]], float]:
    """Return what a process noted, and when it noted the last of it [Unix s]."""
    with suppressed(OSError, ValueError):
        fd = folder.open(stem + KEYS, OPEN_FLAGS)
        try:
            status = os.fstat(fd)
            if not trust.allows(status, fd):
                return [], 0.0
            text = read_up_to(fd, MAX_KEYS).decode("utf-8", "replace")
        finally:
            os.close(fd)
        by_digest: defaultdict[str, tuple[str, str, float, str]] = defaultdict()
        for line in text.splitlines():
            parts = line.split(" ", 3)
            if len(parts) == 4 and layout.is_key(parts[1]):
                by_digest[parts[0]] = (parts[0], parts[1], float(parts[2]), parts[3])
        return sorted(by_digest.values(), key=lambda each: each[2]), status.st_mtime
    return [], 0.0
