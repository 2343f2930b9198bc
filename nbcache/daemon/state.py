"""A few named JSON values on local disk, for as long as the disk lets us; in memory otherwise.

What is guaranteed
------------------
- **Nothing here raises** for what disk, SQLite or another process do. A fault is one line in the log and a fall-back;
  what is lost with it is what the daemon knows, never what the store holds.
- A ``put`` is one transaction: after a crash, all of its values are there or none is.
- The directory is only used when it is one's own by the rule of :mod:`nbcache.trust`, on a **local** filesystem
  (SQLite isn't safe on others: sqlite.org/howtocorrupt.html, 2.1), and not in use by another process.
- Only text leaves the database, parsed as JSON: a planted or damaged row is never unpickled.

What becomes of faults
----------------------
============================================  ====================================================================
the directory can't be made or used           memory
damaged, or of another version                made again, empty
a disk that is full, gone or read-only        what can be read goes to memory, and back as soon as the disk takes it
============================================  ====================================================================

While values are in memory, :attr:`State.problem` says why, and every :data:`RETRY_SECONDS` the disk is tried again.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import sqlite3
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from diskcache import Cache, Disk

from nbcache.store import locks, tree
from nbcache.trust import Trust

if TYPE_CHECKING:
    from collections.abc import Mapping

RETRY_SECONDS: Final = 600.0
"""How long values stay in memory before the disk is tried again [s]."""
_MODE: Final = 0o700
_VERSION: Final = "version"
_FILES: Final = ("cache.db", "cache.db-wal", "cache.db-shm", "cache.db-journal")
_SETTINGS: Final = {
    # Nothing is ever culled: what is kept is bounded by those who keep it.
    "eviction_policy": "none",
    "cull_limit": 0,
    # Every value in the database: files beside it aren't part of its transactions.
    "disk_min_file_size": 1 << 40,
    # A page of a mapped file that can't be read is a SIGBUS, an ordinary read of it is an error.
    "sqlite_mmap_size": 0,
}
_TIMEOUT: Final = 1.0

_log = logging.getLogger("nbcache")


class _Unfit(Exception):  # noqa: N818  # it is no error: it is the answer
    """Why a directory isn't used, as the end of a sentence about it."""


class _Text(Disk):  # type: ignore[misc]  # diskcache has no types
    """Stores text and nothing else; diskcache would unpickle what a row declares to be a pickle."""

    def get(self, key: object, raw: object) -> str:
        """Return a row's name."""
        if not raw or not isinstance(key, str):
            raise ValueError("a name that isn't text")
        return key

    def fetch(self, mode: object, filename: object, value: object, read: object) -> str:  # noqa: ARG002
        """Return a row's value."""
        if filename is not None or not isinstance(value, str):
            raise ValueError("a value that isn't text")
        return value


class _Database(Cache):  # type: ignore[misc]  # as above
    """A database that doesn't stay open when it can't be opened."""

    def __init__(self, path: str) -> None:
        """Raises whatever diskcache does."""
        try:
            super().__init__(path, timeout=_TIMEOUT, disk=_Text, **_SETTINGS)
        except BaseException:
            self.close()
            raise


class State:
    """Named values. Threads may share one; a forked child must leave it alone.

    The thread that opens it should close it, and is served fastest: others connect anew for each call.
    """

    def __init__(self, path: str, version: int) -> None:
        """Open the directory ``path``, making it if it doesn't exist. What isn't of ``version`` is thrown away."""
        self.path = path
        self.problem: str | None = None
        """Why values are in memory; None while they are on disk."""
        self._version = version
        self._guard = threading.RLock()
        self._owner = threading.get_ident()
        self._orphans: list[Any] = []
        self._claim = -1
        self._real = path
        """Where it is, without links: what was judged is what is opened."""
        self._cache: Any = None
        # None stands for what was removed, for when the disk is back.
        self._memory: dict[str, str | None] = {}
        self._next_try = 0.0
        try:
            self._cache = self._open()
        except Exception as error:  # noqa: BLE001  # no list of what a damaged database makes of diskcache is complete
            self._to_memory(error, {})

    def get(self, name: str) -> Any:
        """Return a value; None when there is none."""
        with self._guard:
            text = self._read(name)
            self._disconnect()
        return _parse(text)

    def put(self, values: Mapping[str, object]) -> None:
        """Set values, all or none; None removes."""
        texts = {
            name: None if value is None else json.dumps(value, separators=(",", ":")) for name, value in values.items()
        }
        with self._guard:
            # Twice, since a damaged database is made again by the first attempt.
            if not self._write(texts) and not self._write(texts):
                self._memory.update(texts)
                if time.monotonic() >= self._next_try:
                    self._return()
            self._disconnect()

    def close(self) -> None:
        """Close the database and let another process have the directory. May be done twice."""
        with self._guard:
            self._drop()
            self._disconnect()
            self._release()

    def _read(self, name: str) -> str | None:
        if self._cache is not None:
            try:
                found: str | None = self._cache.get(name)
            except Exception as error:  # noqa: BLE001  # as above
                self._fail(error)
            else:
                return found
        return self._memory.get(name)

    def _write(self, texts: Mapping[str, str | None]) -> bool:
        if self._cache is None:
            return False
        try:
            _store(self._cache, texts)
        except Exception as error:  # noqa: BLE001  # as above
            self._fail(error)
            return False
        return True

    def _fail(self, error: Exception) -> None:
        """Give the database up after an error, or make it again if it is damaged."""
        kept: dict[str, str | None] = {}
        if _is_damage(error):
            self._drop()
            try:
                self._cache = self._make_again(f"is damaged ({_reason(error)})")
            except Exception as another:  # noqa: BLE001  # as above
                error = another
            else:
                return
        else:
            # A disk that takes nothing more can still be read.
            with suppress(Exception):
                kept = {name: self._cache[name] for name in self._cache}
            self._drop()
        self._to_memory(error, kept)

    def _return(self) -> None:
        """Try the disk again, with what memory holds."""
        try:
            self._cache = self._open()
            _store(self._cache, self._memory)
        except Exception as error:  # noqa: BLE001  # as above
            self._drop()
            self.problem = _reason(error)
            self._next_try = time.monotonic() + RETRY_SECONDS
            return
        self._memory, self.problem = {}, None
        _log.info("resolved: the daemon's state is stored in %s again", self.path)

    def _to_memory(self, error: Exception, kept: dict[str, str | None]) -> None:
        self._memory = kept
        self._next_try = time.monotonic() + RETRY_SECONDS
        self.problem = _reason(error)
        _log.warning("keeping the daemon's state in memory for now: %s %s", self.path, self.problem)

    def _disconnect(self) -> None:
        # diskcache keeps a connection for each thread, which only that thread can close.
        if threading.get_ident() == self._owner:
            while self._orphans:
                _close(self._orphans.pop())
        elif self._cache is not None:
            _close(self._cache)

    def _drop(self) -> None:
        cache, self._cache = self._cache, None
        if cache is not None:
            _close(cache)
            if threading.get_ident() != self._owner:
                self._orphans.append(cache)

    def _open(self) -> Any:
        """Return a database of this version. Raises _Unfit, and whatever SQLite and the system do."""
        self._take()
        try:
            cache, found = self._look()
        except Exception as error:
            if not _is_damage(error):
                raise
            return self._make_again(f"is damaged ({_reason(error)})")
        if found == self._version:
            return cache
        cache.close()
        return self._make_again(f"is of version {found!r:.20} and not {self._version}")

    def _look(self) -> tuple[Any, object]:
        """Return the database and its version, which an empty one gets now."""
        cache = _Database(self._real)
        try:
            if len(cache) == 0:
                _store(cache, {_VERSION: json.dumps(self._version)})
            return cache, _parse(cache.get(_VERSION))
        except BaseException:
            cache.close()
            raise

    def _make_again(self, said: str) -> Any:
        _log.warning("the daemon's state in %s %s; starting with an empty state", self.path, said)
        for name in _FILES:
            with suppress(FileNotFoundError):
                os.unlink(f"{self._real}/{name}")
        return self._look()[0]

    def _take(self) -> None:
        """Make the directory, look at it, and claim it for this process. Raises OSError or _Unfit."""
        self._release()
        os.makedirs(self.path, _MODE, exist_ok=True)
        trust = Trust()
        try:
            self._real = real = tree.real_path(self.path, trust)
        except ValueError as error:
            raise _Unfit(str(error)) from error
        problem = trust.path_problem(real)
        if problem is not None:
            raise _Unfit(problem)
        kind = locks.filesystem_kind(real)
        if kind not in locks.LOCAL:
            raise _Unfit(f"lies on {kind}, and SQLite is only safe on a local filesystem")
        fd = os.open(f"{real}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            # Not flock: a forked worker inherits that, and would keep it after the daemon was killed.
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            raise _Unfit("is in use by another process") from error
        self._claim = fd

    def _release(self) -> None:
        fd, self._claim = self._claim, -1
        if fd >= 0:
            os.close(fd)


def _close(cache: Any) -> None:
    with suppress(Exception):
        cache.close()


def _store(cache: Any, texts: Mapping[str, str | None]) -> None:
    with cache.transact():
        for name, text in texts.items():
            if text is None:
                cache.delete(name)
            else:
                cache.set(name, text)


def _parse(text: object) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


def _is_damage(error: Exception) -> bool:
    """Whether the database itself is to blame, and not the disk or somebody who holds it."""
    cause = _cause(error)
    # Full, read-only, locked and I/O errors are OperationalError (sqlite3's own table of codes); SQLITE_CORRUPT and
    # SQLITE_NOTADB are the base class. Wrong types in diskcache's tables surface as whatever they break.
    return not isinstance(cause, (sqlite3.OperationalError, OSError, _Unfit))


def _reason(error: Exception) -> str:
    cause = _cause(error)
    return tree.strerror(cause) if isinstance(cause, OSError) else str(cause)


def _cause(error: BaseException) -> BaseException:
    """Return what an error began with: diskcache rolls back what SQLite has rolled back, and hides why it timed out."""
    while error.__context__ is not None and not isinstance(error, _Unfit):
        error = error.__context__
    return error
