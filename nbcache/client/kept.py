"""Files that stay open while a program runs, whatever it does with descriptors."""

from __future__ import annotations

import errno
import fcntl
import resource
from typing import Final

from nbcache.passing import suppressed
from nbcache.process import os

_HIGH: Final = 500


class KeptFile:
    """A file of ours, open under a number that a program which closes all and opens its own won't have soon.

    It may have that number in the end, for a file of its own: so whether it is still ours is asked before each use.
    """

    def __init__(self, path: str, flags: int, mode: int) -> None:
        """Open it. Raises OSError."""
        fd = os.open(path, flags, mode)
        try:
            status = os.fstat(fd)
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            self._fd = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, min(_HIGH, most - 10))
        finally:
            os.close(fd)
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

    def close(self) -> None:
        """Close it, unless the descriptor is somebody else's by now. Never raises."""
        with suppressed(OSError):
            os.close(self.fd())
