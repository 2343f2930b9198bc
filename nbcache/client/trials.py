"""Entries on trial: noted before they are used for the first time, so that a crash can be laid at their door.

What the files hold is said in :mod:`nbcache.store.quarantine`. That a process dies of a fatal signal is told by
:mod:`faulthandler`, which is switched on while entries are on trial, unless the program did so itself: then nothing is
noted. An entry that some process has used and ended well costs nothing here.
"""

from __future__ import annotations

import faulthandler
import threading
from typing import TYPE_CHECKING, Final

from nbcache import regular
from nbcache.client.gate import FILE, Gate, Gates
from nbcache.client.kept import KeptFile
from nbcache.passing import let_pass, suppressed
from nbcache.plain import one_line
from nbcache.process import os, time
from nbcache.store import drops, layout, quarantine
from nbcache.store.quarantine import CRASH, KEYS

if TYPE_CHECKING:
    from nbcache.store.directory import Store
    from nbcache.store.found import FoundEntry

LOOK_SECONDS: Final = 10.0
"""How long what others crashed with is believed to be all [s]."""
MAX_PROVEN: Final = 2000
"""How many entries a process says to be good when it ends."""
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class Trials:
    """The entries on trial in one process."""

    def __init__(self, store: Store) -> None:
        """Look at nothing yet."""
        self._store = store
        self._looked = -LOOK_SECONDS
        self._suspects: dict[str, quarantine.Suspect] = {}
        self._pid = 0
        self._keys: KeptFile | None = None
        self._crash: KeptFile | None = None
        self._stem = ""
        self._noted: dict[str, str] = {}
        """By digest, the path of an entry; "" for one of a layer."""
        self._good: frozenset[str] | None = None
        self._gates = Gates("")
        self._inside: dict[int, Gate] = {}
        """By thread, what it calls for the first time now."""
        self._patience = quarantine.WINDOW_SECONDS
        """How long this process may still wait for places [s]."""

    def begin(self, entry: FoundEntry, *, called: bool) -> bool:
        """Note that an entry is about to be used, and *called* at once; False if it is to be passed over.

        Never raises.
        """
        if self._crashes(entry.digest) >= quarantine.CRASHES:
            return False
        with suppressed(OSError, ValueError):
            if entry.layer and self._is_good(entry.digest):
                return True
            if self._pid != os.getpid() or self._is_lost():
                self._open()
            if self._keys is not None and entry.digest not in self._noted:
                if called and not self._enter(entry.digest):
                    return False
                name = one_line(entry.header.function)[:200]
                line = f"{entry.digest} {entry.header.key} {time.time():.3f} {name}\n"
                regular.write(self._keys.fd(), line.encode("utf-8", "replace"))
                self._noted[entry.digest] = "" if entry.layer else entry.path
        return True

    def has_begun(self, digest: str) -> bool:
        """Whether it is noted that this process uses an entry."""
        return digest in self._noted

    def withdraw(self, digest: str) -> None:
        """What was begun with could not be used after all: that says nothing good of it. Never raises."""
        self._noted.pop(digest, None)
        gate = self._inside.get(threading.get_ident())
        if gate is not None and gate.digest == digest:
            del self._inside[threading.get_ident()]
            gate.leave(used=False)

    def go_on(self) -> None:
        """This thread is through with what it called first. Never raises."""
        thread = threading.get_ident()
        if self._pid == os.getpid() and thread in self._inside:
            self._inside.pop(thread).leave()

    def _is_lost(self) -> bool:
        """Whether the program has closed what is noted in. Then its fatal errors may be told to a file of its own."""
        if self._keys is None or self._crash is None:
            return False
        try:
            self._keys.status()
            self._crash.status()
        except OSError as raised:
            let_pass(raised)
            return True
        return False

    def _is_good(self, digest: str) -> bool:
        """Whether somebody has used an entry of a layer and ended well."""
        if self._good is None:
            self._good = quarantine.good(self._store.path, self._store.trust)
        return digest in self._good

    def _crashes(self, digest: str, look: bool = False) -> int:
        """How many processes crashed with an entry."""
        now = time.monotonic()
        if look or now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._suspects = quarantine.read(self._store.path, self._store.trust)
        suspect = self._suspects.get(digest)
        return 0 if suspect is None else suspect.crashes

    def _enter(self, digest: str) -> bool:
        """Wait for a place among those who call this entry first; False if it turned out to crash."""
        self.go_on()
        gate = Gate(self._gates, digest)
        began = time.monotonic()
        try:
            if not gate.enter(lambda look: self._crashes(digest, look), self._patience):
                return False
        finally:
            self._patience -= time.monotonic() - began
        self._inside[threading.get_ident()] = gate
        return True

    def finish(self) -> None:
        """The process ends well: nothing that it used is to blame for anything. Never raises."""
        if self._pid != os.getpid() or self._keys is None or self._crash is None:
            return
        for gate in [*self._inside.values()]:
            gate.leave()
        self._gates.remove()
        with suppressed(OSError, ValueError):
            faulthandler.disable()
            self._keys.close()
            self._crash.close()
            self._keys = None
            # A forked child may have crashed.
            crashed = os.path.getsize(self._stem + CRASH) > 0
            if not crashed:
                for suffix in (CRASH, KEYS):
                    os.unlink(self._stem + suffix)
                noted = list(self._noted.items())[:MAX_PROVEN]
                layered = [digest for digest, path in noted if not path]
                if layered:
                    quarantine.vouch(self._store.path, layered)
                for digest, path in noted:
                    if path:
                        quarantine.approve(path, digest)

    def _open(self) -> None:
        """Begin to note. In a forked child too: what its parent noted is its parent's. Raises OSError."""
        before = [file for file in (self._keys, self._crash) if file is not None]
        inherited, self._pid, self._keys, self._noted = self._keys is not None, os.getpid(), None, {}
        self._inside = {}
        self._gates.close()
        # Whoever has fatal errors told elsewhere wants them there.
        if faulthandler.is_enabled() and not inherited:
            return
        drop = drops.own(self._store.path, layout.TRIALS)
        if drop is None:
            return
        self._stem = f"{drop}/{layout.unique()}"
        self._gates = Gates(f"{drop}/{FILE}")
        self._crash = KeptFile(self._stem + CRASH, _CREATE, layout.FILE_MODE)
        self._keys = KeptFile(self._stem + KEYS, _CREATE, layout.FILE_MODE)
        faulthandler.enable(self._crash.fd(), all_threads=False)
        for file in before:
            file.close()
