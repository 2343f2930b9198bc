"""Being woken when something arrives in the spool: a convenience, never a need."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from watchdog.events import FileSystemEventHandler
from watchdog.observers import Observer
from watchdog.observers.polling import PollingObserver

from nbcache.store import layout, locks

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger("nbcache")
POLL_SECONDS: Final = 0.5
"""How often a network filesystem is asked [s]: events there tell only of this host's changes."""


class _Waker(FileSystemEventHandler):
    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def on_moved(self, _event: Any) -> None:
        self._wake()

    def on_created(self, _event: Any) -> None:
        self._wake()


class Watch:
    """Calls *wake*, from a thread of its own, when a file appears among a store's requests.

    Without inotify, or with all of its watches used up, nothing wakes anybody: one line says so.
    """

    def __init__(self, root: str, wake: Callable[[], None]) -> None:
        """Begin at once."""
        self._wake = wake
        self._observer: Any = None
        self.restart(root)

    @property
    def alive(self) -> bool:
        """Whether somebody still watches, as far as anybody ever did."""
        return self._observer is None or all(emitter.is_alive() for emitter in self._observer.emitters)

    def restart(self, root: str) -> None:
        """Watch anew: the directory may be another one than before."""
        self.close()
        requests = f"{root}/{layout.REQUESTS}"
        is_local = locks.filesystem_kind(root) in locks.LOCAL
        observer = Observer() if is_local else PollingObserver(timeout=POLL_SECONDS)
        try:
            observer.schedule(_Waker(self._wake), requests, recursive=False)
            observer.start()
        except OSError as error:
            _log.warning("%s can't be watched (%s); it is looked through every second", requests, error.strerror)
            return
        self._observer = observer

    def close(self) -> None:
        """Stop watching."""
        observer, self._observer = self._observer, None
        if observer is not None:
            with suppress(RuntimeError):
                observer.stop()
                observer.join(5)
