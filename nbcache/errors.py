"""Exceptions of nbcache.

None of these ever reaches user code from a compile: the client turns each of them into a logged miss. They are
raised to callers that asked for something by hand (the commands, :func:`nbcache.enable`) and between the layers.

Every exception can be pickled (the daemon's workers send them home) and carries what it is about as attributes.
"""

from __future__ import annotations

import errno
from typing import Final

PASSING: Final = frozenset(
    {errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN, errno.ETIMEDOUT}
)
"""What system calls answer that says nothing of the file in question: the next attempt may find it as it should be."""


class NbcacheError(Exception):
    """Something in nbcache failed. The base of all others."""


class BadKeyError(NbcacheError, ValueError):
    """A name that isn't 64 lowercase hexadecimal digits was used as a key.

    ``key`` is the offending name, as given.
    """

    def __init__(self, key: object) -> None:
        """Keep the name; the message shows at most 80 characters of it."""
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        """Say what a key looks like."""
        return f"not a key (64 lowercase hexadecimal digits): {self.key!r:.80}"


class EntryError(NbcacheError, ValueError):
    """What was to be written can't be expressed as an entry: too large, or not JSON where JSON is required."""


class StoreRefusedError(NbcacheError):
    """The store can't be used. ``path`` is the directory, ``reason`` one line for a person."""

    def __init__(self, path: str, reason: str) -> None:
        """Keep both parts, so that the exception survives pickling."""
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        """Give the one line."""
        return self.reason


class UnsupportedNumbaError(NbcacheError):
    """This Numba isn't one nbcache was verified on, or a seam doesn't look as expected."""
