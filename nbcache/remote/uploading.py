"""Writing behind: what was built here goes to the tiers later, and nobody waits for it.

The store is the queue: what waits here is a list of keys, and of objects that a faster tier lacks. It is bounded; what
finds no room is counted as dropped and goes with the next ``nbcache push``. Nothing is signed but what was built by
those who may write the store; what came from elsewhere keeps the signatures it has.

Hosts that started at once build the same things at the same time. So each waits for a moment before it uploads, of a
length by chance, and then asks whether somebody else has: of a thousand hosts a few upload, and all the sooner.
"""

from __future__ import annotations

import heapq
import itertools
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from nbcache.errors import EntryError
from nbcache.keyring import Keyring
from nbcache.one_line import log
from nbcache.remote import objects
from nbcache.remote.objects import Head
from nbcache.remote.tiers import Got, Tier
from nbcache.signing_keys import SecretKey
from nbcache.store import entry, layout, quarantine
from nbcache.store.directory import Store
from nbcache.store.entry import Header

MAX_WAITING: Final = 1000
"""How many may wait."""
MAX_BYTES: Final = 256 << 20
"""How large they may be together [bytes]."""
UPLOADERS: Final = 4
SPREAD_SECONDS: Final = 0.5
"""Up to how long an upload waits for others to be faster [s]; by chance."""
LOOK_SECONDS: Final = 15.0
"""How long it may take to see whether somebody else has uploaded something [s], and as long for all of that."""
MAX_WRONG: Final = 100
DRAIN_SECONDS: Final = 8.0
"""How long uploads may go on when the helper ends [s]."""


class _Waiting(NamedTuple):
    due: float
    """When it may go [s]."""
    number: int
    size: int
    what: tuple[str, str]
    """A key, and ""; or for an object that a tier lacks its name, and the tier's label."""
    upload: Callable[[], object]


class Uploading:
    """The queue of one helper. Threads may share it; nothing here raises."""

    def __init__(self, store: Store, keyring: Keyring, tiers: Sequence[Tier], key: SecretKey | None) -> None:
        """Upload what *key* signs; without one, only where *keyring* has the word that nothing need be signed."""
        self._store = store
        self._keyring = keyring
        self._tiers = tiers
        self._key = key
        self._wake = threading.Condition()
        self._queue: list[_Waiting] = []
        """A heap: what is due first comes first."""
        self._numbers = itertools.count()
        self._hurries = False
        self._known: set[tuple[str, str]] = set()
        self._bytes = 0
        self._busy = 0
        self._threads: list[threading.Thread] = []
        self.counts = dict.fromkeys(("stored", "already there", "failed", "dropped", "unsigned"), 0)
        self.wrong: deque[str] = deque(maxlen=MAX_WRONG)
        """Why what failed did, the last of it."""

    @property
    def signs(self) -> bool:
        """Whether what is built here may be uploaded."""
        return self._key is not None or self._keyring.unsigned

    @property
    def waiting(self) -> int:
        """How many wait or are on their way."""
        return len(self._queue) + self._busy

    def offer(self, key: str) -> None:
        """Upload what the store has under a key, sometime."""
        if not layout.is_key(key) or not any(tier.writable for tier in self._tiers):
            return
        if not self.signs:
            self.counts["unsigned"] += 1
            return
        size = sum(sum(found.section_sizes.values()) for found in self._store.find(key))
        self._add(size, (key, ""), lambda: self.upload(key))

    def copy(self, tier: Tier, name: str, data: bytes) -> None:
        """Upload an object to a tier that lacks it, sometime."""
        if tier.writable:
            self._add(len(data), (name, tier.label), lambda: self._count(self._put(tier, name, data)))

    def drain(self, seconds: float = DRAIN_SECONDS) -> bool:
        """Wait until nothing waits any more [s]; return whether that is so. From now on nothing waits for others."""
        deadline = time.monotonic() + seconds
        with self._wake:
            self._hurries = True
            self._wake.notify_all()
            while self.waiting:
                if not self._wake.wait(deadline - time.monotonic()) and time.monotonic() >= deadline:
                    return False
        return True

    def _add(self, size: int, what: tuple[str, str], upload: Callable[[], object]) -> None:
        with self._wake:
            if what in self._known:
                return
            if len(self._queue) >= MAX_WAITING or self._bytes + size > MAX_BYTES:
                self.counts["dropped"] += 1
                return
            self._known.add(what)
            due = time.monotonic() + random.uniform(0.0, SPREAD_SECONDS)  # noqa: S311
            heapq.heappush(self._queue, _Waiting(due, next(self._numbers), size, what, upload))
            self._bytes += size
            if len(self._threads) < UPLOADERS:
                thread = threading.Thread(target=self._run, name="nbcache-upload", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._wake.notify_all()

    def _run(self) -> None:
        while True:
            with self._wake:
                while (pause := self._pause()) is None or pause > 0:
                    self._wake.wait(pause)
                item = heapq.heappop(self._queue)
                self._known.discard(item.what)
                self._bytes -= item.size
                self._busy += 1
            try:
                item.upload()
            except Exception as error:  # noqa: BLE001  the next one may go
                self._count(self.failed(repr(error)))
                log.debug("traceback of an upload", exc_info=True)
            finally:
                with self._wake:
                    self._busy -= 1
                    self._wake.notify_all()

    def _pause(self) -> float | None:
        """How long nothing may go yet [s]; None if nothing waits."""
        if not self._queue:
            return None
        return 0.0 if self._hurries else self._queue[0].due - time.monotonic()

    def upload(self, key: str, *, whole: bool = False) -> dict[str, int]:
        """Upload now what the store has under a key; return how many of its entries went how.

        What is there already stays, as its beginning has it; or, if the *whole* of it is to be looked at, as far as
        that can be fetched and somebody who trusts the same keys could take it.
        """
        before = dict(self.counts)
        for found in quarantine.for_others(self._store.find(key), self._store.path, self._store.trust):
            sections = found.sections()
            if sections is not None:
                self._upload(found.header, sections, whole=whole)
        return {what: count - before[what] for what, count in self.counts.items() if count > before[what]}

    def _upload(self, header: Header, sections: Mapping[str, bytes], *, whole: bool) -> None:
        signed = header.signed
        try:
            if signed is None:
                signed = (objects.sign(self._key, header, sections),) if self._key is not None else ()
            data = entry.encode(header._replace(signed=signed), sections)
        except EntryError as error:
            self._count(self.failed(f"{header.function}: {error}"))
            return
        if not signed and not self._keyring.unsigned:
            self._count("unsigned")
            return
        packed = objects.pack(data)
        if max(len(data), len(packed)) > objects.MAX_OBJECT:
            self._count(self.failed(f"{header.function}: it is larger than {objects.MAX_OBJECT} bytes"))
            return
        condemned = quarantine.condemned(self._store.path, self._store.trust)
        for tier in self._tiers:
            if not tier.readonly:
                self._count(self._place(tier, header, packed, condemned, whole=whole))

    def _place(self, tier: Tier, header: Header, data: bytes, condemned: frozenset[str], *, whole: bool) -> str:
        """Put an object into the first slot of a tier that holds nothing, or nothing that may be used."""
        for slot in range(layout.MAX_SLOTS):
            name = objects.name_of(header.key, slot)
            # When it was looked for before it was built it wasn't there; somebody else may have been faster since.
            there = _there(tier, name)
            if isinstance(there, Got):
                return self.failed(there.problem)
            if isinstance(there, str) or not self._is_of_use(there) or there.digest in condemned:
                return self._put(tier, name, data)
            if whole and self._is_spoiled(tier, name, header.key):
                return self._put(tier, name, data)
            if there.guard == header.guard:
                return "already there"
        return self.failed(f"{tier.label}: {layout.MAX_SLOTS} other variants of {header.function} are there")

    def _is_spoiled(self, tier: Tier, name: str, key: str) -> bool:
        """Whether nobody could take an object, whatever its beginning says; no where it can't be fetched now."""
        got = tier.get(name, LOOK_SECONDS, patient=True)
        if got.data is None:
            return not got.problem
        found = objects.unpack(got.data)
        return isinstance(found, str) or isinstance(objects.admit(found, key, self._keyring), str)

    def _is_of_use(self, there: Head) -> bool:
        """Whether those who trust the same keys may take an object that lies there, by what it says of itself."""
        return self._keyring.unsigned or any(map(self._keyring.trusted, there.signed))

    def _put(self, tier: Tier, name: str, data: bytes) -> str:
        problem = tier.put(name, data)
        return self.failed(problem) if problem else "stored"

    def failed(self, why: str) -> str:
        """Keep in mind why an upload fails; return the word that such are counted by."""
        self.wrong.append(why)
        return "failed"

    def _count(self, how: str) -> None:
        with self._wake:
            self.counts[how] += 1


def _there(tier: Tier, name: str) -> Head | str | Got:
    """What an object says of itself; or why none does; or what the tier says that can't be asked."""
    # All of it only where more keys have signed it than there is room for in its beginning.
    for ask in (tier.head, tier.get):
        got = ask(name, LOOK_SECONDS, patient=True)
        if got.problem:
            return got
        head = objects.read_head(got.data) if got.data is not None else "it isn't there"
        if head is not None:
            return head
    return objects.DAMAGED
