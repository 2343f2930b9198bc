"""Whether what was read for an identity, often hundreds of objects, is what it was: asked before each hit."""

from __future__ import annotations

import ctypes
from operator import attrgetter, is_, itemgetter
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

from nbcache.passing_exceptions import let_pass

if TYPE_CHECKING:
    from collections.abc import Callable, KeysView, Sequence

MISSING = object()
"""In the place of what isn't there."""
_FEW = 50
"""So many objects are compared one by one as fast as in one go."""


class Readings:
    """What was read to know what something consists of, each with what was seen there, and what else it came by."""

    __slots__ = ("absent", "attributes", "checks", "ends", "handed_on", "items", "parallel", "sizes", "snapshots",
                 "strings", "volatile")  # fmt: skip

    items: list[tuple[dict[str, Any] | MappingProxyType[str, Any], str, object]]
    absent: list[tuple[dict[str, Any], frozenset[str]]]
    """Names that weren't in a module: code that modules are handed to may name thousands."""
    attributes: list[tuple[object, str, object]]
    checks: list[tuple[Callable[[Any], bytes], object, bytes]]
    snapshots: list[tuple[Callable[[Any], list[object]], object, list[object]]]
    sizes: list[tuple[Any, int]]
    volatile: bool
    """Whether nothing tells that it changed."""
    ends: bool
    """Whether a walk ends here at code that could run."""
    parallel: bool
    """Whether its loops may be compiled to run in parallel."""
    handed_on: list[tuple[ModuleType, bool]]
    """Modules that other code gets from here, and may read anything off; and whether that code is compiled."""
    strings: list[str]
    """More names that code here may read off a module that it was handed: ``getattr`` may be called with them."""

    def add(self, other: Readings) -> None:
        """Add all that was read for an *other* one, which is described as part of this."""
        for name in LISTS:
            getattr(self, name).extend(getattr(other, name))
        self.volatile |= other.volatile
        self.ends |= other.ends
        self.parallel |= other.parallel


LISTS = ("absent", "attributes", "checks", "handed_on", "items", "sizes", "snapshots", "strings")
"""Those of them that are lists."""


class _Seen:
    """Values that were seen, to be compared with others by what they are and not by what they equal."""

    __slots__ = ("_addresses", "_values")

    def __init__(self, values: list[object]) -> None:
        self._values = tuple(values)  # while they live, nothing else has their addresses
        self._addresses = _addresses_in(self._values) if len(self._values) > _FEW else b""

    def are(self, values: tuple[object, ...]) -> bool:
        """Whether *values* are these very objects, in this order."""
        if self._addresses:
            return _addresses_in(values) == self._addresses
        return all(map(is_, values, self._values))


def _addresses_in(values: tuple[object, ...]) -> bytes:
    """The memory in which a tuple has its items: comparing that takes a tenth of what asking for each takes."""
    # Not `ctypes.string_at`, of which Python tells audit hooks, and those of programs may refuse it.
    return (ctypes.c_char * (len(values) * tuple.__itemsize__)).from_address(id(values) + tuple.__basicsize__).raw


class Watched:
    """All that several of these are, sorted so that comparing is left to C.

    One attribute or item of many owners is read by one `map`, and many of one owner by one call; reading each on its
    own takes four times as long. ``same``: (reader of one owner, owners, values seen). ``rows``: (reader of several
    attributes or items, owner, values seen).
    """

    __slots__ = ("absent", "checks", "odd", "rows", "same", "sized", "sizes", "snapshots", "volatile")

    def __init__(self, readings: Sequence[Readings]) -> None:
        self.volatile = any(each.volatile for each in readings)
        # What many read is looked at once.
        checks = [item for each in readings for item in each.checks]
        self.checks = list({(item[0], id(item[1]), item[2]): item for item in checks}.values())
        sizes = [item for each in readings for item in each.sizes]
        self.sized = [sized for sized, _size in sizes]
        self.sizes = [size for _sized, size in sizes]
        self.snapshots = [item for each in readings for item in each.snapshots]
        self.odd: list[tuple[Callable[..., object], object, str, object]] = []
        """Attributes that weren't there, and what is in a dictionary of a class of its own."""
        self.absent: list[tuple[KeysView[Any], frozenset[str]]]
        """Names that weren't in a dictionary, by its keys."""
        self.same: list[tuple[Callable[[Any], object], list[Any], _Seen]] = []
        self.rows: list[tuple[Callable[[Any], Any], Any, _Seen]] = []
        self._sort_attributes([item for each in readings for item in each.attributes])
        absent = self._sort_items([item for each in readings for item in each.items])
        self._sort_absent([*absent, *(item for each in readings for item in each.absent)])

    def _sort_attributes(self, watched: list[tuple[object, str, object]]) -> None:
        self.odd += [(getattr, owner, name, value) for owner, name, value in watched if value is MISSING]
        self._sort(attrgetter, [item for item in watched if item[2] is not MISSING])

    def _sort_items(self, watched: list[tuple[Any, str, object]]) -> list[tuple[Any, frozenset[str]]]:
        """Sort those that were there; return the others."""
        plain: list[tuple[Any, str, object]] = []
        absent: list[tuple[Any, frozenset[str]]] = []
        for item in watched:
            container, name, value = item
            if type(container) not in _PLAIN:
                self.odd.append((dict.get, container, name, value))
            elif value is MISSING:
                absent.append((container, frozenset((name,))))
            else:
                plain.append(item)
        self._sort(itemgetter, plain)
        return absent

    def _sort_absent(self, watched: list[tuple[Any, frozenset[str]]]) -> None:
        absent: dict[int, tuple[KeysView[Any], set[str]]] = {}
        for container, names in watched:
            absent.setdefault(_number_of(container), (container.keys(), set()))[1].update(names)
        self.absent = [(keys, frozenset(names)) for keys, names in absent.values()]

    def _sort(self, reader: Callable[..., Any], watched: list[tuple[Any, str, object]]) -> None:
        """Each by its owner or by its name, whichever makes the longer run of reads."""
        tables: dict[int, list[tuple[Any, str, object]]] = {}
        owners: dict[str, int] = {}
        for item in watched:
            tables.setdefault(_number_of(item[0]), []).append(item)
            owners[item[1]] = owners.get(item[1], 0) + 1
        groups: dict[str, list[tuple[Any, object]]] = {}
        for table in tables.values():
            row, rest = [item for item in table if len(table) > owners[item[1]]], table
            if len(row) > 1:  # of a single name, itemgetter returns no tuple
                read = reader(*[name for _owner, name, _value in row])
                self.rows.append((read, row[0][0], _Seen([value for _owner, _name, value in row])))
                rest = [item for item in table if len(table) <= owners[item[1]]]
            for owner, name, value in rest:
                groups.setdefault(name, []).append((owner, value))
        for name, pairs in groups.items():
            seen = _Seen([value for _owner, value in pairs])
            self.same.append((reader(name), [owner for owner, _value in pairs], seen))

    def unchanged(self) -> bool:
        """Whether all of it is what it was; what can't be read any more isn't."""
        try:
            return (
                not self.volatile
                and all(seen.are(tuple(map(read, owners))) for read, owners, seen in self.same)
                and all(seen.are(read(owner)) for read, owner, seen in self.rows)
                and list(map(len, self.sized)) == self.sizes
                and all(keys.isdisjoint(names) for keys, names in self.absent)
                and all(get(owner, name, MISSING) is seen for get, owner, name, seen in self.odd)
                and all(function(obj) == expected for function, obj, expected in self.checks)
                and all(are_same(take(obj), expected) for take, obj, expected in self.snapshots)
            )
        except Exception as raised:  # noqa: BLE001  e.g. an emptied closure cell: then it did change
            let_pass(raised)
            return False


_PLAIN = frozenset({dict, MappingProxyType})
_number_of = object.__hash__
"""Another number for each object. Of `id` Python tells audit hooks, such as ours, a million times in a large graph."""


def are_same(now: list[object], before: list[object]) -> bool:
    """Whether two lists hold the very same objects."""
    return len(now) == len(before) and all(map(is_, now, before))
