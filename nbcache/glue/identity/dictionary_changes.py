"""Which of many dictionaries were changed since somebody asked last; to ask costs next to nothing.

CPython tells whoever wants to know that one was (`PyDict_Watch`, public since 3.12), and then all are compared with
what they held. What it calls for each change is made of functions in C alone, a counter behind `next`: code in Python
could let another thread run in the middle of the change. Until 3.11 each dictionary has a number that every change
makes higher than all numbers before (PEP 509), and all of them are read in one pass. Where neither works, all are
compared whenever somebody asks.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import itertools
import sys
from bisect import bisect_right
from operator import is_not, ne
from typing import Any

import numpy as np


def dictionary_behind(proxy: Any) -> dict[Any, Any] | None:
    """The dictionary that a read-only proxy shows, such as ``vars(cls)``; None where that can't be found out."""
    found = gc.get_referents(proxy)
    return found[0] if len(found) == 1 and isinstance(found[0], dict) else None


class Mutations:
    """Watches dictionaries, and keeps them alive."""

    def __init__(self) -> None:
        self._way = _best_way()

    def watch(self, dictionaries: list[dict[Any, Any]]) -> None:
        """Tell of changes of these as well, from now on; they are numbered in the order in which they come."""
        self._way.watch(dictionaries)

    def asked(self) -> Asked:
        """For somebody who is going to ask, and hasn't yet."""
        return Asked(self._way)


class Asked:
    """What somebody who asks was told last."""

    def __init__(self, way: _Members | _Numbers) -> None:
        self._way: Any = way
        self._last: Any = None

    def changed(self) -> list[int]:
        """The numbers of the dictionaries that were changed since this was asked last, or since they are watched.

        Where Python doesn't number changes, what was changed back is unchanged, and so is a value with another name.
        """
        found, self._last = self._way.since(self._last)
        return found


class _Held:
    """What dictionaries held."""  # no record: whoever only imports Numba loads no other module of nbcache for this

    __slots__ = ("changes", "sizes", "values")

    def __init__(self, changes: object, sizes: list[int], values: list[object]) -> None:
        self.changes = changes
        """How many changes there had been in all; None where nobody counts."""
        self.sizes = sizes
        self.values = values


class _Members:
    """By comparing what they hold; where somebody counts changes, only when there were any."""

    def __init__(self, counter: _Watcher | None) -> None:
        self._counter = counter
        self._tables: list[dict[Any, Any]] = []
        self._first = _Held(None, [], [])
        """What each held when it was new here."""

    def watch(self, tables: list[dict[Any, Any]]) -> None:
        if self._counter is not None and not self._counter.watch(tables):
            self._counter = None
        self._tables += tables
        sizes, values = [*self._first.sizes, *map(len, tables)], self._first.values + _values(tables)
        # What changed before in others isn't forgotten. This is the last step: another thread may ask meanwhile.
        self._first = _Held(self._first.changes if self._first.sizes else self._changes(), sizes, values)

    def since(self, last: _Held | None) -> tuple[list[int], _Held]:
        first = self._first
        then, changes, known = last or first, self._changes(), len(first.sizes)
        if len(then.sizes) < known:
            fresh = len(then.sizes)
            values = then.values + first.values[sum(first.sizes[:fresh]) :]
            then = _Held(None, then.sizes + first.sizes[fresh:], values)
        if changes is not None and changes == then.changes:
            return [], then
        tables = self._tables[:known]
        return _compared(then, _Held(changes, [*map(len, tables)], _values(tables)))

    def _changes(self) -> object:
        return None if self._counter is None else self._counter.state()


def _compared(then: _Held, now: _Held) -> tuple[list[int], _Held]:
    changed = [*itertools.compress(itertools.count(), map(ne, now.sizes, then.sizes))]
    sizes, before, values = now.sizes, then.values, now.values
    if changed:  # what is left out has no values on either side
        sizes, before, values = [*sizes], [*before], [*values]
        was, has = [*itertools.accumulate(then.sizes)], [*itertools.accumulate(now.sizes)]
        for at in reversed(changed):
            del before[was[at] - then.sizes[at] : was[at]], values[has[at] - now.sizes[at] : has[at]]
            sizes[at] = 0
    ends = [*itertools.accumulate(sizes)]
    others = {bisect_right(ends, at) for at in itertools.compress(itertools.count(), map(is_not, values, before))}
    return sorted(others.union(changed)), now


def _values(tables: list[dict[Any, Any]]) -> list[object]:
    return [*itertools.chain.from_iterable(map(dict.values, tables))]


class _Watcher:
    """By one of CPython's watchers, of which an interpreter has eight: this takes it until the process ends."""

    def __init__(self) -> None:
        """Raises AttributeError where there are none, RuntimeError where none is left."""
        self._counter = itertools.count(1)
        self._asked = 0
        self._is_over = False
        # Not `CFUNCTYPE`, which would give the interpreter's lock away.
        self._callback = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int)(functools.partial(next, self._counter))
        self._watch = ctypes.pythonapi["PyDict_Watch"]
        self._watch.argtypes = [ctypes.c_int, ctypes.py_object]
        self._number = ctypes.pythonapi["PyDict_AddWatcher"](self._callback)
        # Modules are emptied at the end, when nothing can be called any more.
        atexit.register(self._end)

    def watch(self, dictionaries: list[dict[Any, Any]]) -> bool:
        return not any(map(self._watch, itertools.repeat(self._number), dictionaries))

    def state(self) -> object:
        """How many changes there were; None when nobody counts any more."""
        self._asked += 1  # which is counted as well
        changes = next(self._counter) - self._asked
        return None if self._is_over else changes

    def _end(self) -> None:
        self._is_over = True
        ctypes.pythonapi["PyDict_ClearWatcher"](self._number)


_WORD = 8  # [bytes]
_NUMBER = 3 - 1
"""Where from the address of a dictionary its number is [words], in memory as `_Numbers` reads it."""


class _Numbers:
    """By the numbers of changes, which CPython 3.10 and 3.11 keep in each dictionary."""

    def __init__(self) -> None:
        # All that a process can address, from its second word on (an array can't be at 0). Nothing is touched but what
        # is asked for.
        words = memoryview((ctypes.c_uint64 * (1 << 44)).from_address(_WORD))
        self._memory = np.frombuffer(words, np.int64)
        self._tables: list[dict[Any, Any]] = []  # while they live, nothing else has their addresses
        self._places = np.empty(0, np.int64)
        self._first = b""
        """Their numbers when they were new here."""

    def watch(self, tables: list[dict[Any, Any]]) -> None:
        self._tables += tables
        places = np.array([*map(id, tables)], np.int64) // _WORD + _NUMBER
        self._first += self._memory.take(places, mode="wrap").tobytes()
        self._places = np.append(self._places, places)  # the last step: another thread may ask meanwhile

    def since(self, last: bytes | None) -> tuple[list[int], bytes]:
        now = self._memory.take(self._places, mode="wrap").tobytes()  # all are within
        if now == last:
            return [], now
        then = last or b""
        if len(then) < len(now):
            then += self._first[len(then) : len(now)]
        changed = np.frombuffer(now, np.int64) != np.frombuffer(then, np.int64)
        return np.flatnonzero(changed).tolist(), now


def _best_way() -> _Members | _Numbers:
    return _new_way() if _is_reliable() else _Members(None)


def _new_way() -> _Members | _Numbers:
    return _Members(_watcher()) if sys.version_info >= (3, 12) else _Numbers()


@functools.cache
def _watcher() -> _Watcher:
    return _Watcher()


@functools.cache
def _is_reliable() -> bool:
    """Whether this Python tells of each change, tried out."""
    if sys.implementation.name != "cpython" or sys.maxsize.bit_length() != 63 or hasattr(sys, "gettotalrefcount"):
        return False
    try:
        cls, plain = type("Example", (), {"a": 1}), {"a": 1}
        way, members = _new_way(), dictionary_behind(vars(cls))
        if members is None:
            return False
        way.watch([members, plain])
        asked, told = Asked(way), []
        for change in (lambda: setattr(cls, "a", 2), lambda: plain.update(b=1), lambda: plain.pop("b")):
            told.append(asked.changed())
            change()
            told.append(asked.changed())
    except Exception as raised:  # noqa: BLE001  whatever it is, such as memory that may not be executed
        from nbcache.passing_exceptions import let_pass  # not whenever Numba is imported

        let_pass(raised)
        return False
    return told == [[], [0], [], [1], [], [1]]
