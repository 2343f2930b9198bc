"""The grammar of JSON that others wrote: readers, each of which returns what it was given in the form that is wanted.

A reader raises :class:`Malformed` for all else; where that was found is added on the way out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

Reader = Callable[[Any], Any]


class Malformed(ValueError):  # noqa: N818  it says what something is
    """Something isn't what it should be; the text says where, and what is wanted, on one line."""

    def __init__(self, wanted: str, value: object) -> None:
        """Take what is wanted in the place of *value*."""
        self.wanted = wanted
        self.place = ""
        try:
            self.shown = f"{value!r:.60}"
        except RecursionError:
            self.shown = "something nested too deeply"

    def inside(self, place: str | int) -> Malformed:
        """Say that it was found in an item or a member of something."""
        dot = "" if self.place[:1] in {"", "["} else "."
        self.place = f"{f'[{place}]' if isinstance(place, int) else place}{dot}{self.place}"
        return self

    def __str__(self) -> str:
        """Return the text."""
        return f"{self.place} must be {self.wanted}, not {self.shown}"


def exactly(kind: type, words: str) -> Reader:
    """Return a reader of what is of a type and of none derived from it."""

    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise Malformed(words, value)
        return value

    return read


text: Final = exactly(str, "text")
flag: Final = exactly(bool, "true or false")
whole: Final = exactly(int, "a whole number")


def natural(value: Any) -> int:
    """Read a whole number of at least 0."""
    if type(value) is not int or value < 0:
        raise Malformed("a whole number of at least 0", value)
    return value


def up_to(most: int) -> Reader:
    """Return a reader of a whole number from 0 to *most*."""

    def read(value: Any) -> int:
        found: int = natural(value)
        if found > most:
            raise Malformed(f"at most {most}", value)
        return found

    return read


def number(value: Any) -> float:
    """Read a number that is finite."""
    try:
        if type(value) in {int, float} and math.isfinite(value):
            return float(value)
    except OverflowError:
        pass
    raise Malformed("a number", value)


def choice(*words: str) -> Reader:
    """Return a reader of one of these words."""

    def read(value: Any) -> Any:
        if not isinstance(value, str) or value not in words:
            raise Malformed(f"one of {', '.join(words)}", value)
        return value

    return read


def hexadecimal(digits: int) -> Reader:
    """Return a reader of so many lowercase hexadecimal digits."""

    def read(value: Any) -> Any:
        if not isinstance(value, str) or len(value) != digits or value.strip("0123456789abcdef"):
            raise Malformed(f"{digits} hexadecimal digits", value)
        return value

    return read


def maybe(reader: Reader) -> Reader:
    """Return a reader that takes null as well."""
    return lambda value: None if value is None else reader(value)


def several(reader: Reader, count: int | None = None, most: float = math.inf) -> Reader:
    """Return a reader of a list, as a tuple: of so many items, or of that many at most."""

    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) != (len(value) if count is None else count) or len(value) > most:
            raise Malformed("a list" if count is None else f"a list of {count}", value)
        if reader is text and set(map(type, value)) <= {str}:
            return tuple(value)
        found: list[Any] = []
        try:
            for each in value:
                found.append(reader(each))  # noqa: PERF401  how far it got is told
        except Malformed as error:
            raise error.inside(len(found)) from None
        return tuple(found)

    return read


def row(*readers: Reader) -> Reader:
    """Return a reader of a list with one item for each of these, as a tuple."""

    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) != len(readers):
            raise Malformed(f"a list of {len(readers)}", value)
        return tuple([reader(each) for reader, each in zip(readers, value, strict=True)])

    return read


def mapping(reader: Reader, most: float = math.inf, names: Reader = text) -> Reader:
    """Return a reader of a mapping with any names."""

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or len(value) > most:
            raise Malformed("a mapping", value)
        found, name = dict(zip(map(names, value), value.values(), strict=True)), ""
        try:
            for name, each in found.items():
                found[name] = reader(each)
        except Malformed as error:
            raise error.inside(name) from None
        return found

    return read


def member(value: Mapping[str, Any], name: str, reader: Reader) -> Any:
    """Read a member of a mapping."""
    try:
        return reader(value[name])
    except Malformed as error:
        raise error.inside(name) from None


def fields(readers: Mapping[str, Reader], *, others: bool = False) -> Reader:
    """Return a reader of a mapping that has these members, and only where *others* are ignored any more."""

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or (value.keys() != readers.keys() and not others):
            raise Malformed(f"a mapping of {', '.join(readers)}", value)
        for name in readers if others else ():
            if name not in value:
                raise Malformed("there", None).inside(name)
        found, name = {}, ""
        try:
            for name, reader in readers.items():
                found[name] = reader(value[name])
        except Malformed as error:
            raise error.inside(name) from None
        return found

    return read


def document(kind: str, version: int, reader: Reader) -> Reader:
    """Return a reader of a mapping that says that it is such a thing, of this version; *reader* reads the rest."""

    def read(value: Any) -> Any:
        if not isinstance(value, dict) or (value.get("nbcache"), value.get("version")) != (kind, version):
            raise Malformed(f"a {kind} of version {version}", value)
        return reader(value)

    return read


def record(make: Any, *, others: bool = False, **given: Reader) -> Reader:
    """Return a reader of a record (or dataclass), by the types of its fields where no other reader is given."""
    readers = {name: given.get(name) or _BY_TYPE[kind] for name, kind in make.__annotations__.items()}
    read = fields(readers, others=others)
    return lambda value: make(*read(value).values())


_BY_TYPE: Final[Mapping[str, Reader]] = {
    "str": text,
    "int": natural,
    "bool": flag,
    "float": number,
    "str | None": maybe(text),
    "tuple[str, ...]": several(text),
}
