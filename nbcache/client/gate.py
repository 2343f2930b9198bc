"""Letting two at a time begin with an entry that nobody is known to have got through.

An entry whose code crashes at once is passed over after two crashes; but where many processes begin at once, all of
them would have begun before the first has crashed. So who is about to call one for the first time takes one of two
*places*, and gives it back when the call is over. The places are in a file in the user's own directory,
``v1/trials/<uid>/places-1``, which is a table: its row, by the entry's digest, has two records of 32 bytes::

    <digest of the entry, 16 bytes> <"T" taken, or "W" well> <namespace of the next, 3 bytes>
    <thread id, 4 bytes> <its processor time then [s], 8 bytes>

A place is taken while a process has a lock on its record's bytes (fcntl(2)). Where one got through, ``W`` says so, and
nobody takes places any more. The kernel gives back the place of a process that died, and then ``T`` stands there: so
whoever takes it next looks at what crashed, after that crash was told. Each crash that is known costs a place, so no
more than two die, however many begin at once. Who finds no place waits: until there is one, or until whoever has one
has worked on for :data:`WORKED_SECONDS` and no crash was told (a kernel that writes a core dump works, too); a process
waits no longer in all than :data:`~nbcache.store.quarantine.WINDOW_SECONDS`, the time after which a crash isn't laid at
an entry's door either.

Two entries may share a row: then one's processes may wait for the other's, or take a place once more. Rejected: a file
for each entry, which took longer to create and rename than the rest of a hit takes.

Only for what is called right after it was loaded: what is compiled when a module is imported isn't, and nobody could
give a place back.
"""

from __future__ import annotations

import fcntl
import struct
import threading
from typing import TYPE_CHECKING, Final

from nbcache import regular
from nbcache.client.kept import KeptFile
from nbcache.passing import suppressed
from nbcache.process import os, time
from nbcache.protocol import effort
from nbcache.store import quarantine

if TYPE_CHECKING:
    from collections.abc import Callable

WORKED_SECONDS: Final = 0.5
"""From then on, whoever has a place is through with what can go wrong at once [s]."""
STILL_SECONDS: Final = 0.5, 0.05
"""How long whoever has a place is waited for without a sign that they get on [s]: at first, and later in a process."""
FILE: Final = "places-1"
"""Its name has the version of its format."""
_POLL_SECONDS: Final = (0.001, 0.05)
_RECORD: Final = struct.Struct("<16sc3sId")
_PLACES: Final = quarantine.CRASHES
_ROWS: Final = 4096
_TAKEN, _WELL = b"T", b"W"
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_Record = tuple[bytes, bytes, bytes, int, float]


class Gates:
    """Those of all entries of a user, as one process sees them. They are not for its forked children.

    Locks of fcntl(2) belong to the process, so a child that closes the file gives none of them back.
    """

    def __init__(self, path: str) -> None:
        """*path* is that of the file."""
        self._path = path
        self._file: KeptFile | None = None
        self.still_seconds = STILL_SECONDS[0]

    def opened(self) -> KeptFile:
        """Return the file that is there now, which may not be the one that was. Raises OSError."""
        if self._file is not None:
            with suppressed(OSError):
                if self._file.status().st_nlink:
                    return self._file
        self.close()
        self._file = KeptFile(self._path, _FLAGS, 0o600)
        return self._file

    def close(self) -> None:
        """Give back all places of this process."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def remove(self) -> None:
        """This process is through: the file is of no use any more, unless somebody is inside, or has died there."""
        if self._file is None:
            return
        with suppressed(OSError):
            fd = self._file.fd()
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            content = os.pread(fd, _ROWS * _PLACES * _RECORD.size, 0)
            records = _RECORD.iter_unpack(content[: len(content) // _RECORD.size * _RECORD.size])
            # Under that path may be another file by now, with others inside: whoever has that one removes it.
            if os.fstat(fd).st_nlink and all(record[1] != _TAKEN for record in records):
                os.unlink(self._path)
        self.close()


class Gate:
    """That of one entry. Whatever fails lets everybody in: without a place, as if there were no gate."""

    def __init__(self, gates: Gates, digest: str) -> None:
        """*digest* is the entry's, 32 hexadecimal digits."""
        self._gates = gates
        self.digest = digest
        self._digest = bytes.fromhex(digest)
        self._row = int(digest[:8], 16) % _ROWS * _PLACES * _RECORD.size
        self._taken: list[int] = []
        self._file: KeptFile | None = None
        """Where these places are."""
        self._still: dict[int, tuple[object, float]] = {}
        """By number, what was seen of who has a place, and since when nothing else was."""

    def enter(self, crashes: Callable[[bool], int], seconds: float) -> bool:
        """Wait for a place, no longer than that [s]; return False if so many crashed meanwhile that there is none.

        *crashes* tells how many are known to have crashed; given True, it looks.
        """
        pause, longest = _POLL_SECONDS
        deadline = time.monotonic() + seconds
        with suppressed(OSError, ValueError):
            while time.monotonic() < deadline:
                self._file = self._gates.opened()
                fd = self._file.fd()
                if any(record[:2] == (self._digest, _WELL) for record in self._records(fd)):
                    return True
                entered = self._try(fd, crashes)
                if entered is not None:
                    return entered
                time.sleep(pause)
                pause = min(pause * 1.5, longest)
            return crashes(True) < _PLACES
        return True

    def leave(self, *, used: bool = True) -> None:
        """Give the place back: got through with it, or it was of no use. Never raises."""
        taken, self._taken = self._taken, []
        if taken and self._file is not None:
            record = _RECORD.pack(self._digest, _WELL, b"", 0, 0.0) if used else bytes(_RECORD.size)
            with suppressed(OSError):
                self._give_back(self._file.fd(), taken, record)

    def _try(self, fd: int, crashes: Callable[[bool], int]) -> bool | None:
        """Whether there is a place, and will be any; None if nobody knows yet. Raises OSError, ValueError."""
        taken: list[int] = []
        busy = known = 0
        try:
            for number in range(_PLACES):
                place = self._row + number * _RECORD.size
                try:
                    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, _RECORD.size, place)
                except (BlockingIOError, PermissionError):
                    busy += self._is_busy(number, self._records(fd)[number])
                    continue
                taken.append(place)
                known = crashes(self._records(fd)[number][1] == _TAKEN)
                if not known:
                    break
            if not os.fstat(fd).st_nlink:
                return None
            if known >= _PLACES:
                return False
            # Where one crashed there may be one more, and nobody beside it.
            if busy + known >= _PLACES:
                return None
            if not taken and (known := crashes(True)):
                return False if known >= _PLACES else None
            record = _RECORD.pack(self._digest, _TAKEN, _namespace(), threading.get_native_id(), time.thread_time())
            for place in taken:
                regular.write(fd, record, at=place)
            self._taken, taken = taken, []
            return True
        finally:
            self._give_back(fd, taken)

    def _is_busy(self, number: int, record: _Record) -> bool:
        """Whether whoever holds a place may still crash at once."""
        _digest, state, namespace, thread, before = record
        # Where that says nothing, or is of somebody who is gone or can't be seen here, the place was taken just now.
        known = state == _TAKEN and namespace == _namespace()
        seen = effort.thread(thread) if known else None
        if seen is not None and seen[1] - before >= WORKED_SECONDS:
            return False
        now = time.monotonic()
        if (seen is not None and seen[0]) or self._still.get(number, (None, now))[0] != (record, seen):
            self._still[number] = (record, seen), now
        if now - self._still[number][1] < self._gates.still_seconds:
            return True
        self._gates.still_seconds = STILL_SECONDS[1]
        return False

    def _records(self, fd: int) -> list[_Record]:
        """Those of this row. Raises OSError."""
        row = os.pread(fd, _PLACES * _RECORD.size, self._row)
        return [*_RECORD.iter_unpack(row.ljust(_PLACES * _RECORD.size, b"\0"))]

    def _give_back(self, fd: int, places: list[int], record: bytes = b"") -> None:
        for place in places:
            with suppressed(OSError, ValueError):
                if record:
                    regular.write(fd, record, at=place)
                fcntl.lockf(fd, fcntl.LOCK_UN, _RECORD.size, place)


def _namespace() -> bytes:
    """Within which ids of threads mean the same."""
    return (os.stat("/proc/self/ns/pid").st_ino & 0xFFFFFF).to_bytes(3, "little")
