"""Whether any of many dictionaries was changed since somebody asked last; to ask costs next to nothing.

CPython tells whoever wants to know (`PyDict_Watch`, public since 3.12). What it calls for each change is made of
functions in C alone, a counter behind `next`: code in Python could let another thread run in the middle of the change.
Until 3.11 each dictionary has a number that every change makes higher than all numbers before (PEP 509), and all of
them are read in one pass. Where neither works, the answer is always that something may have changed.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import itertools
import sys
from typing import Any

import numpy as np

from nbcache.passing import let_pass


def dictionary_behind(proxy: Any) -> dict[Any, Any] | None:
    """The dictionary that a read-only proxy shows, such as ``vars(cls)``; None where that can't be found out."""
    found = gc.get_referents(proxy)
    return found[0] if len(found) == 1 and isinstance(found[0], dict) else None


class Mutations:
    """Watches dictionaries, which must live as long as it does."""

    def __init__(self) -> None:
        self._signal: _Watcher | _Numbers | None = _new_signal() if _is_reliable() else None
        self._last: object = None

    def watch(self, dictionaries: list[dict[Any, Any]]) -> None:
        """Tell of changes of these as well, from now on; what changed before in others is forgotten."""
        if self._signal is not None:
            if not self._signal.watch(dictionaries):
                self._signal = None
            self.happened()

    def happened(self) -> bool:
        """Whether anything may have changed since this was asked last, or since it was watched."""
        if self._signal is None:
            return True
        before, self._last = self._last, self._signal.state()
        return before != self._last or self._last is None


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
        self._places = np.empty(0, np.int64)

    def watch(self, dictionaries: list[dict[Any, Any]]) -> bool:
        self._places = np.append(self._places, np.array([*map(id, dictionaries)], np.int64) // _WORD + _NUMBER)
        return True

    def state(self) -> object:
        return self._memory.take(self._places, mode="wrap").tobytes()  # all are within


def _new_signal() -> _Watcher | _Numbers:
    return _watcher() if sys.version_info >= (3, 12) else _Numbers()


@functools.cache
def _watcher() -> _Watcher:
    return _Watcher()


@functools.cache
def _is_reliable() -> bool:
    """Whether this Python tells of each change, tried out."""
    if sys.implementation.name != "cpython" or sys.maxsize.bit_length() != 63 or hasattr(sys, "gettotalrefcount"):
        return False
    try:
        signal, cls, plain = _new_signal(), type("Example", (), {"a": 1}), {"a": 1}
        members = dictionary_behind(vars(cls))
        if members is None or not signal.watch([members, plain]):
            return False
        states = [signal.state()]
        for change in (lambda: setattr(cls, "a", 2), lambda: plain.update(b=1), lambda: plain.pop("b")):
            if signal.state() != states[-1]:
                return False
            change()
            states.append(signal.state())
    except Exception as raised:  # noqa: BLE001  whatever it is, such as memory that may not be executed
        let_pass(raised)
        return False
    return len({*states}) == len(states)
