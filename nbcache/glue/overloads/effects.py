"""What a compilation does besides giving code: callees gain overloads, dynamic ufuncs loops, stencils a neighborhood.

A fresh compile of a caller leaves its traces on the dispatchers and DUFuncs it calls, and users
see them: ``.signatures``, ``.types``; a DUFunc with a loop for doubles even answers integers
differently from one without.  So an entry lists these effects, and a hit repeats them: for ufuncs
at once, for dispatchers, to which they are promised (history.py), when somebody looks.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from numba.core import compiler_lock

from nbcache.glue import own_attributes
from nbcache.glue.capture.compilations import Effect, FrameStack
from nbcache.glue.identity.dispatcher_past import arrange, past_of
from nbcache.glue.identity.node import Unresolvable
from nbcache.glue.keys.units import Unit
from nbcache.glue.overloads.inherited_flags import giving
from nbcache.glue.overloads.loops import find_loop
from nbcache.glue.overloads.uses import OverloadUse
from nbcache.passing_exceptions import let_pass

_log = logging.getLogger("nbcache")


def repeat(unit: Unit, uses: list[OverloadUse]) -> None:
    """Give live ufuncs and stencils what the compilation gave to their counterparts."""
    for kind, reference, args, return_type, given, _fresh, _key, _momentary in uses:
        if kind == "dispatcher":
            continue
        try:
            obj: Any = unit.referent(reference)
        except Unresolvable:
            continue
        if kind == "stencil":
            own_attributes.learn_neighborhood(obj, return_type)
        elif find_loop(obj, args) is None:
            with giving(given):
                obj._compile_for_argtys(args, return_type)


def remember(owner: Any, args: tuple[Any, ...], effects: Callable[[], list[Effect]]) -> None:
    """Keep what compiling *owner* for *args* did, for callers compiled later in this process."""
    vars(owner).setdefault(own_attributes.EFFECTS, {})[args] = effects


def remembered(owner: Any, args: tuple[Any, ...]) -> list[Effect]:
    """What `remember` was told, as far as it can still be found."""
    effects = vars(owner).get(own_attributes.EFFECTS, {}).get(args)
    return effects() if effects is not None else []


def deliver(dispatcher: Any, args: tuple[Any, ...], frames: FrameStack) -> None:
    """Give *dispatcher* an overload that was promised to it."""
    try:
        if args not in vars(dispatcher)["overloads"] and dispatcher._can_compile:
            with frames.apart():
                dispatcher.compile(args)
    except Exception as raised:  # noqa: BLE001  who only looks isn't told, and who calls the overload will be
        let_pass(raised)
        past_of(dispatcher).promised.pop(args, None)
        _log.debug("could not add an overload to its dispatcher", exc_info=True)


def deliver_at_once(unit: Unit, urgent: list[tuple[Any, tuple[Any, ...]]], frames: FrameStack) -> None:
    """Give dispatchers what can't wait until somebody looks, now that *unit*, which relies on it, is being loaded.

    The halves of a recursion rely on each other: what is being loaded or compiled comes anyway.
    """
    mine = id(unit.owner), unit.args
    if not urgent or mine in _being_loaded:
        return
    _being_loaded.add(mine)
    try:
        for dispatcher, args in urgent:
            if (id(dispatcher), args) not in _being_loaded and not dispatcher._compiling_counter:
                deliver(dispatcher, args, frames)
    finally:
        _being_loaded.remove(mine)


_being_loaded: set[tuple[int, tuple[Any, ...]]] = set()
"""The overloads whose callees are given to these: under the compiler's lock."""


class Overloads:
    """Stands in for the instance attribute ``overloads``: complete whenever somebody looks."""

    def __init__(self, frames: FrameStack) -> None:
        self._frames = frames

    def __get__(self, dispatcher: Any, _owner: type | None = None) -> Any:
        if dispatcher is None:
            return self
        overloads = vars(dispatcher)["overloads"]
        if past_of(dispatcher).promised and not dispatcher._compiling_counter:
            lock = compiler_lock.global_compiler_lock._lock
            # In plain Numba nobody waits to look, and who compiles in another thread may wait for the one that looks.
            if not lock.acquire(blocking=False):
                return _Incomplete(self, dispatcher)
            try:
                self.complete(dispatcher)
            finally:
                lock.release()
        return overloads

    def __set__(self, dispatcher: Any, value: Any) -> None:
        vars(dispatcher)["overloads"] = value

    def complete(self, dispatcher: Any) -> None:
        """Give *dispatcher* all that is owed to it, in the order in which it would have come."""
        for args in tuple(past_of(dispatcher).promised):
            deliver(dispatcher, args, self._frames)
        arrange(dispatcher)


class _Incomplete(OrderedDict[Any, Any]):
    """A dispatcher's overloads while another thread compiles: all signatures are known, and each is made when used."""

    def __init__(self, descriptor: Overloads, dispatcher: Any) -> None:
        past, overloads = past_of(dispatcher), vars(dispatcher)["overloads"]
        every = [*(args for args in past.order if args in overloads or args in past.promised), *overloads]
        super().__init__((args, None) for args in every)
        self._descriptor = descriptor
        self._dispatcher = dispatcher

    def _all(self) -> Any:
        with compiler_lock.global_compiler_lock._lock:
            self._descriptor.complete(self._dispatcher)
        return vars(self._dispatcher)["overloads"]

    def __getitem__(self, args: Any) -> Any:
        return self._all()[args] if args in self else super().__getitem__(args)

    def get(self, args: Any, default: Any = None) -> Any:
        return self._all().get(args, default) if args in self else default

    def values(self) -> Any:
        return self._all().values()

    def items(self) -> Any:
        return self._all().items()
