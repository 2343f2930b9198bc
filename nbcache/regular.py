"""Opening files that settings name: opening must never wait, and what isn't a regular file is refused.

To open a FIFO waits until somebody opens its other end, which may be never; a device or a terminal may do as it likes.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_to_append(path: str, mode: int) -> int:
    """Open a regular file to append to, making it if it doesn't exist; return the descriptor. Raises OSError."""
    try:
        fd = os.open(path, _APPEND, mode)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a FIFO that nobody reads from
            raise _refusal(path) from error
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _refusal(path)
    return fd


def open_to_read(path: str) -> int:
    """Open a regular file to read it; return the descriptor. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _refusal(path)
    return fd


def _refusal(path: str) -> OSError:
    return OSError(errno.EINVAL, "it is not a regular file", path)
