"""Entries on trial: a place is taken before the first call of one, and given back when that came back.

What the places are is said in :mod:`nbcache.store.first_calls`: a crash is known by who dies with one. Two processes at
most have a place of an entry. Others wait for one, for :data:`PATIENCE_SECONDS` in all, so that of many that begin at
once with code that crashes only two die; then they go on without.

A first call is seen where Numba's dispatcher makes it. It asks for the entry point, calls what it is given, and drops
that. On trial it is given a :class:`FirstCall`, which ends with the call, however that ends, and adds nothing to
Python's stack. Code that is called otherwise (functions with a signature of their own, ufuncs, C callbacks) has a place
only while it is loaded: nobody would know when its first call is over.

An entry that was used well once costs nothing here.
"""

from __future__ import annotations

import functools
import threading
from typing import Any, Final

from nbcache.client.open_files import KeptFile
from nbcache.passing_exceptions import suppressed
from nbcache.process import os, time
from nbcache.store import first_calls, layout, quarantine, user_directories
from nbcache.store.directory import Store
from nbcache.store.entry import Entry

LOOK_SECONDS: Final = 10.0
"""How long what other users crashed with is believed to be all [s]."""
PATIENCE_SECONDS: Final = 1.0
"""How long a process waits for places, in all [s]. Code that crashes mostly does so at once."""
MAX_PROVEN: Final = 2000
"""How many entries a process says to be good when it ends."""
_POLL_SECONDS: Final = (0.001, 0.05)


class FirstCall(functools.partial[Any]):
    """An entry point that is called once, and what is to be told when that is over."""

    places: Places | None = None

    def __del__(self) -> None:
        """The call is over."""
        if self.places is not None:
            self.places.give_back(used=True)


class Places:
    """Those that one look-up takes: for the entry, and for what it calls."""

    def __init__(self, trials: Trials) -> None:
        """None is taken yet."""
        self._trials = trials
        self._pid = os.getpid()
        self._lifeline: first_calls.Lifeline | None = None
        self.loaded: list[str] = []
        """The digests of the entries that are loaded for this call."""
        self._taken: dict[str, tuple[int, bytes]] = {}

    def take(self, fd: int, at: int, entry: Entry) -> None:
        """Write into a record that is locked. Raises OSError."""
        if self._lifeline is None:
            self._lifeline = first_calls.Lifeline()
        where = first_calls.place(), self._lifeline.segment
        call = first_calls.Call(
            entry.digest, entry.header.key, first_calls.INSIDE, *where, time.time(), entry.header.function
        )
        record = first_calls.encode(call)
        first_calls.write(fd, at, record)
        self._taken[entry.digest] = at, record
        self._trials.taken.add(at)

    def give_back(self, *digests: str, used: bool = False) -> None:
        """Give back those of some entries, or all; what was *used* well is good. Never raises."""
        if self._pid != os.getpid():  # a forked child, which goes on in the call of its parent
            return
        for digest in digests or [*self._taken]:
            at, record = self._taken.pop(digest, (-1, b""))
            if record:
                with suppressed(OSError, ValueError):
                    self._trials.empty(at, record)
                self._trials.taken.discard(at)
        if not digests:
            if self._lifeline is not None:
                self._lifeline.cut()
            loaded, self.loaded = self.loaded, []
            self._trials.over(self, loaded if used else [])


class Trials:
    """The entries on trial in one process."""

    def __init__(self, store: Store) -> None:
        """Look at nothing yet."""
        self._store = store
        self._begin_anew()

    def _begin_anew(self) -> None:
        """In a forked child too: what its parent has is its parent's."""
        self._pid = os.getpid()
        self._looked = -LOOK_SECONDS
        self._others: dict[str, quarantine.Suspect] = {}
        self._good: dict[str, str] | None = None
        self._table: KeptFile | None = None
        self.taken: set[int] = set()
        """Where this process's records are. Its own locks keep no other thread of it out."""
        self._begun: dict[str, tuple[str, str]] = {}
        """By digest, the path of an entry that is one's own, "" for another one's; and its key."""
        self._doubtful: dict[str, None] = {}
        """Of these, those that nothing good is known of yet."""
        self._open: dict[int, Places] = {}
        """By thread, what it is about to call."""
        self._called: set[Places] = set()
        self._patience = PATIENCE_SECONDS

    def begin(self, entry: Entry, *, waits: bool = False) -> bool:
        """Take a place, as an entry is about to be loaded; return False if it is to be passed over.

        With *waits*, it is called at once, and a place waited for. Never raises.
        """
        if self._pid != os.getpid():
            self._begin_anew()
        digest = entry.digest
        if digest in self._begun:
            return True
        if digest in layout.READER.aside:
            return False
        with suppressed(OSError, ValueError):
            own = not entry.layer and os.stat(entry.path).st_uid == os.geteuid()
            if not own and self._is_good(digest):
                return True
            if not self._enter(entry, waits):
                return False
            self._begun[digest] = (entry.path if own else "", entry.header.key)
            self._doubtful[digest] = None
        return True

    def has_begun(self, digest: str) -> bool:
        """Whether this process uses an entry."""
        return digest in self._begun

    def is_loading(self) -> bool:
        """Whether this thread has places of what it hasn't called yet."""
        return threading.get_ident() in self._open

    def withdraw(self, digest: str) -> None:
        """What was begun with could not be used after all: that says nothing good of it. Never raises."""
        self._begun.pop(digest, None)
        self._doubtful.pop(digest, None)
        places = self._open.get(threading.get_ident())
        if places is not None and digest in places.loaded:
            places.loaded.remove(digest)
            places.give_back(digest)

    def call(self, entry_point: Any) -> Any:
        """What this thread loaded is about to be called: return what to call. Never raises."""
        places = self._open.pop(threading.get_ident(), None)
        if places is None:
            return entry_point
        first = FirstCall(entry_point)
        self._called.add(places)
        first.places = places
        return first

    def loaded(self) -> None:
        """What this thread loaded isn't called now. Never raises."""
        places = self._open.pop(threading.get_ident(), None)
        if places is not None:
            places.give_back()

    def over(self, places: Places, used: list[str]) -> None:
        """A first call is over, after which these are good. Never raises."""
        self._called.discard(places)
        self._approve([digest for digest in used if digest in self._doubtful])

    def empty(self, at: int, record: bytes) -> None:
        """Empty a record, if it still stands there. Raises OSError."""
        fd = self._opened().fd()
        if os.pread(fd, len(record), at) == record:
            first_calls.write(fd, at)
        first_calls.unlock(fd, at)

    def condemn(self, entry: Entry) -> bool:
        """Have an entry passed over, as if programs had crashed with it; return whether it will be. Raises OSError."""
        self.withdraw(entry.digest)
        is_doubtful = quarantine.disapprove(self._store.path, entry)
        fd = self._opened().fd()
        whose, now = (entry.digest, entry.header.key), time.time()
        died = first_calls.Call(*whose, first_calls.DIED, first_calls.place(), -1, now, entry.header.function)
        for at in first_calls.places(entry.digest):
            first_calls.write(fd, at, first_calls.encode(died))
        return is_doubtful

    def finish(self) -> None:
        """The process ends well: nothing that it used is to blame for anything. Never raises."""
        if self._pid != os.getpid():
            return
        for places in [*self._open.values(), *self._called]:
            places.give_back()
        self._open.clear()
        self._approve([*self._doubtful][:MAX_PROVEN])
        table, self._table = self._table, None
        if table is not None:
            with suppressed(OSError):
                # Under that path may be another file by now: whoever has that one removes it.
                if first_calls.is_unused(table.fd()):
                    os.unlink(self._path)
            table.close()

    def _is_good(self, digest: str) -> bool:
        """Whether somebody has said of an entry that isn't one's own that it is good."""
        if self._good is None:
            self._good = quarantine.good(self._store.path, self._store.trust)
        return digest in self._good

    def _approve(self, digests: list[str]) -> None:
        """Say that these are good. Never raises."""
        for digest in digests:
            self._doubtful.pop(digest, None)
        begun = [(digest, *self._begun[digest]) for digest in digests]
        others = [(digest, key) for digest, path, key in begun if not path]
        with suppressed(OSError, ValueError):
            for digest, path, _ in begun:
                if path:
                    quarantine.approve(path, digest)
            if others:
                quarantine.vouch(self._store.path, others)

    def _opened(self) -> KeptFile:
        """Return the table that is there now, which may not be the one that was. Raises OSError."""
        if self._table is not None:
            with suppressed(OSError):
                if self._table.status().st_nlink:
                    return self._table
            self._table.close()
            self._table = None
        drop = user_directories.own(self._store.path, layout.TRIALS)
        if drop is None:
            raise OSError("there is no place for it")
        self._path = f"{drop}/{first_calls.FILE}"
        self._table = KeptFile(self._path, first_calls.FLAGS, layout.FILE_MODE)
        return self._table

    def _elsewhere(self, digest: str) -> int:
        """How many processes of other users died in an entry, as far as that counts here."""
        now = time.monotonic()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._others = quarantine.read(self._store.path, self._store.trust, but=os.geteuid())
        suspect = self._others.get(digest)
        return 0 if suspect is None else suspect.weight()

    def _enter(self, entry: Entry, waits: bool) -> bool:
        """Take a place, if there is one; return False if there will be none. Raises OSError, ValueError."""
        places = self._open.get(threading.get_ident())
        if places is None:
            places = self._open[threading.get_ident()] = Places(self)
        places.loaded.append(entry.digest)
        began, pause = time.monotonic(), _POLL_SECONDS[0]
        try:
            while True:
                may = self._try(entry, places)
                left = self._patience - (time.monotonic() - began)
                if may is not None or not waits or left <= 0 or os.stat(entry.path).st_mode & quarantine.PROVEN:
                    return may is not False
                time.sleep(min(pause, left))
                pause = min(pause * 1.5, _POLL_SECONDS[1])
        finally:
            self._patience -= time.monotonic() - began

    def _try(self, entry: Entry, places: Places) -> bool | None:
        """Whether there is a place, which is taken then, or will be any; None if nobody knows yet. Raises OSError."""
        fd = self._opened().fd()
        free: list[int] = []
        busy, deaths = 0, self._elsewhere(entry.digest)
        try:
            for at in first_calls.places(entry.digest):
                if at in self.taken or not first_calls.lock(fd, at):
                    busy += 1
                    continue
                free.append(at)
                call = first_calls.judge(fd, at)
                if call.state != first_calls.FREE:
                    first_calls.unlock(fd, free.pop())
                    died = call.state == first_calls.DIED
                    deaths += died and call.digest == entry.digest
                    busy += not died
            if not os.fstat(fd).st_nlink:
                return None
            if deaths >= quarantine.CRASHES:
                return False
            # Where one died there may be one more, and nobody beside it.
            if busy and busy + deaths >= quarantine.CRASHES:
                return None
            if not free:  # the row is another entry's
                return True
            places.take(fd, free[0], entry)
            del free[0]
            return True
        finally:
            for at in free:
                first_calls.unlock(fd, at)
