"""Exceptions of nbcache.

None of these ever reaches user code from a compile: the client turns each of them into a logged miss. They are
raised to callers that asked for something by hand (the commands, :func:`nbcache.enable`) and between the layers.

Every exception can be pickled (the daemon's workers send them home) and carries what it is about as attributes.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
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


class BadNameError(NbcacheError, ValueError):
    """Something can't be a published name. ``name`` is what was given."""

    def __init__(self, name: object) -> None:
        """Keep the name; the message shows at most 120 characters of it."""
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        """Say what a name looks like."""
        return (
            f"not a name to publish under: {self.name!r:.120} (letters, digits, _ and -, in parts joined by dots, such"
            " as pricing.black_scholes; at most 100 characters; a part begins with a letter, a digit or _)"
        )


class NotPublishedError(NbcacheError, LookupError):
    """Nothing is published under a name.

    ``name`` is what was asked for, ``where`` the store, ``near`` the names there that look like it, the nearest first.
    """

    def __init__(self, name: str, where: str, near: tuple[str, ...] | Callable[[], tuple[str, ...]] = ()) -> None:
        """Keep the parts; those near are looked for when somebody asks for them: most who catch this don't."""
        super().__init__(name, where)
        self.name = name
        self.where = where
        self._near = near

    @property
    def near(self) -> tuple[str, ...]:
        """The names that look like it; none where nobody can look any more."""
        if callable(self._near):
            self._near = self._near()
        return self._near

    def __reduce__(self) -> tuple[type[NotPublishedError], tuple[str, str, tuple[str, ...]]]:
        """Survive pickling."""
        return type(self), (self.name, self.where, self.near)

    def __str__(self) -> str:
        """Say what isn't there, and what is near."""
        hint = f"did you mean {' or '.join(self.near)}?" if self.near else "`nbcache names` lists what is published"
        return f"nothing is published as {self.name} in {self.where}: {hint}"


class PublicationError(NbcacheError):
    """What is published under a name can't be used, or nothing can be published under it.

    ``name`` is the name, ``reason`` one line for a person that says what is wrong and what to do.
    """

    def __init__(self, name: str, reason: str) -> None:
        """Keep both parts, so that the exception survives pickling."""
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        """Give the one line."""
        return f"{self.name}: {self.reason}"


class ManifestError(NbcacheError, ValueError):
    """A manifest is damaged, or of a version that isn't read. The message says what is wrong with it."""


class NotPublishableError(NbcacheError):
    """A function can't be published. ``function`` is its name, ``reason`` one line that says why, and what to do."""

    def __init__(self, function: str, reason: str) -> None:
        """Keep both parts, so that the exception survives pickling."""
        super().__init__(function, reason)
        self.function = function
        self.reason = reason

    def __str__(self) -> str:
        """Say both."""
        return f"{self.function} can't be published: {self.reason}"


class ImageError(NbcacheError):
    """No image of a publication can be made, or one can't be opened. The message is one line that says why."""


class RemoteError(NbcacheError):
    """A remote cache can't be used, or a key for it. The message is one line that says why, and what to do."""


class NoEngineError(NbcacheError):
    """There is no LLVM to load code with. The message says what to do."""
