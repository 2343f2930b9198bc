"""Directories that are watched: somebody is told when something appears in one of them, or is written there.

Being told is a convenience, never a need: whoever watches looks every second anyway.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from watchdog.events import FileSystemEventHandler
from watchdog.observers import Observer

from nbcache.store import locks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_log = logging.getLogger("nbcache")
MAX_WATCHED: Final = 30
"""How many directories are watched besides the first; a user has 128 watches on most systems."""


class _Teller(FileSystemEventHandler):
    def __init__(self, tell: Callable[[str], None], *, of_writing: bool) -> None:
        self._tell = tell
        self._of_writing = of_writing

    def on_moved(self, event: Any) -> None:
        self._tell(os.fsdecode(event.dest_path))

    def on_created(self, event: Any) -> None:
        self._tell(os.fsdecode(event.src_path))

    def on_modified(self, event: Any) -> None:
        if self._of_writing:
            self._tell(os.fsdecode(event.src_path))


class Watch:
    """Calls *tell* with a path, from a thread of its own, when that appears in a directory; if it is to tell *of
    writing*, also when something is written there.

    Without inotify, or with all of its watches used up, nobody is told anything: one line says so. On a network
    filesystem nobody is either, since events there tell of this host's changes only.
    """

    def __init__(
        self, path: str, tell: Callable[[str], None], *, of_writing: bool = False, most: int = MAX_WATCHED
    ) -> None:
        """Begin at once with the directory *path*, and follow so many others at *most*."""
        self._teller = _Teller(tell, of_writing=of_writing)
        self._most = most
        self._observer: Any = None
        self._watched: set[str] = set()
        self.restart(path)

    @property
    def alive(self) -> bool:
        """Whether somebody still watches, as far as anybody ever did."""
        return self._observer is None or all(emitter.is_alive() for emitter in self._observer.emitters)

    @property
    def watches(self) -> bool:
        """Whether anybody watches at all."""
        return self._observer is not None

    def restart(self, path: str) -> None:
        """Watch anew: the directory may be another one than before."""
        self.close()
        if locks.filesystem_kind(path) not in locks.LOCAL:
            return
        observer = Observer()
        try:
            observer.schedule(self._teller, path, recursive=False)
            observer.start()
        except OSError as error:
            _log.warning("%s can't be watched (%s); listing it every second instead", path, error.strerror)
            return
        self._observer = observer

    def follow(self, paths: Iterable[str]) -> list[str]:
        """Watch these directories as well, those that are there; return which are new among them."""
        new: list[str] = []
        for path in paths if self._observer is not None else ():
            if path not in self._watched and len(self._watched) < self._most and os.path.isdir(path):
                self._watched.add(path)
                with suppress(OSError):
                    self._observer.schedule(self._teller, path, recursive=False)
                    new.append(path)
        return new

    def close(self) -> None:
        """Stop watching."""
        observer, self._observer = self._observer, None
        self._watched.clear()
        if observer is not None:
            with suppress(RuntimeError):
                observer.stop()
                observer.join(5)
