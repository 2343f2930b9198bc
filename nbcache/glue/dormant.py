"""Waits until Numba is about to be used: a process that only imports it pays for no more than this module.

Everything that compiles asks for the contexts of the CPU target, after it has made one of the objects below. The
first of these attributes to be read wakes the client, once, before Numba goes on.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_WATCHED = (
    ("numba.core.dispatcher", "_FunctionCompiler", "__init__"),
    ("numba.np.ufunc.ufuncbuilder", "UFuncDispatcher", "__init__"),
    ("numba.core.bytecode", "FunctionIdentity", "from_function"),
    ("numba.core.registry", "CPUTarget", "typing_context"),
    ("numba.core.registry", "CPUTarget", "target_context"),
)
_SECONDS = 1.0
"""How long a thread waits for another one that wakes the client: that may need a module this one is importing [s]."""


def sleep(wake: Callable[[], None]) -> bool:
    """Have *wake* called before Numba is used; False if this Numba can't be watched, and nothing was done.

    Numba must be imported.
    """
    try:
        places = [(vars(sys.modules[module])[name], attribute) for module, name, attribute in _WATCHED]
        wires = [(owner, attribute, _Tripwire(vars(owner)[attribute])) for owner, attribute in places]
    except KeyError:
        return False
    lock = threading.RLock()

    def disturb() -> None:
        if not lock.acquire(timeout=_SECONDS):
            return
        try:
            if wires:
                mine, wires[:] = list(wires), []
                wake()
                for owner, attribute, wire in mine:
                    setattr(owner, attribute, wire.original)
        finally:
            lock.release()

    for owner, attribute, wire in wires:
        wire.disturb = disturb
        setattr(owner, attribute, wire)
    return True


class _Tripwire:
    """A descriptor in the place of another one, the same but for what reading it sets off."""

    def __init__(self, original: Any) -> None:
        self.original = original
        self.disturb: Callable[[], None] = lambda: None

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        self.disturb()
        return self.original.__get__(instance, owner)
