"""Letting two at a time begin with an entry that nobody is known to have got through.

An entry whose code crashes at once is passed over after two crashes; but where many processes begin at once, all of
them would have begun before the first has crashed. So who is about to call one for the first time takes one of two
*places*, and gives it back when the call is over: files in the user's own directory, ``v1/trials/<uid>/``::

    <digest of the entry>.0  .1     under flock(2) while taken; "<pid> <its processor time then [s]>"
    <digest of the entry>.well      what it is called when it is given back: nobody takes places any more

The kernel gives back the place of a process that died, and then it isn't empty: so whoever takes it next looks at what
crashed, after that crash was told. Each crash that is known costs a place, so no more than two die, however many begin
at once. Who finds no place waits: until there is one, or until whoever has one has worked on for
:data:`WORKED_SECONDS`; a process waits no longer in all than :data:`~nbcache.store.quarantine.WINDOW_SECONDS`, the time
after which a crash isn't laid at an entry's door either.

Only for what is called right after it was loaded: what is compiled when a module is imported isn't, and nobody could
give a place back.
"""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING, Final

from nbcache.passing import suppressed
from nbcache.protocol import effort
from nbcache.store import quarantine

if TYPE_CHECKING:
    from collections.abc import Callable

WORKED_SECONDS: Final = 0.5
"""From then on, whoever has a place is through with what can go wrong at once [s]."""
_POLL_SECONDS: Final = (0.001, 0.05)
_PLACES: Final = tuple(f".{number}" for number in range(quarantine.CRASHES))
_WELL: Final = ".well"
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Gate:
    """That of one entry. Whatever fails lets everybody in: without a place, as if there were no gate."""

    def __init__(self, stem: str, high: Callable[[int], int]) -> None:
        """*stem* is the path without what is told above; *high* moves a descriptor out of a program's way."""
        self._stem = stem
        self._high = high
        self._taken: list[tuple[int, str]] = []

    def enter(self, crashes: Callable[[bool], int], seconds: float) -> bool:
        """Wait for a place, no longer than that [s]; return False if so many crashed meanwhile that there is none.

        *crashes* tells how many are known to have crashed; given True, it looks.
        """
        pause, longest = _POLL_SECONDS
        deadline = time.monotonic() + seconds
        with suppressed(OSError, ValueError):
            while not os.path.lexists(self._stem + _WELL) and time.monotonic() < deadline:
                entered = self._try(crashes)
                if entered is not None:
                    return entered
                time.sleep(pause)
                pause = min(pause * 1.5, longest)
        return True

    def leave(self, *, well: bool) -> None:
        """Give the place back: through with it, or (in a forked child) without a word. Never raises."""
        taken, self._taken = self._taken, []
        for fd, path in taken:
            with suppressed(OSError):
                if well:
                    os.rename(path, self._stem + _WELL)
                os.close(fd)

    def remove(self) -> None:
        """The entry is proven: nothing of this is needed any more."""
        for suffix in (*_PLACES, _WELL):
            with suppressed(OSError):
                os.unlink(self._stem + suffix)

    def _try(self, crashes: Callable[[bool], int]) -> bool | None:
        """Whether there is a place, and will be any; None if nobody knows yet. Raises OSError, ValueError."""
        taken: list[tuple[int, str]] = []
        busy = known = 0
        try:
            for suffix in _PLACES:
                path = self._stem + suffix
                fd = self._high(os.open(path, _FLAGS, 0o600))
                taken.append((fd, path))
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    busy += _is_busy(fd)
                    os.close(taken.pop()[0])
                    continue
                known = crashes(os.fstat(fd).st_size > 0)
                if not known:
                    break
            if known >= quarantine.CRASHES:
                return False
            # Where one crashed there may be one more, and nobody beside it.
            if busy + known >= quarantine.CRASHES:
                return None
            self._taken, taken = taken, []
            for fd, _path in self._taken:
                os.pwrite(fd, b"%d %.3f" % (os.getpid(), time.process_time()), 0)
            return True
        finally:
            for fd, _path in taken:
                os.close(fd)


def _is_busy(fd: int) -> bool:
    """Whether whoever holds a place may still crash at once. Raises OSError, ValueError."""
    pid, _, before = os.pread(fd, 64, 0).partition(b" ")
    # Where that says nothing, or is of somebody who is gone, the place was taken just now.
    worked = effort.processor_time(int(pid), children=False) if before else None
    return worked is None or worked - float(before) < WORKED_SECONDS
