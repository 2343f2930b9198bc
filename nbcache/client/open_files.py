"""Files that stay open while a program runs, whatever it does with descriptors; and the one that every process has.

That is the usage record of this process while it grows. Each thing that is counted is appended to it at once
(:mod:`nbcache.store.usage` says what is in it). So nothing that was counted is lost whether the process ends by
``exit``, ``os._exit``, SIGTERM, SIGKILL or a crash, in a child of ``fork`` as well, and without a thread, a timer or a
handler, which would be in the program's way. The kernel keeps what is written and has it on the disk later; nobody
waits for that.

What it costs is bounded: :data:`AT_ONCE` such writes in a process, which is more than most programs have functions, and
then one in :data:`PAUSE_SECONDS` at most, which holds all that was counted since. Only that may be lost where a process
is killed. Where nothing can be written, it is tried again once a minute.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what a program puts into the place of `signal.getsignal` is its own
import errno
import json
import stat
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from nbcache.counting import program
from nbcache.passing_exceptions import let_pass, suppressed
from nbcache.process import closing, os, out_of_the_way, time
from nbcache.store import layout, reasons

AT_ONCE: Final = reasons.MAX_KEYS
"""How many writes a process makes whenever something is counted."""
PAUSE_SECONDS: Final = 2.0
"""How often it writes from then on, at most [s]."""
RETRY_SECONDS: Final = 60.0
"""How long nothing is tried where a record can't be written [s]."""
MOST_WAITING: Final = 10_000
"""How many counts wait to be written at most; where there are more, the oldest are given up."""
_MANY: Final = 1e9
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class KeptFile:
    """A file of ours, open under a number that a program which closes all and opens its own won't have soon.

    It may have that number in the end, for a file of its own: so whether it is still ours is asked before each use.
    """

    def __init__(self, path: str, flags: int, mode: int) -> None:
        """Open it. Raises OSError."""
        with closing(os.open(path, flags, mode)) as fd:
            status = os.fstat(fd)
            self._fd = out_of_the_way(fd)
        self._file = status.st_dev, status.st_ino

    def status(self) -> os.stat_result:
        """Return what the file is like. Raises OSError (EBADF) if it isn't ours any more."""
        status = os.fstat(self._fd)
        if (status.st_dev, status.st_ino) != self._file:
            raise OSError(errno.EBADF, "the descriptor is another file's")
        return status

    def fd(self) -> int:
        """Return its descriptor. Raises OSError (EBADF) if it isn't ours any more."""
        self.status()
        return self._fd

    def append(self, data: bytes) -> None:
        """Write to its end, all or, if the disk is full, a part. Raises OSError, also if the file has no name any more.

        What RLIMIT_FSIZE forbids is an error as well. The kernel would send SIGXFSZ, which Python ignores; only where
        it knows of a program that doesn't, the limit is asked for first (:func:`nbcache.regular_files.write`).
        """
        status = os.fstat(self._fd)
        if (status.st_dev, status.st_ino) != self._file or not status.st_nlink:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        write = os.write if _signal.getsignal(_signal.SIGXFSZ) == _signal.SIG_IGN else _within_limits
        if write(self._fd, data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Close it, unless the descriptor is somebody else's by now. Never raises."""
        with suppressed(OSError):
            os.close(self.fd())


class Journal:
    """Of one process and store. Any thread may call it, and nothing of it raises; a forked child has its own file."""

    def __init__(self, root: str) -> None:
        """Write nothing yet."""
        self._root = root
        self._file: KeptFile | None = None
        self._begin()
        os.register_at_fork(after_in_child=self._in_child)

    def note(self, counted: dict[str, Any]) -> None:
        """Write down what was counted: a part of a record, which isn't changed afterwards."""
        with self._lock:
            # Nearly always nothing waits, and it is a line for the file that is open: the rest is for other times.
            if not (self._next or self._waiting or self._is_writing or self._file is None):
                line = _line(counted)
                if self._size + len(line) <= layout.MAX_RECORD and self._is_appended(self._file, line):
                    return
            self._waiting.append(counted)
            if not self._next or time.monotonic() >= self._next:
                self._write()

    def _is_appended(self, file: KeptFile, line: bytes) -> bool:
        self._is_writing = True
        try:
            file.append(line)
        except OSError as raised:
            let_pass(raised)
            return False
        finally:
            self._is_writing = False
        self._size += len(line)
        self._wrote()
        return True

    def _wrote(self) -> None:
        self._left -= 1
        self._next = 0.0 if self._left > 0 else time.monotonic() + PAUSE_SECONDS

    def end(self) -> None:
        """Write down what still waits, and that the process has ended well as far as anybody can tell."""
        if self._head["processes"] == 0 or self._waiting:
            with self._lock:
                self._waiting.append({"end": time.time()})
                self._write()

    def _begin(self) -> None:
        # Re-entrant: the garbage collector may run somebody's finalizer, which compiles, in the middle of writing.
        self._lock = threading.RLock()
        self._is_writing = False
        self._waiting: deque[dict[str, Any]] = deque(maxlen=MOST_WAITING)
        self._left = AT_ONCE
        self._next = 0.0
        self._size = 0
        self._head = {"version": layout.RECORD_VERSION, "processes": 1, "start": time.time()}

    def _in_child(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        self._begin()

    def _write(self) -> None:
        if self._is_writing:  # further out in this thread, which is interrupted
            return
        self._is_writing, batch = True, list(self._waiting)
        self._waiting.clear()
        try:
            self._append(batch)
        except BaseException as raised:
            self._waiting.extendleft(reversed(batch))
            self._next = time.monotonic() + RETRY_SECONDS
            if not isinstance(raised, OSError):
                raise
            let_pass(raised)
        else:
            self._wrote()
        finally:
            self._is_writing = False

    def _append(self, batch: list[dict[str, Any]]) -> None:
        data = _line(batch[0]) if len(batch) == 1 else b"".join(map(_line, _joined(batch)))
        if self._file is not None:
            if self._size + len(data) <= layout.MAX_RECORD:
                try:
                    self._file.append(data)
                except OSError as raised:
                    let_pass(raised)
                else:
                    self._size += len(data)
                    return
            # It is full, or its disk; or the program has closed it, or somebody has summed it up and removed it.
            self._file.close()
            self._file = None
        who = {"host": layout.host(), "pid": os.getpid(), "argv0": program()}
        data = json.dumps({**self._head, **who}).encode("ascii") + data
        path = f"{self._root}/{layout.USAGE}/{layout.unique()}{layout.GROWING}"
        self._file = _made(path)
        try:
            self._file.append(data)
        except OSError as raised:
            let_pass(raised)
            self._file.close()
            self._file = None
            with suppressed(OSError):
                os.unlink(path)
            raise
        self._size = len(data)
        self._head["processes"] = 0  # what goes on in another file is no other process


def _within_limits(fd: int, data: bytes) -> int:
    try:
        from nbcache.regular_files import write  # few programs change what becomes of that signal
    except ImportError as error:  # a process may have given up its right to read it
        raise OSError(errno.EACCES, os.strerror(errno.EACCES)) from error
    return write(fd, data)


def _made(path: str) -> KeptFile:
    """Make a file with what NBCACHE_UMASK leaves of its mode, in a directory that is no link. Raises OSError."""
    directory = path.rpartition("/")[0]
    if not stat.S_ISDIR(os.lstat(directory).st_mode):
        raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), directory)
    umask = layout.UMASK.value
    file = KeptFile(path, _CREATE, layout.FILE_MODE if umask is None else 0o600)
    if umask is not None:
        os.fchmod(file.fd(), layout.FILE_MODE & ~umask)
    return file


def _line(counted: Mapping[str, Any]) -> bytes:
    """Return a line of a record. It begins with its end, so that one that was cut off spoils none but itself."""
    if len(counted) == 3 and counted.get("hit_count") == 1:
        # A hit, as nearly always: in a tenth of the time that `json` takes.
        [key] = counted["hits"]
        saved = counted["saved_seconds"]
        if 0 <= saved < _MANY:
            return f'\n{{"hits": {{"{key}": 1}}, "hit_count": 1, "saved_seconds": {saved:.3f}}}'.encode()
    return b"\n" + json.dumps(counted).encode()


def _joined(batch: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Yield all hits as one thing that was counted, and everything else as it is."""
    hits = reasons.none_counted()
    for counted in batch:
        if "hits" in counted:
            reasons.add(hits, counted)
        else:
            yield counted
    if hits["hits"]:
        yield {name: value for name, value in hits.items() if value}
