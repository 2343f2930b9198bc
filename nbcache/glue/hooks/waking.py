"""Waits until Numba is about to be used: a process that only imports it pays for no more than this module.

Everything that compiles asks for the contexts of the CPU target, after it has made one of the objects below. The
first of these attributes to be read wakes the client, once, before Numba goes on.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

_WATCHED = (
    ("numba.core.dispatcher", "_FunctionCompiler", "__init__"),
    ("numba.np.ufunc.ufuncbuilder", "UFuncDispatcher", "__init__"),
    ("numba.core.bytecode", "FunctionIdentity", "from_function"),
    ("numba.core.registry", "CPUTarget", "typing_context"),
    ("numba.core.registry", "CPUTarget", "target_context"),
)
_SECONDS = 1.0
"""How long a thread waits for another one that wakes the client [s]."""


def sleep(wake: Callable[[], None]) -> bool:
    """Have *wake* called before Numba is used; False if this Numba can't be watched, and nothing was done.

    Numba must be imported.
    """
    try:
        places = [(vars(sys.modules[module])[name], attribute) for module, name, attribute in _WATCHED]
        wires = [(owner, attribute, _Tripwire(vars(owner)[attribute])) for owner, attribute in places]
    except KeyError:
        return False
    alarm = _Alarm(wake, wires)
    for owner, attribute, wire in wires:
        wire.alarm = alarm
        setattr(owner, attribute, wire)
    _sleeping[:] = [alarm]
    return True


def sleep_again() -> None:
    """``numba.cuda`` was imported while the client sleeps: its first use wakes it too.

    Everything that numba-cuda compiles asks its target for a context first, and so does each dispatcher that is made.
    """
    target = getattr(sys.modules.get("numba.cuda.descriptor"), "CUDATarget", None)
    if _sleeping and target is not None and "typing_context" in vars(target):
        alarm = _sleeping[-1]
        wire = _Tripwire(vars(target)["typing_context"])
        wire.alarm = alarm
        alarm.wires.append((target, "typing_context", wire))
        target.typing_context = wire


_sleeping: list[_Alarm] = []
"""The alarm of a client that sleeps."""


class _Alarm:
    """Rings once, and takes the wires away when that is over."""

    def __init__(self, wake: Callable[[], None], wires: list[tuple[Any, str, _Tripwire]]) -> None:
        self._wake = wake
        self.wires = wires
        self._lock = threading.RLock()
        self._rang = self._ringing = False

    def ring(self) -> None:
        # Who can't have the lock goes on without: whoever has it may want a module that this thread is importing, or
        # was lost in a fork.
        if self._lock.acquire(timeout=_SECONDS):
            try:
                if self._ringing:  # further up in this thread
                    return
                self._ring_once()
            finally:
                self._lock.release()
        for owner, attribute, wire in self.wires:
            if vars(owner).get(attribute) is wire:
                setattr(owner, attribute, wire.original)

    def _ring_once(self) -> None:
        if self._rang:
            return
        self._rang = self._ringing = True
        _sleeping.clear()
        try:
            self._wake()
        finally:
            self._ringing = False


class _Tripwire:
    """A descriptor in the place of another one, the same but for what reading it sets off."""

    wakes_the_client = True
    """As `nbcache.glue.replacing` knows it, which isn't imported for this."""

    def __init__(self, original: Any) -> None:
        self.original = original
        self.alarm: _Alarm | None = None

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if self.alarm is not None:
            self.alarm.ring()
        return self.original.__get__(instance, owner)
