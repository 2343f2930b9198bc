"""What ``nbcache health`` had built: removed by the daemon that built it, since not everybody who asks may do that."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from nbcache.protocol import spool
from nbcache.store import standing
from nbcache.store.usage import SELF_TEST

if TYPE_CHECKING:
    from nbcache.daemon.audit import Audit
    from nbcache.store.directory import Store

KEPT_SECONDS: Final = 20.0
"""How long it is there for who asked [s]."""


class SelfTests:
    """Keys of self-tests that were built. Threads may share one."""

    def __init__(self) -> None:
        """Know of none."""
        self._guard = threading.Lock()
        self._done: deque[tuple[float, str, str]] = deque()

    def add(self, key: str, scope: str) -> None:
        """One was built, or could not be, for who asked from this environment."""
        with self._guard:
            self._done.append((time.monotonic(), key, scope))

    def remove(self, store: Store, audit: Audit, age: float = KEPT_SECONDS) -> None:
        """Remove the entries, and the failures, of those that were built so long ago [s]."""
        while True:
            with self._guard:
                if not self._done or time.monotonic() - self._done[0][0] < age:
                    return
                _, key, scope = self._done.popleft()
            spool.forget_own_failure(store.path, key, scope)
            for entry in store.find(key):
                # The name is what who asked says. Whatever else lies under the key isn't ours to remove.
                if entry.header.function == SELF_TEST and store.remove(entry.path):
                    whose = standing.asker(entry.header)
                    audit.record("removed", key=key, function=SELF_TEST, asked=whose, reason="a self-test is over")
