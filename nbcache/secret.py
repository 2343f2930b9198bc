"""Values that are shown to nobody: addresses with passwords, keys, and where keys lie.

Whoever reads such a setting makes a :class:`Secret` of it at once, together with the function that says what of it may
be shown. From there on it can't be shown by mistake: neither as text nor in the ``repr`` of a record, as JSON or as a
pickle. Who needs the value itself, to connect to a server or to hand it to another process, says so by
:meth:`Secret.reveal` or :func:`revealed`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, NoReturn, TypeVar

MASK: Final = "***"
"""What stands for what isn't shown."""
T = TypeVar("T")


def _nothing(_value: object) -> str:
    return MASK


class Secret(Generic[T]):
    """A value whose text is what *mask* makes of it. Equal to another one with the same value."""

    __slots__ = ("_mask", "_value")

    def __init__(self, value: T, mask: Callable[[T], str] = _nothing) -> None:
        """Keep the value; the mask is made each time that it is shown."""
        self._value = value
        self._mask = mask

    def reveal(self) -> T:
        """Return the value itself."""
        return self._value

    def __str__(self) -> str:
        """Show what may be shown."""
        return self._mask(self._value)

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        """As every text."""
        return format(str(self), spec)

    def __eq__(self, other: object) -> bool:
        """Whether the values are equal; a value alone is no secret, and so not equal to one."""
        return isinstance(other, Secret) and bool(self._value == other._value)

    def __hash__(self) -> int:
        """As what is equal has it."""
        return hash((Secret, self._value))

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        """Refuse to be pickled or copied. Raises TypeError."""
        raise TypeError("a secret is not pickled: what shall travel has to be revealed")


def revealed(value: Any) -> Any:
    """Return a setting as JSON can carry it, with what is secret in it: for another process, and no other purpose."""
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, frozenset):
        return sorted(value)
    return list(map(revealed, value)) if isinstance(value, tuple) else value
