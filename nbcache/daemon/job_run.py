"""One job, as the daemon sees it: what was asked for, what it said, how it ended."""

from __future__ import annotations

import logging
import os
import re
import signal
import time
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from nbcache.daemon import linux_calls
from nbcache.daemon.channel import Channel
from nbcache.daemon.publisher import Ticket
from nbcache.errors import NbcacheError
from nbcache.one_line import log, one_line

MAX_SAID: Final = 16 << 10
"""How much of a job's standard error goes to the log [bytes]."""
_LEVELS: Final = {"DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40, "CRITICAL": 50}
_LEVEL: Final = re.compile(f"({'|'.join(_LEVELS)}) (.*)", re.DOTALL)
NEVER: Final = float("inf")


class CrashError(NbcacheError):
    """A job's process ended without a result: killed, overdue, out of memory. To try again may help."""


class InterpreterError(CrashError):
    """The interpreter that was to run a job doesn't start, or ended; the job needn't be to blame."""


class FarmError(CrashError):
    """The farm that was to run a job is out of reach. The job isn't to blame, and can run elsewhere."""


class JobError(NbcacheError):
    """A job raised. Its text is what."""


@dataclass(slots=True)
class Call:
    """What is to be run, and for whom."""

    number: int
    future: Future[Any]
    order: bytes
    ticket: Ticket
    what: str
    starts: int = 0
    """How many interpreters hung that were to begin it."""


class Errors:
    """What a process writes to its standard error, line by line in the daemon's log, up to a limit."""

    def __init__(self, who: str, fd: int) -> None:
        """Read from the pipe *fd*, which is closed at the end."""
        self.fd = fd
        self._who = who
        self._left = MAX_SAID
        self._rest = b""
        self.last = ""

    @classmethod
    def piped(cls, who: str) -> tuple[Errors, int]:
        """Return what reads from a new pipe, and the other end of that."""
        reading, writing = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(reading, False)
        return cls(who, reading), writing

    def read(self) -> bool:
        """Log what can be read now; return whether there may be more."""
        try:
            part = os.read(self.fd, 1 << 16)
        except BlockingIOError:
            return True
        except OSError:
            part = b""
        taken = part[: self._left]
        self._left -= len(taken)
        *lines, self._rest = (self._rest + taken).split(b"\n")
        if not part or not self._left:
            lines, self._rest = [*lines, self._rest], b""
        for line in filter(None, lines):
            text = line.decode("utf-8", "backslashreplace")
            level = _LEVEL.fullmatch(text)
            self.last = one_line(level[2] if level else text)
            log.log(_LEVELS[level[1]] if level else logging.INFO, "%s says: %s", self._who, self.last)
        return bool(part)


class Running:
    """One job."""

    def __init__(self, call: Call, seconds: float) -> None:
        """Begin to count its time."""
        self.call = call
        self.sent = time.monotonic()
        self.seconds = seconds
        self.deadline = self.sent + seconds
        self.begun = False
        self.pid = 0
        """Of its first process; 0 while that isn't known, or when it was gone before it could be."""
        self.pidfd = -1
        self.channel: Channel | None = None
        self.errors: Errors | None = None
        self.said: dict[str, Any] | None = None
        self.said_at = NEVER
        self.status: int | None = None
        self.silent_at = NEVER
        """When its channel was closed."""
        self.killed_at = NEVER
        self.stuck = False
        self.messages = 0
        self.gone = False

    def settle(self, error: Exception | None = None, result: object = None) -> None:
        """Answer whoever waits for it, once."""
        with suppress(Exception):  # another thread may have cancelled it
            if self.call.future.done():
                return
            if error is not None:
                self.call.future.set_exception(error)
            else:
                self.call.future.set_result(result)

    def kill(self) -> bool:
        """Kill its first process, and with it all others where it has a PID namespace; return whether it is known."""
        self.killed_at = min(self.killed_at, time.monotonic())
        if self.gone:
            return True
        with suppress(OSError):
            if self.pidfd >= 0:
                linux_calls.pidfd_kill(self.pidfd)
            elif self.pid:
                os.kill(self.pid, signal.SIGKILL)
        return bool(self.pid)


def ending(status: int) -> str:
    """Say how a process ended, by its wait status."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        # Signals for real time have no names.
        name = (
            signal.Signals(number).name
            if number in signal.valid_signals() and number < signal.SIGRTMIN
            else f"signal {number}"
        )
        return f"it was killed by {name}"
    code = os.WEXITSTATUS(status)
    return f"it ended with status {code} and said nothing"
