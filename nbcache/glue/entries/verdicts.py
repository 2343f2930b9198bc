"""Why a compile result can be no entry, or an entry is of no use here."""

from __future__ import annotations


class Unstorable(Exception):  # noqa: N818  a verdict, not a malfunction
    """A compile result that can't be an entry; ``str()`` is the reason.

    ``linkable``: its code may still go into the entries of its callers.
    """

    def __init__(self, reason: str, *, linkable: bool = False) -> None:
        super().__init__(reason)
        self.linkable = linkable


class Unloadable(Exception):  # noqa: N818  a verdict, not a malfunction
    """An entry that can't be used in this process; ``str()`` is the reason."""


class InUse(Unloadable):
    """An entry that this process uses already, for a twin of the function: one more variant is needed."""
