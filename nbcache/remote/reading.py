"""Reading through: what the store lacks is looked for in tier after tier, verified, and put into the store.

What a slower tier had is copied back to the faster ones, with the signatures that it had.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final

from nbcache.keyring import Keyring
from nbcache.protocol import helper
from nbcache.protocol.helper import Answer
from nbcache.remote import objects
from nbcache.remote.objects import Admitted
from nbcache.remote.tiers import Tier
from nbcache.store import layout, quarantine
from nbcache.store.directory import Store
from nbcache.store.entry import Header
from nbcache.store.slots import PUBLISHED

FETCH_SECONDS: Final = 0.9
"""How long a fetch may take in all [s]: whoever asked waits for one second."""


class Reading:
    """Fetches for one store. Threads may share it; who asks for the same at once gets the same answer."""

    def __init__(
        self, store: Store, keyring: Keyring, tiers: Sequence[Tier], copy_back: Callable[[Tier, str, bytes], None]
    ) -> None:
        """*keyring* says whose entries are taken.

        *copy_back* is told of an object, by name, that a tier lacks and a slower one has.
        """
        self._store = store
        self._keyring = keyring
        self._tiers = tiers
        self._copy_back = copy_back
        self._lock = threading.Lock()
        self._running: dict[tuple[str, int], Future[Answer]] = {}
        self.counts = dict.fromkeys(sorted(helper.STATES), 0)
        self.refused: dict[str, int] = {}
        """How often objects were refused, by the reason."""

    def fetch(self, key: str, slot: int = 0, seconds: float = FETCH_SECONDS) -> Answer:
        """Bring into the store what lies under a key in the first slot, from this one on, that the store lacks.

        Nearly every key has one variant, so the next slots are only asked for by who can't use what came. Who has more
        time than a function that waits leaves more to each answer as well. Raises BadKeyError, nothing else.
        """
        layout.check_key(key)
        asked = (key, slot)
        mine: Future[Answer] = Future()
        with self._lock:
            first = self._running.setdefault(asked, mine)
        if first is not mine:
            return first.result()
        done = Answer(helper.FAILED, "an internal error of nbcache")
        try:
            done = self._fetch(key, slot, time.monotonic() + seconds, patient=seconds > FETCH_SECONDS)
        finally:
            with self._lock:
                del self._running[asked]
                self.counts[done.state] += 1
            mine.set_result(done)
        return done

    def _fetch(self, key: str, first: int, deadline: float, *, patient: bool) -> Answer:
        for slot in range(first, layout.MAX_SLOTS):
            found = self._slot(key, slot, deadline, patient=patient)
            if found is None:
                continue
            if isinstance(found, Answer):
                return found._replace(slot=slot)
            again = self._is_in_the_way(found.header)
            stored = self._store.publish(found.header, found.sections, recache=again, durable=False)
            if not stored.ok:
                why = f"what the remote cache has can't be stored here: {stored.reason}"
                return Answer(helper.FAILED, why, slot)
            if stored.reason == PUBLISHED:
                return Answer(helper.CAME, "", slot)
        return Answer(helper.MISSING, "", layout.MAX_SLOTS)

    def _slot(self, key: str, slot: int, deadline: float, *, patient: bool) -> Admitted | Answer | None:
        """What lies in a slot, in the first tier that has it; None where programs of this host crashed with that."""
        name = objects.name_of(key, slot)
        lacking: list[Tier] = []
        problem = refused = ""
        crashed = False
        for tier in self._tiers:
            got = tier.get(name, max(0.0, deadline - time.monotonic()), patient=patient)
            if got.problem:
                problem = problem or got.problem
                continue
            judged = self._judged(got.data, key) if got.data is not None else ""
            if isinstance(judged, Admitted):
                assert got.data is not None  # it was admitted
                for each in lacking:
                    self._copy_back(each, name, got.data)
                return judged
            lacking.append(tier)
            if judged and judged != objects.OTHER_VERSION:
                tier.distrust(name)
                self.refused[judged] = self.refused.get(judged, 0) + 1
                if judged == objects.CRASHED:
                    crashed = True
                else:
                    refused = refused or f"{tier.label}: {judged}"
        if problem:
            return Answer(helper.FAILED, problem)
        if refused:
            return Answer(helper.REFUSED, refused)
        return None if crashed else Answer(helper.MISSING)

    def _judged(self, data: bytes, key: str) -> Admitted | str:
        """What an object has in it, if that may come in; or why not."""
        found = objects.unpack(data)
        if isinstance(found, str):
            return found
        return objects.admit(found, key, self._keyring, self._condemned)

    def _is_in_the_way(self, header: Header) -> bool:
        """Whether the store has this variant as an entry that nobody uses, because programs crashed with it."""
        condemned = self._condemned
        return bool(condemned) and any(
            each.header.guard == header.guard and each.digest in condemned for each in self._store.find(header.key)
        )

    @property
    def _condemned(self) -> frozenset[str]:
        return quarantine.condemned(self._store.path, self._store.trust)
