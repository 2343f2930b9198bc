"""Directories of users inside a directory that everybody may write: ``<where>/<uid>/``, or ``<where>/<uid>-<8 hex>/``.

A file keeps its owner when somebody else renames it, so in a directory that many may write an owner proves nothing. A
directory of one's own does: nobody else can put a file there. It counts only if it is none by way of a link, has its
owner's uid in its name, and nobody else may write it.

A stranger may have taken the shorter name. Then:

- Whoever owns ``<where>``, and root, may move that away (the directory is sticky), and does: a daemon each second
  (:func:`keep`), which also makes the directories if it is root; and a user of his own store when he needs his.
- Anybody else has a longer name, which no stranger knows before it is there: a user keeps it in ``~/.cache``
  (:data:`KEPT`), so all of his processes have the same one. Without a home it is this process's.

Each is said once in a process. Strangers may put as much as they like beside all that, so never more than
:data:`MAX_LISTED` entries are looked at.
"""

from __future__ import annotations

import logging
import re
import stat
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from nbcache.file_trust import Trust
from nbcache.passing_exceptions import suppressed
from nbcache.process import os
from nbcache.store import atomic
from nbcache.store.content import read_up_to, reading
from nbcache.store.folders import Folder

_log = logging.getLogger("nbcache")
_NAME: Final = re.compile(r"([0-9]{1,10})(?:-[0-9a-f]{8})?", re.ASCII)
_SECRET: Final = re.compile(rb"[0-9a-f]{8}")
MAX_LISTED: Final = 1000
"""How much of what lies there is listed."""
MAX_OTHERS: Final = 100
"""How many directories with longer names, of those whose name they have, are looked into."""
KEPT: Final = "nbcache-place"
"""The file in ``~/.cache`` with the second half of a user's longer name."""
_SECOND: Final = os.urandom(4).hex()
"""Nobody knows which the longer name of a process is before there is such a process."""
_ATTEMPTS: Final = 3
_said: set[str] = set()
_refused: set[str] = set()
"""Where this process, which is root, can't give directories away: a file server may take it for nobody."""


def own(root: str, where: str) -> str | None:
    """Return the path of this process's own directory, made if need be; None if it can't be had. Raises OSError."""
    uid = os.geteuid()
    path = f"{root}/{where}/{uid}"
    for _ in range(_ATTEMPTS):
        atomic.make_directory(path)
        if owner(str(uid), os.lstat(path)) == uid:
            return path
        if not _may_move(f"{root}/{where}") or _moved_away(root, where, uid) is None:
            break
    for name in (f"{uid}-{_kept(uid, make=True) or _SECOND}", f"{uid}-{_SECOND}"):
        longer = f"{root}/{where}/{name}"
        atomic.make_directory(longer)
        if owner(name, os.lstat(longer)) == uid:
            _say_taken(path, f"{name} is used instead")
            return longer
    return None


def owner(name: str, status: os.stat_result) -> int | None:
    """Return whose directory of this name and status it is; None if it is nobody's."""
    named = _NAME.fullmatch(name)
    right = named is not None and stat.S_ISDIR(status.st_mode) and int(named[1]) == status.st_uid
    return status.st_uid if right else None


def named(name: str) -> int | None:
    """Return whose directory has such a name, if it is that user's; None if it is no name of one."""
    found = _NAME.fullmatch(name)
    return None if found is None else int(found[1])


def keep(root: str, where: str, uids: Iterable[int]) -> None:
    """See to it that these users can have their directories there, as far as this process may. Never raises."""
    if not _may_move(f"{root}/{where}"):
        return
    for uid in uids:
        with suppressed(OSError):
            _moved_away(root, where, uid)
            if os.geteuid() == 0 != uid:
                _give(root, where, uid)


def _may_move(folder: str) -> bool:
    """Whether this process may rename what others have put into a sticky directory."""
    with suppressed(OSError):
        return os.geteuid() in {0, os.lstat(folder).st_uid}
    return False


def _moved_away(root: str, where: str, uid: int) -> int | None:
    """Move away what a stranger has put where a user's directory belongs; return who that was. Raises OSError."""
    path = f"{root}/{where}/{uid}"
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    if status.st_uid == uid:
        return None
    _say_taken(path, "moved away")
    aside = f"{root}/{where}/.taken-{os.urandom(8).hex()}"
    os.rename(path, aside)
    with suppressed(OSError):  # it isn't empty
        os.rmdir(aside)
    return status.st_uid


def _give(root: str, where: str, uid: int) -> None:
    """Make a user's directory, as root, if he has none. Raises OSError."""
    folder = f"{root}/{where}"
    if folder in _refused or os.path.lexists(f"{folder}/{uid}"):
        return
    made = f"{folder}/.new-{os.urandom(8).hex()}"
    atomic.make_directory(made)
    try:
        os.chown(made, uid, -1, follow_symlinks=False)
    except OSError:
        _refused.add(folder)
        os.rmdir(made)
        raise
    try:
        # If a stranger was faster, and has put something into his, that is for the next time.
        os.rename(made, f"{folder}/{uid}")
    except OSError:
        os.rmdir(made)
        raise


def _say_taken(path: str, what: str) -> None:
    if path not in _said:
        _said.add(path)
        with suppressed(OSError):
            theirs = os.lstat(path).st_uid
            _log.warning("%s belongs to uid %d, and not to the uid that it is named after; %s", path, theirs, what)


def _kept(uid: int, *, make: bool = False) -> str | None:
    """Return what the longer name of this user ends with, as his home has it, made if need be; None if it hasn't."""
    import pwd  # nearly nobody gets here

    with suppressed(OSError, KeyError):
        folder = f"{pwd.getpwuid(uid).pw_dir}/.cache"
        path = f"{folder}/{KEPT}"
        if make and not os.path.lexists(path):
            if not os.path.isdir(folder):
                os.mkdir(folder, 0o700)
            atomic.write_file(path, _SECOND.encode(), exclusive=True, mode=0o600, durable=False)
        with reading(path) as (fd, status):
            found = read_up_to(fd, 9)
            mine = stat.S_ISREG(status.st_mode) and status.st_uid == uid
            return found.decode() if mine and _SECRET.fullmatch(found) else None
    return None


def folders(root: str, where: str, trust: Trust) -> Iterator[Folder]:
    """Yield the directories of trusted users there, one after the other, each open until the next. Never raises."""
    for name in _names(root, where, trust):
        folder = opened(root, where, name, trust)
        if folder is not None:
            with folder:
                yield folder


def _names(root: str, where: str, trust: Trust) -> Iterator[str]:
    """Yield the names there that a trusted user's directory may have, the plain ones first. Never raises."""
    seen = {str(uid) for uid in trust.uids}
    yield from sorted(seen)
    mine = os.geteuid()
    with suppressed(OSError):
        if os.lstat(f"{root}/{where}/{mine}").st_uid != mine:
            longer = f"{mine}-{_kept(mine) or _SECOND}"
            seen.add(longer)
            yield longer
    found = 0
    with suppressed(OSError), Folder(root, where) as folder:
        for item in islice(folder.items(), MAX_LISTED):
            if item.name in seen or named(item.name) not in trust.uids:
                continue
            # What has a trusted user's name need not be that user's.
            if _is_its_owners(item):
                found += 1
                if found > MAX_OTHERS:
                    return
                yield item.name


def _is_its_owners(item: os.DirEntry[str]) -> bool:
    with suppressed(OSError):
        return owner(item.name, item.stat(follow_symlinks=False)) is not None
    return False


def opened(root: str, where: str, name: str, trust: Trust) -> Folder | None:
    """Return the directory of this name if it is a trusted user's; it is to be closed. Never raises."""
    with suppressed(OSError):
        folder = Folder(root, f"{where}/{name}")
        with suppressed(OSError):
            status = folder.status
            if owner(name, status) in trust.uids and trust.writers_problem(status, folder.fileno()) is None:
                return folder
        folder.close()
    return None
