"""Which entries go when the store is too large. :func:`plan` is pure and decides, :func:`apply` acts.

Each user for whom entries were built has an equal share of the store. What one doesn't need, the others may have; and
whoever has more than his share loses of his own, the least recently used first. All together go down to
:data:`LOW_WATER` of the limit, so that the next publication doesn't have to evict again.

An entry's last use is the later of its modification time and the newest usage record that hit it: hits don't touch the
file, so that they cost no write and clients that can't write count as well. A record from the future (a wrong clock, or
somebody who wants to keep an entry for ever) counts as now. What published names refer to never goes
(:mod:`nbcache.store.pins`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nbcache.passing_exceptions import suppressed
from nbcache.records import Record
from nbcache.store import first_askers, layout
from nbcache.store.folders import Folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from nbcache.store.listing import EntryInfo
    from nbcache.store.pins import Pins

LOW_WATER: Final = 0.9
"""The share of the limit that is left after evicting."""

REASON: Final = "the store is full, and whom it was built for has more than a share of it"
"""Why an entry is evicted, for people."""


class Victim(Record):
    """An entry that is to be removed: where it lies, how large it is [bytes], and for whom it was built."""

    path: str
    size: int
    asker: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What to remove, least recently used first."""

    remove: tuple[Victim, ...]
    total: int
    """The size of everything before [bytes], with the files of publications."""
    entries: int
    """The number of entries before."""
    pinned: int = 0
    """How many entries stay because published names refer to them."""
    problem: str | None = None
    """Why nothing is removed though there is too much, in one line."""
    expired: int = 0
    """How many versions of published names had expired."""

    @property
    def freed(self) -> int:
        """The size of what is removed [bytes]."""
        return sum(each.size for each in self.remove)


def plan(
    entries: Iterable[EntryInfo],
    max_size: int,
    now: float,
    last_use: Mapping[str, float],
    pinned: Pins | None = None,
    *,
    asker: Callable[[EntryInfo], int] = lambda _item: 0,
    files: int = 0,
) -> Plan:
    """Decide what to remove so that at most ``max_size`` [bytes] are left; 0 means no limit.

    ``last_use`` maps keys to when they were last hit, Unix time [s]. What is ``pinned`` stays, and counts, as does the
    size of ``files`` of publications [bytes]. ``asker`` tells whose share an entry counts against.
    """
    found = list(entries)
    total = sum(item.size for item in found) + files
    keys = frozenset[str]() if pinned is None else pinned.entries
    kept = sum(item.key in keys for item in found)
    if max_size <= 0 or total <= max_size:
        return Plan((), total, len(found), kept)
    if pinned is not None and pinned.problem is not None:
        return Plan((), total, len(found), kept, pinned.problem)
    oldest = ordered((item for item in found if item.key not in keys), now, last_use)
    free = [Victim(item.path, item.size, asker(item)) for item in oldest]
    left = Counter[int]()
    for each in free:
        left[each.asker] += each.size
    share = _share(left.values(), int(max_size * LOW_WATER) - total + left.total())
    remove = []
    for each in free:
        if left[each.asker] > share:
            remove.append(each)
            left[each.asker] -= each.size
    return Plan(tuple(remove), total, len(found), kept)


def _share(sizes: Iterable[int], target: int) -> float:
    """Return how much each may have [bytes], so that all who want more have equally much, and all together *target*."""
    left, rest = max(0, target), sorted(sizes)
    for number, size in enumerate(rest):
        share = left / (len(rest) - number)
        if size > share:
            return share
        left -= size
    return float("inf")


def ordered(entries: Iterable[EntryInfo], now: float, last_use: Mapping[str, float]) -> list[EntryInfo]:
    """Return entries as they would be evicted, the least recently used first."""
    # Path as the last criterion, so that equal ages are removed in the same order everywhere.
    return sorted(entries, key=lambda item: (min(now, max(item.mtime, last_use.get(item.key, 0.0))), item.path))


def apply(decided: Plan, removed: Callable[[str, int, int], None] = lambda *_: None) -> tuple[int, int]:
    """Remove what was planned; return how many files went, and their size [bytes].

    What can't be removed stays, without an error. *removed* is called with path, size and asker of each that went.
    """
    # From the last slot of a key to the first, since removing a slot moves the key's last one into its place.
    count = freed = 0
    for each in sorted(decided.remove, key=lambda each: split_slot(each.path), reverse=True):
        if remove_slot(each.path):
            count, freed = count + 1, freed + each.size
            removed(*each)
    return count, freed


def remove_slot(path: str) -> bool:
    """Remove the file in one slot, moving the key's last slot into its place; return whether it went.

    Readers stop at the first slot that is missing, so slots have no gaps. The move is one rename: a reader sees the
    removed entry or the moved one. (A writer that fills the next slot at this very moment leaves a gap behind; what
    lies behind it is found again once the gap is filled.)
    """
    directory, _, name = path.rpartition("/")
    base, slot = split_slot(name)
    first_askers.removing(path)
    with suppressed(OSError), Folder(directory) as folder:
        last = slot
        while last + 1 < layout.MAX_SLOTS and folder.owner(base + layout.SUFFIXES[last + 1]) is not None:
            last += 1
        if last == slot:
            return folder.remove(name)
        folder.replace(base + layout.SUFFIXES[last], name)
        return True
    return False


def split_slot(path: str) -> tuple[str, int]:
    """Return an entry's path without its suffix, and its slot."""
    for slot in range(layout.MAX_SLOTS - 1, 0, -1):
        if path.endswith(layout.SUFFIXES[slot]):
            return path.removesuffix(layout.SUFFIXES[slot]), slot
    return path.removesuffix(layout.SUFFIX), 0
