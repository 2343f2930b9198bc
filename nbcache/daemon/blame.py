"""What it is due to that something isn't built, which decides whom it is told to, and for how long.

- :data:`FUNCTION`: it crashes the compiler, doesn't compile, takes too long. Whoever asks has the same before them.
- :data:`ENVIRONMENT`: a module isn't found, or the interpreter doesn't start. Who asks from another may fare better.
- :data:`RESOURCES`: no descriptors, processes, memory or space were left. It may be over when the next one asks.
"""

from __future__ import annotations

import errno
import os
from typing import Any, Final

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
    if isinstance(result, list) and len(result) == 2:  # what `nbcache.daemon.jobs.build` returns
        return str(result[0]), str(result[1])
    return FUNCTION, None if result is None else str(result)
