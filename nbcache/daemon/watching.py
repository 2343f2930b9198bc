"""Being told when something arrives in the spool: a convenience, never a need."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from watchdog.events import FileSystemEventHandler
from watchdog.observers import Observer

from nbcache.store import layout, locks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_log = logging.getLogger("nbcache")
MAX_WATCHED: Final = 30
"""How many users' directories are watched; a user has 128 watches on most systems. The others are passed through."""


class _Teller(FileSystemEventHandler):
    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def on_moved(self, event: Any) -> None:
        self._tell(os.fsdecode(event.dest_path))

    def on_created(self, event: Any) -> None:
        self._tell(os.fsdecode(event.src_path))


class Watch:
    """Calls *tell* with a path, from a thread of its own, when that appears among a store's requests.

    Without inotify, or with all of its watches used up, nobody is told anything: one line says so. On a network
    filesystem nobody is either, since events there tell of this host's changes only.
    """

    def __init__(self, root: str, tell: Callable[[str], None]) -> None:
        """Begin at once."""
        self._teller = _Teller(tell)
        self._observer: Any = None
        self._requests = ""
        self._watched: set[str] = set()
        self.restart(root)

    @property
    def alive(self) -> bool:
        """Whether somebody still watches, as far as anybody ever did."""
        return self._observer is None or all(emitter.is_alive() for emitter in self._observer.emitters)

    @property
    def watches(self) -> bool:
        """Whether anybody watches at all."""
        return self._observer is not None

    def restart(self, root: str) -> None:
        """Watch anew: the directory may be another one than before."""
        self.close()
        self._requests = f"{root}/{layout.REQUESTS}"
        if locks.filesystem_kind(root) not in locks.LOCAL:
            return
        observer = Observer()
        try:
            observer.schedule(self._teller, self._requests, recursive=False)
            observer.start()
        except OSError as error:
            _log.warning("%s can't be watched (%s); listing it every second instead", self._requests, error.strerror)
            return
        self._observer = observer

    def follow(self, names: Iterable[str]) -> None:
        """Watch these directories of users as well, those that are there."""
        if self._observer is None:
            return
        for name in names:
            path = f"{self._requests}/{name}"
            if name not in self._watched and len(self._watched) < MAX_WATCHED and os.path.isdir(path):
                self._watched.add(name)
                with suppress(OSError):
                    self._observer.schedule(self._teller, path, recursive=False)

    def close(self) -> None:
        """Stop watching."""
        observer, self._observer = self._observer, None
        self._watched.clear()
        if observer is not None:
            with suppress(RuntimeError):
                observer.stop()
                observer.join(5)
