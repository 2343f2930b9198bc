"""Directories of users inside a directory that everybody may write: ``<where>/<uid>/``, or ``<where>/<uid>-<8 hex>/``.

A file keeps its owner when somebody else renames it, so in a directory that many may write an owner proves nothing. A
directory of one's own does: nobody else can put a file there. It counts only if it is none by way of a link, has its
owner's uid in its name, and nobody else may write it. The longer name is for where a stranger has taken the shorter
one.
"""

from __future__ import annotations

import re
import stat
from itertools import islice
from typing import TYPE_CHECKING, Final

from nbcache.passing import let_pass, suppressed
from nbcache.process import os
from nbcache.store import atomic
from nbcache.store.folders import Folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nbcache.trust import Trust

_NAME: Final = re.compile(r"([0-9]{1,10})(?:-[0-9a-f]{8})?", re.ASCII)
MAX_LISTED: Final = 10_000
"""How much of what lies there is listed."""
MAX_OTHERS: Final = 100
"""How many directories with longer names, of those whose name they have, are looked into."""
_SECOND: Final = os.urandom(4).hex()
"""Nobody knows which the second name is before there is such a process."""


def own(root: str, where: str) -> str | None:
    """Return the path of this process's own directory, made if need be; None if it can't be had. Raises OSError."""
    uid = os.geteuid()
    for name in (str(uid), f"{uid}-{_SECOND}"):
        path = f"{root}/{where}/{name}"
        atomic.make_directory(path)
        if owner(name, os.lstat(path)) == uid:
            return path
    return None


def owner(name: str, status: os.stat_result) -> int | None:
    """Return whose directory of this name and status it is; None if it is nobody's."""
    named = _NAME.fullmatch(name)
    right = named is not None and stat.S_ISDIR(status.st_mode) and int(named[1]) == status.st_uid
    return status.st_uid if right else None


def folders(root: str, where: str, trust: Trust) -> Iterator[Folder]:
    """Yield the directories of trusted users there, one after the other, each open until the next. Never raises."""
    for name in _names(root, where, trust):
        folder = opened(root, where, name, trust)
        if folder is not None:
            with folder:
                yield folder


def _names(root: str, where: str, trust: Trust) -> Iterator[str]:
    """Yield the names there that a trusted user's directory may have, the plain ones first. Never raises.

    Strangers may make as many as they like, of any names, so not all of them are looked at.
    """
    plain = [str(uid) for uid in trust.uids]
    yield from plain
    found = 0
    with suppressed(OSError), Folder(root, where) as folder:
        for item in islice(folder.items(), MAX_LISTED):
            named = _NAME.fullmatch(item.name)
            if named is None or item.name in plain or int(named[1]) not in trust.uids:
                continue
            # What has a trusted user's name need not be that user's.
            if _is_its_owners(item):
                found += 1
                if found > MAX_OTHERS:
                    return
                yield item.name


def _is_its_owners(item: os.DirEntry[str]) -> bool:
    try:
        return owner(item.name, item.stat(follow_symlinks=False)) is not None
    except OSError as raised:
        let_pass(raised)
        return False


def opened(root: str, where: str, name: str, trust: Trust) -> Folder | None:
    """Return the directory of this name if it is a trusted user's; it is to be closed. Never raises."""
    try:
        folder = Folder(root, f"{where}/{name}")
    except OSError as raised:
        let_pass(raised)
        return None
    with suppressed(OSError):
        status = folder.status
        if owner(name, status) in trust.uids and trust.writers_problem(status, folder.fileno()) is None:
            return folder
    folder.close()
    return None
