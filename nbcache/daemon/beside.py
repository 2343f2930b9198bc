"""Work that may hang, for several users: in a thread for each of them, and what comes of it in the thread that asks.

To look at a file may wait for a file server, for ever. Who waits then is whoever brought the file, and nobody else.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

IDLE_SECONDS: Final = 5.0
"""How long a thread stays that has nothing to do [s]."""


class Beside:
    """One thread asks and settles; the others are made as they are needed. No work may raise."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """*wake* is called, in any thread, when there is something to be settled."""
        self._wake = wake
        self._lock = threading.Lock()
        self._waiting: dict[int, queue.SimpleQueue[Callable[[], Callable[[], None]]]] = {}
        self._done: deque[Callable[[], None]] = deque()

    def do(self, whose: int, work: Callable[[], Callable[[], None]]) -> None:
        """Have *work* done after all else that is *whose* (a uid); what it returns is called by `settle`.

        Raises OSError where no thread can be made.
        """
        with self._lock:
            waiting = self._waiting.get(whose)
            if waiting is None:
                waiting = queue.SimpleQueue()
                thread = threading.Thread(
                    target=self._work, args=(whose, waiting), name="nbcache looks at files", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError as error:
                    raise OSError(str(error)) from error
                self._waiting[whose] = waiting
            waiting.put(work)

    def settle(self) -> None:
        """Call what came of all that is done."""
        while self._done:
            self._done.popleft()()

    def _work(self, whose: int, waiting: queue.SimpleQueue[Any]) -> None:
        while True:
            try:
                work = waiting.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if waiting.empty():
                        del self._waiting[whose]
                        return
                continue
            self._done.append(work())
            self._wake()
