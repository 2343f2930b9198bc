"""The directory below which jobs write, in the one for temporary files.

It is locked as long as its daemon lives, so the next one can tell what a daemon left that was killed, and removes it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from typing import Final

from nbcache.process import closing

_PREFIX: Final = "nbcache-jobs-"
_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_YOUNG_SECONDS: Final = 60.0
"""Somebody may be about to lock one that is younger."""


class Scratch:
    """One of these directories, new and empty; those that nobody has any more are removed first. Raises OSError."""

    def __init__(self, uid: int | None) -> None:
        """Make it for jobs that run as *uid*, if that isn't the daemon's."""
        _sweep({os.geteuid(), uid})
        self.path = tempfile.mkdtemp(prefix=_PREFIX)
        self._lock = os.open(self.path, _FLAGS)
        with suppress(OSError):  # nobody can lock anything there, so nobody sweeps
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.chmod(self.path, 0o755)  # noqa: S103  nothing is in it but what jobs mount there

    def remove(self) -> None:
        """Remove it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _sweep(uids: set[int | None]) -> None:
    """Remove what daemons left that were killed, as far as it belongs to one of these *uids*."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as found:
        for each in found:
            if each.name.startswith(_PREFIX) and each.is_dir(follow_symlinks=False):
                with suppress(OSError):
                    _remove_if_left(each.path, uids)


def _remove_if_left(path: str, uids: set[int | None]) -> None:
    with closing(os.open(path, _FLAGS)) as directory:
        status = os.fstat(directory)
        if status.st_uid in uids and time.time() - status.st_mtime > _YOUNG_SECONDS:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
