"""Whose a key is, among users who share one daemon: who asked for it first, also once its entry is gone.

A job runs the code of whoever asked for it, so an entry is that user's word, which everybody takes who asks for the
same key. What is there stays. What was evicted, or removed because programs crashed with it, would be anybody's word
next. So a key has a *first asker*:

- While an entry lies under it, that is who the entry was built for.
- When an entry is removed, the first asker is written down, in ``v1/askers/``.

What anybody else has built of such a key goes into **that user's room**, another key that is made of the first one and
the uid (:func:`nbcache.store.layout.room`). Nobody but that user looks there, and only after the key itself. So nobody
gets code of another user than before without having asked for it, and everybody gets what was asked for.

``askers/<uid>-1`` has the keys of one user: rows of :data:`WAYS` records of 40 bytes, ``<key, 32> <when, Unix s, 8>``,
a key's row by its first digits. A full row loses its oldest record, so one user's keys push out nobody else's, and a
file is never larger than 2.6 MB. -1 stands for the store's owner. The directory is made by a daemon that hears other
users (:func:`begin`); where there is none, one user alone fills the store, and nothing is written down.
"""

from __future__ import annotations

import fcntl
import struct
from typing import Final

from nbcache import regular_files
from nbcache.file_trust import Trust
from nbcache.passing_exceptions import let_pass, suppressed
from nbcache.process import closing, os, time
from nbcache.store import atomic, entry, layout
from nbcache.store.content import reading
from nbcache.store.entry import Header
from nbcache.store.usage import SELF_TEST

OWNER: Final = -1
"""Stands for whoever owns the store, in the place of a uid."""
ASKED: Final = "asked"
"""The field of a header that says for whom a daemon built it."""
ROOM_OF: Final = "of"
"""The field of a header that says which key an entry in a user's room stands for."""
WAYS: Final = 16
_ROWS: Final = 4096
_RECORD: Final = struct.Struct("<32sd")
_ROW: Final = WAYS * _RECORD.size
_ATTEMPTS: Final = 20
_PAUSE_SECONDS: Final = 0.001
"""How often, and after how long [s], a row is tried to be locked. Others have it for microseconds."""
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def asker(header: Header) -> int:
    """Return for whom an entry was built: a uid, or :data:`OWNER`."""
    uid = header.extra.get(ASKED)
    # What was signed came from elsewhere, where a uid is somebody else's.
    return uid if type(uid) is int and uid >= 0 and header.signed is None else OWNER


def named(uid: int | None) -> int | None:
    """Return the one name of a user: a daemon's own uid is the store's owner's."""
    return OWNER if uid == os.geteuid() else uid


def is_ones_own(header: Header, root: str) -> bool:
    """Whether an entry is the word of who this process looks for, or of whoever owns the store. Never raises."""
    uid = asker(header)
    if uid in {OWNER, layout.reader()}:
        return True
    with suppressed(OSError):
        return uid == os.stat(root).st_uid
    return False


def begin(root: str) -> None:
    """From now on, have it written down whose keys are removed. Raises OSError."""
    atomic.make_directory(f"{root}/{layout.ASKERS}")


def has_begun(root: str) -> bool:
    """Whether it is written down whose keys are removed."""
    return os.path.isdir(f"{root}/{layout.ASKERS}")


def removing(path: str) -> None:
    """An entry is about to be removed: write down whose key it is. Never raises."""
    root, objects, _name = path.rpartition(f"/{layout.OBJECTS}/")
    if not objects or not has_begun(root):
        return
    with suppressed(OSError, ValueError):
        with reading(path) as (fd, status):
            found = entry.examine_open(fd, status.st_size)
        # Nobody but its user looks into a room, and for what `nbcache health` had built nobody else asks.
        if (
            not isinstance(found, str)
            and not layout.is_reserved(found.header.key)
            and found.header.function != SELF_TEST
        ):
            remember(root, found.header.key, asker(found.header))


def remember(root: str, key: str, uid: int) -> None:
    """Write down that a key is this user's. Raises OSError."""
    # Whoever can open it can lock it: nobody else should, and nobody waits for who does.
    with closing(os.open(_path(root, uid), _FLAGS, 0o600)) as fd:
        at, status, owner = _row(key), os.fstat(fd), os.stat(f"{root}/{layout.ASKERS}").st_uid
        if status.st_mode & 0o077:
            os.fchmod(fd, 0o600)
        if os.geteuid() != owner:  # root, who removes in another user's store
            os.fchown(fd, owner, -1)
        _lock(fd, at)
        records = _records(fd, at)
        name = bytes.fromhex(key)
        if all(known != name for known, _ in records):
            way = min(range(WAYS), key=lambda number: records[number][1])
            regular_files.write(fd, _RECORD.pack(name, time.time()), at=at + way * _RECORD.size)


def _lock(fd: int, at: int) -> None:
    """Lock a row, if that can be had soon: without, at worst one of two records is lost."""
    for _ in range(_ATTEMPTS):
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, _ROW, at)
        except (BlockingIOError, PermissionError) as raised:
            let_pass(raised)
            time.sleep(_PAUSE_SECONDS)
        except OSError as raised:  # no locks there
            let_pass(raised)
            return
        else:
            return


def first(root: str, key: str, trust: Trust) -> int | None:
    """Return whose a key is of which no entry is left: a trusted user, or the owner; None if nobody's. Never raises."""
    found: list[tuple[float, int]] = []
    if has_begun(root):
        for uid in (OWNER, *trust.uids):
            with suppressed(OSError), reading(_path(root, uid)) as (fd, status):
                if trust.allows(status, fd):
                    found += [(when, uid) for name, when in _records(fd, _row(key)) if name == bytes.fromhex(key)]
    return min(found)[1] if found else None


def _path(root: str, uid: int) -> str:
    """Return where the keys of a user are written down. The name has the version of the format."""
    return f"{root}/{layout.ASKERS}/{uid}-1"


def _row(key: str) -> int:
    return int(key[:8], 16) % _ROWS * _ROW


def _records(fd: int, at: int) -> list[tuple[bytes, float]]:
    return list(_RECORD.iter_unpack(os.pread(fd, _ROW, at).ljust(_ROW, b"\0")))
