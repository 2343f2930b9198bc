"""The one rule of trust: whose files may be executed.

Loading an entry is executing it, and so is importing a module in order to compile it. Code, and settings, are only
taken from a file that

- is a regular file, looked at through the **open** descriptor (what is checked is what is read);
- is owned by this process's effective uid, by root, or by a uid in ``NBCACHE_TRUSTED_UIDS``;
- nobody else may write;

and that lies in directories with the same owners which nobody else may write. A directory *above* the store may be
writable by others if it is sticky, as ``/tmp`` is: nobody can rename or replace what is not theirs there. The store's
own directories get no such grace.

*Group-writable counts as writable by others*, as in sshd's ``StrictModes``, with the one exception that sshd has on
Debian and Fedora: a **user-private group**, which has the name of the file's owner, is that user's primary group and
has no other members, whether listed with the group or by being somebody else's primary group. There, ``umask 002`` is
the default and group-writable directories are everywhere. Group 0 is never private: containers and services run with it
under any uid.

An **access control list** that lets somebody write shows as group-writable, because the group's bits are its mask.
Then, and only then, the list is read: whoever may write by it has to be trusted, and its groups private.

The **overflow ids** (65534, mostly) are what the kernel shows in place of every owner that has no number in a user
namespace, and file servers for users they don't know. They stand for anybody, so nobody trusts them: not as one's own
uid either.

Root is trusted because root can do anything to this process anyway.
"""

from __future__ import annotations

import functools
import stat
from typing import TYPE_CHECKING, Final

from nbcache.passing_exceptions import let_pass, suppressed
from nbcache.process import opened, os

if TYPE_CHECKING:
    from nbcache.groups import Writers

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
OPEN_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
"""For a file somebody else may have put there: a FIFO doesn't block, a symlink isn't followed."""
SEE_SETTING: Final = " (see NBCACHE_TRUSTED_UIDS)"
"""What the word on an owner who isn't trusted ends with, where naming him would help."""

_DEFAULT_OVERFLOW: Final = 65534


class Trust:
    """The rule, for one process and one set of trusted uids. Answers are one line, or None for "trusted".

    ``at`` is where an access control list is read: the descriptor that the status is of, or a path if there is none.
    """

    __slots__ = ("_groups", "uids")

    def __init__(self, trusted_uids: frozenset[int] = frozenset()) -> None:
        """Trust root, this process's effective uid, and ``trusted_uids``, without the overflow uid."""
        self.uids = frozenset({0, os.geteuid(), *trusted_uids}) - {overflow_id("uid")}
        self._groups: Writers | None = None

    def allows(self, status: os.stat_result, at: int | str) -> bool:
        """Whether a regular file with this status (of an open descriptor) may be executed. Costs under 1 µs."""
        mode = status.st_mode
        return (
            stat.S_ISREG(mode)
            and status.st_uid in self.uids
            and (not mode & _OTHERS_WRITE or self._other_writer(status, at) is None)
        )

    def file_problem(self, status: os.stat_result, at: int | str) -> str | None:
        """Say what is wrong with a file, given the status of its open descriptor."""
        if not stat.S_ISREG(status.st_mode):
            return "is not a regular file"
        return self.writers_problem(status, at)

    def directory_problem(self, path: str, *, may_be_sticky: bool = False) -> str | None:
        """Say what is wrong with one directory of the store, without looking at those above it. Never raises.

        Where it *may be sticky*, as those above a store may, others may write in it then.
        """
        try:
            status = os.lstat(path)
        except (OSError, ValueError) as error:
            let_pass(error)
            return f"can't be examined: {strerror(error)}"
        if not stat.S_ISDIR(status.st_mode):
            return "is not a directory"
        return self.writers_problem(status, path, may_be_sticky=may_be_sticky)

    def parents_problem(self, path: str) -> str | None:
        """Say what is wrong with the directories above an absolute path without symlinks. Never raises."""
        parent = os.path.dirname(path)
        while True:
            problem = self.directory_problem(parent, may_be_sticky=True)
            if problem is not None:
                return f"lies in {parent}, which {problem}"
            above = os.path.dirname(parent)
            if above == parent:
                return None
            parent = above

    def path_problem(self, path: str) -> str | None:
        """Say what is wrong with a directory or any above it. ``path`` is absolute and without symlinks."""
        return self.directory_problem(path) or self.parents_problem(path)

    def writers_problem(self, status: os.stat_result, at: int | str, *, may_be_sticky: bool = False) -> str | None:
        """Say who else may write what has this status, be it a file, a pipe or a directory, which *may be sticky*."""
        problem = self.owner_problem(status, at)
        if problem is not None or (may_be_sticky and status.st_mode & stat.S_ISVTX):
            return problem
        who = self._other_writer(status, at) if status.st_mode & _OTHERS_WRITE else None
        return who and f"is writable by {who} (mode {stat.S_IMODE(status.st_mode):04o})"

    def owner_problem(self, status: os.stat_result, at: int | str) -> str | None:  # noqa: ARG002  who asks others needs it
        """Say what is wrong with whose it is: all that counts of a symbolic link."""
        if status.st_uid == overflow_id("uid"):
            return f"is owned by uid {status.st_uid}, the overflow uid, which stands for anybody"
        if status.st_uid not in self.uids:
            return f"is owned by uid {status.st_uid}, who isn't trusted{SEE_SETTING}"
        return None

    def _other_writer(self, status: os.stat_result, at: int | str) -> str | None:
        """Say whom write permission of group or others reaches, if that is anybody who isn't trusted."""
        if status.st_mode & stat.S_IWOTH:
            return "others"
        if self._groups is None:
            from nbcache.groups import Writers  # most files are their owner's alone

            self._groups = Writers(self.uids, overflow_id("gid"))
        return self._groups.other(status, at)


@functools.cache
def overflow_id(kind: str) -> int:
    """Return the number that stands for every ``"uid"`` or ``"gid"`` without one (user_namespaces(7))."""
    with suppressed(OSError, ValueError), opened(f"/proc/sys/kernel/overflow{kind}", "rb") as file:
        return int(file.read(32))
    return _DEFAULT_OVERFLOW


def strerror(error: OSError | ValueError) -> str:
    """Return what an error says, without its number and path."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
