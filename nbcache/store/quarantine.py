"""Entries that programs crashed with, and those that are known to be good.

An entry is on trial until it was called once and that came back, or until a process that loaded it has ended well; its
owner's execute permission says so, or, where one can't change its mode (another user's, or a layer's, which is never
changed), the file ``good-1`` in one's own directory ``v1/trials/<uid>/``: a digest and a key each line.

In the table beside it (:mod:`nbcache.store.first_calls`) is who died in the first call of an entry. What
:data:`CRASHES` processes of a user died in, that user's processes pass over. To others, all that one user says counts
as one crash, so that it takes the word of several to have an entry passed over by everybody; that it was used is
nothing that anybody could prove. Root's word counts in full, and so does an asker's about what was built for him. An
entry is known by its digest, so one that was built again begins anew.
"""

from __future__ import annotations

import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from nbcache import regular_files
from nbcache.file_trust import Trust
from nbcache.passing_exceptions import suppressed
from nbcache.process import closing, os, time
from nbcache.records import Record
from nbcache.store import atomic, first_calls, layout, user_directories
from nbcache.store.content import read_up_to, reading
from nbcache.store.entry import DIGEST_OFFSET, DIGEST_SIZE, Entry
from nbcache.store.folders import Folder

CRASHES: Final = first_calls.PLACES
"""After so many deaths an entry is passed over."""
PROVEN: Final = stat.S_IXUSR
"""The permission of an entry's file which says that it was used well."""
GOOD: Final = "good-1"
"""Its name has the version of its format."""
KEPT_SECONDS: Final = 30 * 86400.0
"""How long a crash is remembered [s]."""
STALE_SECONDS: Final = 3600.0
"""From this age a file of another version is removed [s]."""
MAX_FILES: Final = 100
"""How many files of a user are looked at."""
MAX_GOOD: Final = 1 << 20
"""How much of what is good is read [bytes]."""


class _Shares:
    """How much of what each user says is read: he may have any number of directories, and costs others time."""

    def __init__(self, most: int) -> None:
        """Of each so much [bytes]."""
        self._left = defaultdict[int, int](lambda: most)

    def allows(self, status: os.stat_result) -> bool:
        """Whether a file of somebody's is to be read as well."""
        # Tables have holes.
        size = min(status.st_size, 512 * status.st_blocks or status.st_size)
        if size > self._left[status.st_uid]:
            return False
        self._left[status.st_uid] -= size
        return True


class Suspect(Record):
    """An entry that processes crashed with."""

    digest: str
    key: str
    function: str
    crashes: int
    latest: float
    """When that happened last [Unix s]."""
    users: dict[int, int]
    """How many of them are each user's."""

    @property
    def condemned(self) -> bool:
        """Whether whom this process looks for passes it over."""
        return self.is_condemned(layout.reader())

    def is_condemned(self, *uids: int) -> bool:
        """Whether somebody passes it over who takes these users at their word."""
        return self.weight(*uids) >= CRASHES

    def weight(self, *uids: int) -> int:
        """How many crashes it is to somebody who takes these users at their word."""
        return sum(count if uid in {0, *uids} else 1 for uid, count in self.users.items())


def read(root: str, trust: Trust, *, but: int | None = None) -> dict[str, Suspect]:
    """Return what is suspected by trusted users, *but* this uid, by digest. Never raises."""
    found: dict[str, Suspect] = {}
    shares = _Shares(2 * first_calls.MAX_SIZE)
    for folder in user_directories.folders(root, layout.TRIALS, trust):
        with suppressed(OSError):
            uid = folder.status.st_uid
            for call in _deaths(folder, trust, shares) if uid != but else ():
                before = found.get(call.digest) or Suspect(call.digest, call.key, call.function, 0, 0.0, {})
                found[call.digest] = before._replace(
                    crashes=before.crashes + 1,
                    latest=max(before.latest, call.began),
                    users={**before.users, uid: before.users.get(uid, 0) + 1},
                )
    return found


def settle(root: str, trust: Trust) -> int:
    """Find out what became of this user's processes that were inside; return how many deaths were forgotten.

    For whoever has no first call going on: fcntl(2) drops all locks when any descriptor of the file is closed. Never
    raises.
    """
    count = 0
    for folder, fd in _tables(root, trust):
        with suppressed(OSError):
            count += first_calls.settle(fd, time.time() - KEPT_SECONDS)
            _remove_empty(folder, fd)
    return count


def condemned(root: str, trust: Trust, uid: int | None = None) -> frozenset[str]:
    """Return the digests of what *uid* passes over, or whom this process looks for. Never raises."""
    if uid is None and layout.READER.uid is not None:
        return layout.READER.aside
    uid = layout.reader() if uid is None else uid
    return frozenset(digest for digest, suspect in read(root, trust).items() if suspect.is_condemned(uid))


def for_others(entries: Iterable[Entry], root: str, trust: Trust) -> Iterator[Entry]:
    """Yield what may go to other hosts: what is of use there, and what programs didn't crash with. Never raises."""
    return sound((entry for entry in entries if not entry.header.extra.get("here")), root, trust)


def sound(entries: Iterable[Entry], root: str, trust: Trust, uid: int | None = None) -> Iterator[Entry]:
    """Yield those that programs didn't crash with, as *uid* sees it. Never raises."""
    bad: frozenset[str] | None = None
    for entry in entries:
        if not entry.proven:
            bad = condemned(root, trust, uid) if bad is None else bad
            if entry.digest in bad:
                continue
        yield entry


def approve(path: str, digest: str) -> bool:
    """Say of an entry that it was used well, if it is one's own and still the same; return whether. Never raises."""
    with suppressed(OSError), reading(path) as (fd, status):
        same = os.pread(fd, DIGEST_SIZE, DIGEST_OFFSET).hex() == digest
        if same and status.st_uid == os.geteuid() and stat.S_ISREG(status.st_mode):
            os.fchmod(fd, stat.S_IMODE(status.st_mode) | PROVEN)
            return True
    return False


def disapprove(root: str, entry: Entry) -> bool:
    """Take back that an entry was used well; return whether nobody says so now, as far as is known. Raises OSError."""
    drop = user_directories.own(root, layout.TRIALS)
    if drop is not None:
        with suppressed(FileNotFoundError):
            path = f"{drop}/{GOOD}"
            with reading(path) as (fd, _):
                lines = read_up_to(fd, MAX_GOOD).splitlines(keepends=True)
            left = [line for line in lines if not line.startswith(entry.digest.encode())]
            if len(left) < len(lines):
                atomic.write_file(path, b"".join(left), durable=False)
    if entry.layer:
        return True
    status = os.stat(entry.path)
    if status.st_uid == os.geteuid() and status.st_mode & PROVEN:
        os.chmod(entry.path, stat.S_IMODE(status.st_mode) & ~PROVEN)
    return not os.stat(entry.path).st_mode & PROVEN


def good(root: str, trust: Trust) -> dict[str, str]:
    """Return the digests, and by these the keys, of what trusted users' programs used well. Never raises."""
    found: dict[str, str] = {}
    shares = _Shares(MAX_GOOD)
    for folder in user_directories.folders(root, layout.TRIALS, trust):
        with suppressed(OSError, ValueError), reading(GOOD, folder.open) as (fd, status):
            if trust.allows(status, fd) and shares.allows(status):
                lines = read_up_to(fd, MAX_GOOD).decode("ascii").splitlines()
                found.update(line.partition(" ")[::2] for line in lines)
    return found


def vouch(root: str, keys: Iterable[tuple[str, str]]) -> bool:
    """Say of entries, by digest and key, that they were used well; return whether it could be said. Raises OSError."""
    drop = user_directories.own(root, layout.TRIALS)
    if drop is None:
        return False
    text = "".join(f"{digest} {key}\n" for digest, key in keys).encode()
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with closing(os.open(f"{drop}/{GOOD}", flags, layout.FILE_MODE)) as fd:
        # What is long gone is in it, too: when it is full, it is begun anew.
        if os.fstat(fd).st_size + len(text) > MAX_GOOD:
            os.ftruncate(fd, 0)
        regular_files.write(fd, text)  # at once, so that lines of other processes stay whole
    return True


def clear(root: str, trust: Trust, digests: set[str] | None = None) -> int:
    """Forget crashes, all or those with these entries; return how many were forgotten. Never raises.

    Another user's table goes as a whole, where that is allowed: to write into a file of others is for nobody.
    """
    count = 0
    for folder in user_directories.folders(root, layout.TRIALS, trust):
        with suppressed(OSError):
            meant = sum(digests is None or call.digest in digests for call in _deaths(folder, trust))
            if meant and folder.status.st_uid != os.geteuid():
                count += meant * folder.remove(first_calls.FILE)
    for folder, fd in _tables(root, trust):
        with suppressed(OSError):
            for at, call in list(first_calls.read(fd)):
                if call.state == first_calls.DIED and (digests is None or call.digest in digests):
                    first_calls.write(fd, at)
                    count += 1
            _remove_empty(folder, fd)
    return count


def sweep(root: str, trust: Trust) -> int:
    """Remove what is of no use any more; return how much went. Never raises."""
    count = settle(root, trust)
    now = time.time()
    kept = {GOOD: KEPT_SECONDS, first_calls.FILE: KEPT_SECONDS}
    for folder in user_directories.folders(root, layout.TRIALS, trust):
        with suppressed(OSError):
            for item in list(islice(folder.items(), MAX_FILES)):
                if now - item.stat(follow_symlinks=False).st_mtime > kept.get(item.name, STALE_SECONDS):
                    count += folder.remove(item.name)
    return count


def _tables(root: str, trust: Trust) -> Iterator[tuple[Folder, int]]:
    """Yield this user's tables, and the directories that they are in. Never raises."""
    for folder in user_directories.folders(root, layout.TRIALS, trust):
        with suppressed(OSError):
            if folder.status.st_uid == os.geteuid():
                with closing(folder.open(first_calls.FILE, first_calls.FLAGS & ~os.O_CREAT)) as fd:
                    yield folder, fd


def _deaths(folder: Folder, trust: Trust, shares: _Shares | None = None) -> Iterator[first_calls.Call]:
    """Yield the calls that processes died in. Raises OSError."""
    with reading(first_calls.FILE, folder.open) as (fd, status):
        if trust.allows(status, fd) and (shares is None or shares.allows(status)):
            yield from (call for _, call in first_calls.read(fd) if call.state == first_calls.DIED)


def _remove_empty(folder: Folder, fd: int) -> None:
    """Remove a table that nobody needs. Raises OSError."""
    if first_calls.is_unused(fd):
        folder.remove(first_calls.FILE)
