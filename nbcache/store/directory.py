"""The store: entries in a directory that many processes on many hosts share.

What is guaranteed
------------------
- **Nothing here raises** for what the filesystem does: a fault is a refusal to open, something not found, or something
  not published, each with a reason in one line.
- What :meth:`Store.find` yields is trusted (:mod:`nbcache.file_trust`; where it came from elsewhere, its signatures as
  well: :mod:`nbcache.keyring`), of this format version, of this key, and every byte taken from it was checked
  (:mod:`nbcache.store.entry`).
- A reader sees an entry whole or not at all, and the old one or the new one (:mod:`nbcache.store.atomic`).
- An entry is never changed, only replaced.

Threads and forked children may use one Store.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from nbcache.passing_exceptions import let_pass, suppressed
from nbcache.process import os, time
from nbcache.store import layout
from nbcache.store.content import reading, stamp_of
from nbcache.store.opened import Opened, inner_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from nbcache.store.entry import Header
    from nbcache.store.evict import Plan
    from nbcache.store.listing import BadEntry, EntryInfo
    from nbcache.store.locks import Lease, Leases
    from nbcache.store.name_writing import Names
    from nbcache.store.slots import Published

TIDY_SECONDS: Final = 3600.0
"""How often some process tidies a store up [s]."""
TIDY_BUDGET: Final = 0.1
"""How long that may take when nobody asked for it, at the end of a program [s]."""
RESUME_SECONDS: Final = 60.0
"""How soon somebody goes on where that was too short [s]."""


class Store(Opened):
    """A store that was opened: see :meth:`open`."""

    journals = True
    """Whether a process writes its usage record here as it goes, and not at its end alone."""

    _leases: Leases | None = None
    _names: Names | None = None

    def exists(self, key: str) -> bool:
        """Whether something lies under a key: one ``stat``, nothing is checked."""
        return self.stamp(key) is not None

    def holds(self, key: str, uid: int | None = None) -> bool:
        """Whether something can be used that *uid* finds under a key: all of it is read and checked. Never raises.

        What nobody uses is no reason not to build it: damaged entries, and those that programs crashed with.
        """
        from nbcache.store import quarantine

        whole = (found for found in self.find(key, uid=uid) if found.sections() is not None)
        return next(quarantine.sound(whole, self.path, self.trust, uid), None) is not None

    @property
    def names(self) -> Names:
        """What is published by name, to be written as well."""
        from nbcache.store import name_writing

        if self._names is None:
            self._names = name_writing.Names(self.path, self.trust, self.inside, self.lease if self.writable else None)
        return self._names

    def stamp(self, key: str) -> tuple[int, int, int] | None:
        """Return what tells whether something new lies under a key: one ``stat``; None if nothing does."""
        return stamp_of(layout.slot_path(self.path, key)) if layout.is_key(key) else None

    def publish(
        self,
        header: Header,
        sections: Mapping[str, bytes],
        *,
        recache: bool | None = None,
        durable: bool = True,
        keep: bool = False,
    ) -> Published:
        """Put an entry into the store; never raises.

        If this variant (key and guard) is there and valid, it stays, unless ``recache`` (default: NBCACHE_RECACHE).
        With ``keep``, no other variant is given up for it either. Without ``durable``, nothing waits for the disk: a
        power failure may leave a damaged entry, which is found out when it is read.
        """
        from nbcache.store import slots as publishing  # a process that only hits never needs it

        if not self.writable:
            return publishing.Published(ok=False, reason="the store is read-only for this process", path=None)
        again = self._recache if recache is None else recache
        return publishing.publish(self, header, sections, recache=again, durable=durable, keep=keep)

    def lease(self, key: str) -> Lease | None:
        """Return the right to compile a key, without blocking; None if somebody alive holds it. Never raises.

        Where no lock can be had (a read-only store, say), a lease that holds nothing (``held`` is False).
        """
        from nbcache.store import locks

        if not self.writable or not layout.is_key(key):
            return locks.Lease(key, None)
        if self._leases is None:
            self._leases = locks.Leases(f"{self.path}/{layout.LEASES}", self.trust)
        return self._leases.acquire(key)

    def lease_holder(self, key: str) -> int | None:
        """Return the pid of who holds the lease that :meth:`lease` didn't give, if that is a process of this host."""
        return None if self._leases is None else self._leases.holder(key)

    def scan(self) -> Iterator[EntryInfo]:
        """Yield every entry, in no particular order within a shard."""
        from nbcache.store import listing

        return listing.scan(self.path)

    def find_prefix(self, prefix: str) -> Iterator[EntryInfo]:
        """Yield the entries whose key begins with ``prefix`` (two hex digits at least, or all are looked at)."""
        from nbcache.store import listing

        only = [prefix[: layout.SHARD]] if layout.is_shard(prefix[: layout.SHARD]) else None
        return (info for info in listing.scan(self.path, only) if info.key.startswith(prefix))

    def verify(self, *, remove: bool = False, checked: Callable[[EntryInfo], None] | None = None) -> Iterator[BadEntry]:
        """Check every section of every entry and yield those that are wrong; ``checked`` is called after each one.

        With ``remove``, wrong ones are removed, where this process may. Entries of another format version are wrong
        here too.
        """
        from nbcache.store import evict, listing

        for shard in listing.shards(self.path):
            # A key's last slot first, because removing a slot moves the last one into its place, which by then was
            # checked.
            for info in sorted(listing.scan(self.path, [shard]), key=lambda info: (info.key, -info.slot)):
                reason = self._verify(info.path, info.key)
                if reason is not None:
                    removed = remove and self.writable and evict.remove_slot(info.path)
                    yield listing.BadEntry(info.path, info.key, reason, removed)
                if checked is not None:
                    checked(info)

    def remove(self, path: str) -> bool:
        """Remove one entry by the path a listing gave; return whether it went."""
        from nbcache.store import evict

        return self.writable and evict.remove_slot(path)

    def clear(self, namespace: str | None = None) -> tuple[int, int]:
        """Remove every entry, and leftovers of any age; return how many entries and how many bytes went.

        With a *namespace*, only its entries. Usage records, requests, leases and what published names refer to stay.
        """
        from nbcache.store import upkeep

        return upkeep.clear(self, namespace) if self.writable else (0, 0)

    def gc(self, max_size: int | None = None, *, dry_run: bool = False) -> Plan:
        """Evict the least recently used entries if the store is larger than ``max_size`` (default: NBCACHE_MAX_SIZE).

        Also folds old usage records. Returns what was planned; with ``dry_run`` nothing is changed.
        """
        from nbcache.store import upkeep

        limit = self._max_size if max_size is None else max_size
        return upkeep.gc(self, limit, dry_run=dry_run or not self.writable)

    def sweep(self) -> int:
        """Remove temporaries and leases that nobody touched for an hour, and files that no published name refers to.

        Returns how many went.
        """
        from nbcache.store import upkeep

        return upkeep.sweep(self) if self.writable else 0

    def tidy(self, budget: float = TIDY_BUDGET) -> bool:
        """Evict, sweep and fold, if nobody did within :data:`TIDY_SECONDS`; return whether it was this process's turn.

        Meant for the end of a process, which waits for it: no more is begun after ``budget`` [s], no more than 16 MiB
        of usage records are read, and only those of trusted owners. In a store too large for it, a random part of the
        shards is brought down to its part of the limit, and another process goes on soon. Never raises.
        """
        with suppressed(OSError):
            if self.writable and self._my_turn():
                from nbcache.store import upkeep  # most processes never need it

                if not upkeep.tidy(self, self._max_size, budget):
                    soon = time.time() - TIDY_SECONDS + RESUME_SECONDS
                    os.utime(f"{self.path}/{layout.STAMP}", (soon, soon), follow_symlinks=False)
                return True
        return False

    def write_usage(self, record: Mapping[str, object]) -> str | None:
        """Write this process's usage record (:mod:`nbcache.store.usage`), wherever it may; never raises.

        Also when the store is read-only otherwise: eviction would take what only such processes use.
        """
        from nbcache.store import usage

        return usage.write(self.path, record)

    def repair(self, key: str) -> None:
        """Make the directories that a key needs. Raises OSError when it can't."""
        from nbcache.store import atomic, tree  # most processes make nothing

        if not os.path.isdir(f"{self.path}/{layout.OBJECTS}"):
            # Where not even the directory above is there, this is another root (``chroot``), or nobody wants it.
            os.stat(os.path.dirname(self.path))
            made = not os.path.isdir(self.path) and tree.make_root(self.path)
            # Whoever deleted it may have made it again, as theirs: /tmp lets everybody.
            self._insist(self.trust.path_problem(self.path))
            tree.make_tree(self.path, tag_root=made)
        self._insist(self.trust.directory_problem(self.path) or inner_problem(self.path, self.trust))
        atomic.make_directory(os.path.dirname(layout.stem(self.path, key)))

    @staticmethod
    def _insist(problem: str | None) -> None:
        if problem is not None:
            raise PermissionError(errno.EACCES, f"it {problem}")

    def _verify(self, path: str, key: str) -> str | None:
        from nbcache.store.entry import DAMAGED, UNREADABLE, UNTRUSTED
        from nbcache.store.found_entries import GONE, examine_trusted

        try:
            with reading(path) as (fd, status):
                found = examine_trusted(self, fd, status, key)
                if isinstance(found, str):
                    return found
                return DAMAGED if found.sections() is None else None
        except OSError as error:
            let_pass(error)
            if error.errno in GONE:
                return None
            return UNTRUSTED if error.errno == errno.ELOOP else UNREADABLE

    def _my_turn(self) -> bool:
        stamp = f"{self.path}/{layout.STAMP}"
        try:
            # A date in the future is a clock's that was put right since.
            if abs(time.time() - os.lstat(stamp).st_mtime) < TIDY_SECONDS:
                return False
            os.utime(stamp, follow_symlinks=False)
        except FileNotFoundError:
            from nbcache.store import atomic

            # The first process to publish: nothing to tidy up yet.
            atomic.write_file(stamp, b"", durable=False)
            return False
        return True
