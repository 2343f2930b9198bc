"""Putting an entry into its key's slots.

A slot is chosen by looking at what is there: the one that holds this variant (the same guard), else one that holds
nothing usable, else the first empty one, else the oldest. An empty slot is taken with ``link``, which fails if somebody
was faster; then everything is looked at again. So two writers of different variants can't overwrite each other, and two
writers of one variant leave one.
"""

from __future__ import annotations

import errno
import math
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from nbcache.errors import EntryError
from nbcache.passing_exceptions import let_pass
from nbcache.process import os
from nbcache.store import atomic, entry, layout
from nbcache.store.content import reading

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nbcache.store.entry import Header
    from nbcache.store.found_entries import Opened

    class Store(Opened, Protocol):
        """What is needed of a :class:`nbcache.store.directory.Store`, one that this process may write."""

        def repair(self, key: str) -> None:
            """Make the directories that a key needs. Raises OSError when it can't."""


ALREADY_THERE: Final = "already there"
PUBLISHED: Final = "published"
NO_ROOM: Final = "there is no room for another variant"
# Each failed attempt means that somebody else filled a slot, and there are only so many.
_ATTEMPTS: Final = 2 * layout.MAX_SLOTS
_REASONS: Final = {
    errno.ENOSPC: "no space left in the store",
    errno.EDQUOT: "the disk quota of the store is used up",
    errno.EROFS: "the store is on a read-only filesystem",
    errno.EACCES: "no permission to write to the store",
    errno.EPERM: "no permission to write to the store",
    errno.ENOENT: "the store is gone and can't be made again",
    errno.ENOTDIR: "the store is gone and can't be made again",
}
_NO_FILE: Final = frozenset({errno.ELOOP, errno.ENXIO})
"""What opening a link, or a socket, is answered with."""
_UNKNOWN: Final = (True, False, math.inf)
"""What can't be looked at now may be whole: it is taken for another variant, and makes room for none."""


class Published(NamedTuple):
    """What became of an entry that was to be published."""

    ok: bool
    """Whether the entry is in the store now."""
    reason: str
    """:data:`PUBLISHED`, :data:`ALREADY_THERE`, or in one line why not."""
    path: str | None
    """Where it lies."""


def publish(
    store: Store, header: Header, sections: Mapping[str, bytes], *, recache: bool, durable: bool, keep: bool
) -> Published:
    """Write an entry atomically into a store that may be written; never raises.

    With ``durable``, it is on the disk when this returns. With ``recache``, a valid entry of this variant is replaced,
    and moves to another slot if a published name may mean it; otherwise it stays. With ``keep``, other variants stay as
    well, also where there is no room beside them, as they do under a key that a published name refers to. What is there
    and isn't admitted makes room.
    """
    try:
        layout.check_key(header.key)
        data = entry.encode(header, sections)
    except (EntryError, ValueError, TypeError) as error:
        return Published(ok=False, reason=str(error), path=None)
    # The first of its shard; to find that out by failing would cost ten more system calls.
    missing = not os.path.isdir(os.path.dirname(layout.stem(store.path, header.key)))
    for _ in range(_ATTEMPTS):
        try:
            if missing:
                store.repair(header.key)
            done = _attempt(store, header, data, recache=recache, durable=durable, keep=keep)
        except OSError as error:
            let_pass(error)
            failure = _failed(error)
            # Or the store was deleted while this process ran.
            if error.errno not in {errno.ENOENT, errno.ENOTDIR}:
                return failure
            missing = True
            continue
        missing = False
        if done is not None:
            return done
        failure = Published(ok=False, reason="too many writers at once", path=None)
    return failure


def _attempt(
    store: Store, header: Header, data: bytes, *, recache: bool, durable: bool, keep: bool
) -> Published | None:
    """Publish into the best slot; None if somebody else took it meanwhile."""
    slot = _choose(store, header)
    if slot.same and not recache:
        return Published(ok=True, reason=ALREADY_THERE, path=slot.path)
    if slot.same and _is_pinned(store, header.key) and not _set_aside(store, slot.path, header):
        return Published(ok=False, reason=NO_ROOM, path=None)
    if slot.other and (keep or _is_pinned(store, header.key)):
        return Published(ok=False, reason=NO_ROOM, path=None)
    if not atomic.write_file(slot.path, data, exclusive=slot.empty, durable=durable):
        return None
    return Published(ok=True, reason=PUBLISHED, path=slot.path)


def _is_pinned(store: Store, key: str) -> bool:
    """Whether a published name refers to a key, or may: it doesn't say to which variant of it."""
    from nbcache.store import pins

    pinned = pins.read(store.path, store.trust)
    return key in pinned.entries or pinned.problem is not None


def _set_aside(store: Store, path: str, header: Header) -> bool:
    """Have what is about to be replaced lie in one more slot; return whether there was one. Raises OSError.

    Where all are taken, that is the one that this variant was set aside in the longest ago. A reader who wants this
    variant, and not a certain build of it, finds the first one.
    """
    longest: tuple[float, str] | None = None
    for other in layout.slot_paths(store.path, header.key):
        if other == path:
            continue
        if atomic.give_name(path, other):
            return True
        found = _look(store, other, header)
        if found is not None and found[1] and (longest is None or found[2] < longest[0]):
            longest = found[2], other
    if longest is None:
        return False
    atomic.give_name(path, longest[1], replace=True)
    return True


class _Slot(NamedTuple):
    path: str
    empty: bool = False
    same: bool = False
    other: bool = False
    """It holds another variant, which is valid."""


def _choose(store: Store, header: Header) -> _Slot:
    unusable: _Slot | None = None
    oldest: tuple[float, _Slot] | None = None
    for path in layout.slot_paths(store.path, header.key):
        found = _look(store, path, header)
        if found is None:
            return unusable or _Slot(path, empty=True)
        valid, same, mtime = found
        if same:
            return _Slot(path, same=valid)
        if not valid:
            unusable = unusable or _Slot(path)
        elif oldest is None or mtime < oldest[0]:
            oldest = (mtime, _Slot(path, other=True))
    if unusable is not None:
        return unusable
    assert oldest is not None  # every slot was valid
    if oldest[0] == math.inf:
        raise OSError(errno.EIO, "what is there can't be read")
    return oldest[1]


def _look(store: Store, path: str, header: Header) -> tuple[bool, bool, float] | None:
    """Return (valid, of this variant, mtime) for what lies in a slot; None if nothing does."""
    try:
        with reading(path) as (fd, status):
            found = entry.examine_open(fd, status.st_size) if store.trust.allows(status, fd) else entry.UNREADABLE
            if isinstance(found, str) or found.header.key != header.key or not store.admits(found.header):
                return False, False, status.st_mtime
            same = found.header.guard == header.guard
            # Only for this variant: others are left alone whatever they are like inside.
            valid = not same or found.sections() is not None
            return valid, same, status.st_mtime
    except FileNotFoundError:
        return None
    except OSError as raised:
        let_pass(raised)
        return (False, False, 0.0) if raised.errno in _NO_FILE else _UNKNOWN
    except ValueError:
        return False, False, 0.0


def _failed(error: OSError) -> Published:
    reason = _REASONS.get(error.errno or 0) or f"the store can't be written: {error.strerror or error}"
    return Published(ok=False, reason=reason, path=None)
