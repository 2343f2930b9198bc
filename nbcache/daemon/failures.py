"""What it is due to that something isn't built, which decides whom it is told to, and for how long; and answers.

- :data:`FUNCTION`: it crashes the compiler, doesn't compile, takes too long. Whoever asks has the same before them.
- :data:`ENVIRONMENT`: a module isn't found, or the interpreter doesn't start. Who asks from another may fare better.
- :data:`RESOURCES`: no descriptors, processes, memory or space were left. It may be over when the next one asks.

A request that is gone from the spool is answered, whatever came of it.
"""

from __future__ import annotations

import errno
import os
import time
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from nbcache.protocol import spool

if TYPE_CHECKING:
    from nbcache.metrics.meter import Meter

FUNCTION: Final = "function"
ENVIRONMENT: Final = "environment"
RESOURCES: Final = "resources"
_SCARCE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EAGAIN})


def of(error: BaseException | None, otherwise: str = FUNCTION) -> str:
    """Say what is to blame for an exception: a lack of resources if one of those that led to it was about that."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, OSError) and error.errno in _SCARCE:
            return RESOURCES
        error = error.__cause__ or error.__context__
    return otherwise


def tells_scarcity(reason: str) -> bool:
    """Whether the words that are left of an error are about a lack of resources.

    An interpreter that can't open its own modules, or a job that can't, leaves no more than its last line.
    """
    return any(os.strerror(number) in reason for number in _SCARCE)


def read(result: Any) -> tuple[str, str | None]:
    """Return what a job's result blames and why it isn't built, None or what is said of it if it is."""
    if isinstance(result, list) and len(result) == 2:  # what `nbcache.daemon.job_functions.build` returns
        return str(result[0]), str(result[1])
    return FUNCTION, None if result is None else str(result)


REMEMBERED: Final = 10_000
"""How many files that can't be removed are known not to be looked at again."""
AGAIN_SECONDS: Final = 1.0
"""How often some of these are answered again: what kept them from being removed may be over [s]."""
AGAIN: Final = 100
"""How many of them in one turn."""


class Answers:
    """Removes requests, and remembers those that can't be removed."""

    def __init__(self, meter: Meter) -> None:
        """Have answered nothing."""
        self._meter = meter
        self._stuck: dict[str, None] = {}
        self._tried_again = 0.0

    def answer(self, path: str) -> None:
        """Let whoever asked go on; a request that can't be removed isn't looked at again."""
        self._meter.answered(path)
        if not spool.answer(path) or os.path.lexists(path):
            self.ignore(path)

    def ignore(self, path: str) -> None:
        """A request that is answered lies there still."""
        self._meter.forgotten(path)
        self._stuck[path] = None
        if len(self._stuck) > REMEMBERED:
            del self._stuck[next(iter(self._stuck))]

    def ignores(self, path: str) -> bool:
        """Whether a request is known to be answered."""
        return path in self._stuck

    def answer_again(self) -> None:
        """Answer some of what couldn't be answered: else whoever asked waits, and the request lies there for ever."""
        now = time.monotonic()
        if now - self._tried_again < AGAIN_SECONDS:
            return
        self._tried_again = now
        for path in list(islice(self._stuck, AGAIN)):
            # The next ones come first then.
            del self._stuck[path]
            self.answer(path)
