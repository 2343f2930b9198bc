"""Whom write permission reaches besides a file's owner: his group, and whom an access control list names.

:mod:`nbcache.file_trust` says which of them are trusted. A look-up of a group or a user may go over the network.
"""

from __future__ import annotations

import errno
import functools
import grp
import pwd
import struct
from collections.abc import Iterator, Mapping
from typing import Final

from nbcache.passing_exceptions import let_pass, suppressed
from nbcache.process import os

MAX_ACCOUNTS: Final = 100_000
"""A user database larger than this isn't read to the end, and no group counts as private then."""

# The list as acl(5) and the kernel's posix_acl_xattr.h have it, little-endian: a version, then tag, permissions and id.
_ACL_NAME: Final = "system.posix_acl_access"
_ACL_VERSION: Final = 2
_ACL_HEAD: Final = struct.Struct("<I")
_ACL_ENTRY: Final = struct.Struct("<HHI")
_USER, _GROUP_OBJ, _GROUP, _MASK = 0x02, 0x04, 0x08, 0x10
_WRITE: Final = 0x2
# Not every filesystem has such lists, and most files have none.
_NO_ACL: Final = frozenset({errno.ENODATA, errno.ENOTSUP})


class Writers:
    """Who else may write, for one set of trusted uids."""

    def __init__(self, uids: frozenset[int], nobody: int) -> None:
        """``nobody`` is the overflow gid."""
        self._uids = uids
        self._nobody = nobody
        self._private: dict[tuple[int, int], bool] = {}

    def other(self, status: os.stat_result, at: int | str) -> str | None:
        """Say whom write permission of a group reaches, if that is anybody who isn't trusted.

        ``at`` is where an access control list is read: the descriptor that the status is of, or a path.
        """
        with suppressed(OSError, ValueError):
            for tag, number in _writers(at):
                if tag == _USER and number not in self._uids:
                    return f"uid {number}, by its access control list"
                if tag == _GROUP and not self._is_private(status.st_uid, number):
                    return f"the group {number}, by its access control list"
                if tag == _GROUP_OBJ and not self._is_private(status.st_uid, status.st_gid):
                    return "its group"
            return None
        return "whom its access control list names, which can't be read"

    def _is_private(self, uid: int, gid: int) -> bool:
        private = self._private.get((uid, gid))
        if private is None:
            private = self._private[uid, gid] = _is_private_group(uid, gid, self._nobody)
        return private


def _writers(at: int | str) -> Iterator[tuple[int, int]]:
    """Yield tag and id of each entry but owner's and others' that may write. Raises OSError, ValueError.

    Without a list, that is the group that the status names.
    """
    try:
        data = _list_of(at)
    except OSError as error:
        let_pass(error)
        if error.errno not in _NO_ACL:
            raise
        yield _GROUP_OBJ, 0
        return
    head, entries = data[: _ACL_HEAD.size], data[_ACL_HEAD.size :]
    if head != _ACL_HEAD.pack(_ACL_VERSION) or len(entries) % _ACL_ENTRY.size:
        raise ValueError(data)
    found = list(_ACL_ENTRY.iter_unpack(entries))
    mask = next((permissions for tag, permissions, _ in found if tag == _MASK), _WRITE)
    for tag, permissions, number in found:
        if tag in {_USER, _GROUP_OBJ, _GROUP} and permissions & mask & _WRITE:
            yield tag, number


def _list_of(at: int | str) -> bytes:
    if isinstance(at, str):
        return os.getxattr(at, _ACL_NAME, follow_symlinks=False)
    try:
        return os.getxattr(at, _ACL_NAME)
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
        # A descriptor that only names a place (O_PATH): what it names is behind this link.
        return os.getxattr(f"/proc/self/fd/{at}", _ACL_NAME)


def _is_private_group(uid: int, gid: int, nobody: int) -> bool:
    if gid in {0, nobody}:
        return False
    with suppressed(KeyError, OSError):
        user = pwd.getpwuid(uid)
        group = grp.getgrgid(gid)
        named = user.pw_gid == gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
        return named and _primary_groups().get(gid) == {uid}
    return False


@functools.cache
def _primary_groups() -> Mapping[int, set[int]]:
    """Return the uids of each primary group; nothing if the user database can't be listed, or is too large.

    Who isn't listed, because his directory service doesn't tell who there is, has no private group by this.
    """
    found: dict[int, set[int]] = {}
    with suppressed(OSError, ValueError):  # ValueError: an id that is out of range
        accounts = pwd.getpwall()
        for account in accounts if len(accounts) <= MAX_ACCOUNTS else ():
            found.setdefault(account.pw_gid, set()).add(account.pw_uid)
    return found
