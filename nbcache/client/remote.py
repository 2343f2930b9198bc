"""Asking the helper for what the store doesn't have, before it is compiled; all that a client knows of remote tiers.

What is promised: whatever is wrong with the tiers or the helper, a process waits for at most :data:`LOOKUP_SECONDS` a
look-up and :data:`PROCESS_SECONDS` in all, beyond what the waiting saved; and what couldn't be asked isn't counted as a
miss like any other. Nothing here has threads or open descriptors, so a process may fork at any time.
"""

from __future__ import annotations

import threading
from typing import Final

from nbcache.client.logs import once
from nbcache.config import Settings
from nbcache.counting import Counters
from nbcache.process import os, time
from nbcache.protocol import helper
from nbcache.protocol.helper import Answer
from nbcache.records import Record
from nbcache.store import reasons

LOOKUP_SECONDS: Final = 1.0
PROCESS_SECONDS: Final = 1.4
"""Less than the two seconds that a broken cache may cost in all: asking and storing what is compiled costs as well."""
NESTED_SECONDS: Final = 0.010
"""What a compilation needs besides is always asked for while a fetch takes no longer than that on average [s]."""
NESTED_SHARE: Final = 0.1
"""Else while it takes no longer than this part of what a compilation took on average."""
NESTED_BUDGET: Final = PROCESS_SECONDS / 2
"""And only until that was waited for in vain [s]: the rest is for what the program itself asks for."""


class Asked(Record):
    """What asking for a key came to."""

    state: str
    """What the helper said, or :data:`~nbcache.store.reasons.REMOTE_FAILED`; "" if it wasn't asked."""
    seconds: float
    """How long was waited [s]."""
    slot: int = 0
    """Where it came from: there may be other variants behind it."""


class Remote:
    """The remote tiers, as one process sees them. Threads may share it; a forked child begins anew."""

    def __init__(self, settings: Settings, counters: Counters) -> None:
        """Look for nobody yet."""
        self._settings = settings
        self._counters = counters
        self._restart()

    def _restart(self) -> None:
        self._pid = os.getpid()
        self._line = helper.Line(self._settings)
        self._lock = threading.Lock()
        self._spent = 0.0
        self._average = 0.0
        self._asked: set[tuple[str, int]] = set()

    def fetch(self, key: str, *, nested: bool, slot: int = 0) -> Asked:
        """Ask for a key, from a slot on, once. What is *nested* in a compilation is only asked for while that pays."""
        if self._pid != os.getpid():
            self._restart()
        if (key, slot) in self._asked or (nested and not self._pays):
            return Asked("", 0.0)
        self._asked.add((key, slot))
        with self._lock:
            most = min(LOOKUP_SECONDS, PROCESS_SECONDS - self._spent)
            if most <= 0:
                return Asked(reasons.REMOTE_FAILED, 0.0)
            # All of it, until it is known how much it was: other threads wait at the same time.
            self._spent += most
        began = time.monotonic()
        answer = None
        try:
            answer = self._line.ask("fetch", key, most, slot=slot)
        finally:
            waited = time.monotonic() - began
            with self._lock:
                self._spent += waited - most
            self._counters.waited(waited, came=answer is not None and answer.state == helper.CAME)
        return Asked(self._told(answer), waited, 0 if answer is None else answer.slot)

    @property
    def _pays(self) -> bool:
        """Whether what a compilation needs besides is asked for: most of it may not be there."""
        likely = NESTED_SHARE * self._counters.average_build
        return self._average <= max(NESTED_SECONDS, likely) and self._spent <= NESTED_BUDGET

    def saved(self, seconds: float, asked: Asked) -> None:
        """What came saved a compilation of so long [s]."""
        with self._lock:
            self._spent -= max(0.0, min(seconds, asked.seconds))

    def offer(self, key: str) -> None:
        """Tell the helper of an entry that was built here."""
        self._line.offer(key)

    def _told(self, answer: Answer | None) -> str:
        if answer is None:
            self._complain(self._line.problem or "no answer in time; `nbcache remote status` says from which server")
            return reasons.REMOTE_FAILED
        self._average = answer.seconds
        if answer.state == helper.FAILED:
            self._complain(answer.why)
            return reasons.REMOTE_FAILED
        if answer.state == helper.REFUSED:
            self._counters.error(f"{reasons.REMOTE}: entries were refused")
            once("an entry of the remote cache was refused: %s", answer.why)
        return answer.state

    def _complain(self, why: str) -> None:
        self._counters.error(f"{reasons.REMOTE}: {why}")
        once("the remote cache can't be used; compiling what is not in the local store: %s", why)
