"""The grammar of a type's fields: what JSON may stand there, and what it becomes."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NoReturn

MAX_DEPTH: Final = 32
"""How deep types may be nested."""
MAX_NODES: Final = 10_000
"""How many values an encoded type may consist of; 32 characters of a text count as one."""
MAX_NAME: Final = 2**17
"""How many characters Numba's name for a type may have; some hold the name of a part twice, so nesting doubles them."""
_CHARACTERS_PER_NODE: Final = 32
_SHOWN: Final = 60
_LINE: Final = 200

Resolve = Callable[[str, str], object]
"""From a module and a qualified name to the object; raises what the caller's check of trust raises."""


class Unencodable(Exception):  # noqa: N818  a verdict, not a malfunction
    """The type can't be written down; ``str()`` is one line that says which class and why."""


class Undecodable(Exception):  # noqa: N818  a verdict, not a malfunction
    """The value is no encoded type of this process; ``str()`` is one line that says what is wrong in it."""


# -- fields --------------------------------------------------------------------------------------


class Misfit(Exception):  # noqa: N818  a verdict, not a malfunction
    """What doesn't fit, said of the field it stands in: "is a text, not a boolean"."""


class Work:
    """One call of `encode` or `decode`: which of them, what is left of its bounds, and where names lead."""

    __slots__ = ("depth", "nodes", "reads", "resolve")

    def __init__(self, resolve: Resolve, *, reads: bool) -> None:
        self.depth = 0
        self.nodes = MAX_NODES
        self.reads = reads
        self.resolve = resolve

    def spend(self, nodes: int) -> None:
        """Count what is about to be looked at."""
        self.nodes -= nodes
        if self.nodes < 0:
            raise Misfit(f"is too large (more than {MAX_NODES} values)")

    def enter(self) -> None:
        """Count one level of nesting."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Misfit(f"is nested too deep (more than {MAX_DEPTH} levels)")

    def leave(self) -> None:
        """Come back from a level."""
        self.depth -= 1


Kind = Callable[[Any, Work], Any]
"""What a field may hold: where the work reads, from what JSON has to what a type has, and else the way back.

Both ways spend the same, and raise Misfit on what isn't of the kind.
"""


def _plain(words: str, fits: Callable[[Any], bool]) -> Kind:
    """What JSON has as such. ``fits`` looks at the exact type: ``True`` is no number."""

    def take(value: Any, work: Work) -> Any:
        if not fits(value):
            raise Misfit(f"is {seen(value)}, not {words}")
        if type(value) is str:
            work.spend(len(value) // _CHARACTERS_PER_NODE)
        return value

    return take


def _number(first: int, last: int) -> Kind:
    return _plain(f"a whole number from {first} to {last}", lambda value: type(value) is int and first <= value <= last)


def maybe(kind: Kind) -> Kind:
    """The kind, or None."""
    return lambda value, work: None if value is None else kind(value, work)


def many(kind: Kind) -> Kind:
    """A tuple of any length."""

    def take(value: Any, work: Work) -> Any:
        if work.reads and type(value) is not list:
            raise Misfit(f"is {seen(value)}, not a list")
        work.spend(len(value))
        taken = [kind(item, work) for item in value]
        return tuple(taken) if work.reads else taken

    return take


def row(*kinds: Kind) -> Kind:
    """A tuple with a kind for each place."""

    def take(value: Any, work: Work) -> Any:
        if work.reads and (type(value) is not list or len(value) != len(kinds)):
            raise Misfit(f"has {seen(value)} where a list of {len(kinds)} belongs")
        work.spend(len(kinds))
        taken = [kind(item, work) for kind, item in zip(kinds, value, strict=True)]
        return tuple(taken) if work.reads else taken

    return take


def reference(words: str, fits: Callable[[Any], bool], home: Callable[[Any], Any] = lambda obj: obj) -> Kind:
    """An object by the name under which other processes find it.

    ``fits``: whether an object is what the field is about; ``home``: from there to what has its ``__module__`` and
    ``__qualname__``.
    """

    def check(obj: object, name: str) -> None:
        with suppress(Exception):  # objects answer questions about themselves as they like
            if fits(obj):
                return
        raise Misfit(f"must be {words}, which {name} isn't")

    def take(value: Any, work: Work) -> Any:
        if work.reads:
            found = work.resolve(*_split(TEXT(value, work)))
            check(found, seen(value))
            return found
        check(value, "what it holds")
        name = TEXT(f"{home(value).__module__}:{home(value).__qualname__}", work)
        module, qualname = _split(name)
        # What wasn't imported by its name (__main__, what exec made) isn't found by it elsewhere.
        if getattr(getattr(sys.modules.get(module), "__spec__", None), "name", None) != module:
            raise Misfit(f"is {name}, in a module that other processes can't import by that name")
        if work.resolve(module, qualname) is not value:
            raise Misfit(f"isn't what {name} leads to")
        return name

    return take


def _split(name: str) -> tuple[str, str]:
    module, colon, qualname = name.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), *qualname.split("."))):
        raise Misfit(f"is {seen(name)}, which isn't of the form module:qualname")
    return module, qualname


BOOLEAN = _plain("a boolean", lambda value: type(value) is bool)
TEXT = _plain("a text", lambda value: type(value) is str)
INTEGER = _number(-(2**63), 2**64 - 1)
COUNT = _number(0, MAX_NODES)
SIZE = _number(0, 2**31 - 1)  # the most NumPy has for one item


def are_same(one: Any, other: Any) -> bool:
    """Whether two fields hold the same: types and references are one object, constants have one type and value."""
    if one is other:
        return True
    if type(one) is tuple is type(other):
        return len(one) == len(other) and all(map(are_same, one, other))
    return type(one) in (int, str) and type(one) is type(other) and one == other


# -- words ---------------------------------------------------------------------------------------


def refuse(cls: type, why: str = "") -> NoReturn:
    """Raise Unencodable for a type of this class."""
    name = f"{cls.__module__}.{cls.__qualname__}"
    raise Unencodable(f"a type of class {name} can't be written down{why and ': '}{why}") from None


def seen(value: object) -> str:
    """A value in words, whatever and however large it is."""
    if type(value) is str:
        return repr(value if len(value) <= _SHOWN else value[:_SHOWN] + "...")
    if type(value) is list:
        return f"a list of {len(value)}"
    if value is None:
        return "null"
    return f"of class {type(value).__name__}"


def in_one_line(error: Exception) -> str:
    """Return what an exception says, in its first line."""
    return traceback.format_exception_only(type(error), error)[-1].splitlines()[0][:_LINE]
