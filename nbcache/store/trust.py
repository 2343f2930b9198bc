"""The one rule of trust: whose files may be executed.

Loading an entry is executing it, and so is importing a module in order to compile it. Code is only taken from a file
that

- is a regular file, looked at through the **open** descriptor (what is checked is what is read);
- is owned by this process's effective uid, by root, or by a uid in ``NBCACHE_TRUSTED_UIDS``;
- neither group nor others may write;

and that lies in directories with the same owners which neither group nor others may write. A directory *above* the
store may be writable by others if it is sticky, as ``/tmp`` is: nobody can rename or replace what is not theirs there.
The store's own directories get no such grace.

*Group-writable counts as writable by others*, as in sshd's ``StrictModes``, with the one exception that sshd has on
Debian and Fedora: a **user-private group**, which has the name of its trusted owner, is that user's primary group and
has no other members. There, ``umask 002`` is the default and group-writable directories are everywhere. An access
control list that lets others write shows as group-writable and is refused with it.

Root is trusted because root can do anything to this process anyway.
"""

from __future__ import annotations

import os
import stat
from typing import Final

from nbcache.passing import let_pass

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
OPEN_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
"""For a file somebody else may have put there: a FIFO doesn't block, a symlink isn't followed."""


class Trust:
    """The rule, for one process and one set of trusted uids. Answers are one line, or None for "trusted"."""

    __slots__ = ("_private", "uids")

    def __init__(self, trusted_uids: frozenset[int] = frozenset()) -> None:
        """Trust root, this process's effective uid, and ``trusted_uids``."""
        self.uids = frozenset({0, os.geteuid(), *trusted_uids})
        self._private: dict[tuple[int, int], bool] = {}

    def allows(self, status: os.stat_result) -> bool:
        """Whether a regular file with this status (of an open descriptor) may be executed. Costs under 1 µs."""
        mode = status.st_mode
        return (
            stat.S_ISREG(mode)
            and status.st_uid in self.uids
            and (not mode & _OTHERS_WRITE or not self._others_write(status))
        )

    def file_problem(self, status: os.stat_result) -> str | None:
        """Say what is wrong with a file, given the status of its open descriptor."""
        if not stat.S_ISREG(status.st_mode):
            return "is not a regular file"
        return self.writers_problem(status)

    def directory_problem(self, path: str) -> str | None:
        """Say what is wrong with one directory of the store, without looking at those above it. Never raises."""
        try:
            status = os.lstat(path)
        except (OSError, ValueError) as error:
            let_pass(error)
            return f"can't be examined: {_reason(error)}"
        if not stat.S_ISDIR(status.st_mode):
            return "is not a directory"
        return self.writers_problem(status)

    def parents_problem(self, path: str) -> str | None:
        """Say what is wrong with the directories above an absolute path without symlinks. Never raises."""
        parent = os.path.dirname(path)
        while True:
            problem = self._parent_problem(parent)
            if problem is not None:
                return f"lies in {parent}, which {problem}"
            above = os.path.dirname(parent)
            if above == parent:
                return None
            parent = above

    def path_problem(self, path: str) -> str | None:
        """Say what is wrong with a directory or any above it. ``path`` is absolute and without symlinks."""
        return self.directory_problem(path) or self.parents_problem(path)

    def _parent_problem(self, path: str) -> str | None:
        try:
            status = os.lstat(path)
        except (OSError, ValueError) as error:
            let_pass(error)
            return f"can't be examined: {_reason(error)}"
        if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX and status.st_uid in self.uids:
            return None
        return self.writers_problem(status)

    def writers_problem(self, status: os.stat_result) -> str | None:
        """Say who else may write what has this status, be it a file, a pipe or a directory."""
        if status.st_uid not in self.uids:
            return f"is owned by uid {status.st_uid}, who isn't trusted (see NBCACHE_TRUSTED_UIDS)"
        if status.st_mode & _OTHERS_WRITE and self._others_write(status):
            who = "others" if status.st_mode & stat.S_IWOTH else "its group"
            return f"is writable by {who} (mode {stat.S_IMODE(status.st_mode):04o})"
        return None

    def _others_write(self, status: os.stat_result) -> bool:
        """Whether write permission of group or others reaches anybody but the owner."""
        if status.st_mode & stat.S_IWOTH:
            return True
        pair = (status.st_uid, status.st_gid)
        private = self._private.get(pair)
        if private is None:
            private = self._private[pair] = _is_private_group(*pair)
        return not private


def _is_private_group(uid: int, gid: int) -> bool:
    # Imported here: only asked where something is group-writable, and a look-up may go over the network.
    import grp
    import pwd

    try:
        user = pwd.getpwuid(uid)
        group = grp.getgrgid(gid)
    except (KeyError, OSError) as raised:
        let_pass(raised)
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
