"""What a compilation does besides giving code: callees gain overloads, dynamic ufuncs gain loops.

A fresh compile of a caller leaves its traces on the dispatchers and DUFuncs it calls, and users
see them: ``.signatures``, ``.types``; a DUFunc with a loop for doubles even answers integers
differently from one without.  So an entry lists these effects, and a hit repeats them: for ufuncs
at once, for dispatchers when somebody looks, since nothing else depends on it.
"""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING, Any

from numba.core import types
from numba.core.typing import signature

from nbcache.glue.ownership import is_toolchain_definition
from nbcache.glue.tokens import Unresolvable

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbcache.glue.frames import Effect, Frame
    from nbcache.glue.tokens import Reach

_log = logging.getLogger("nbcache")
Recorded = tuple[str, tuple[int, bytes], tuple[Any, ...], Any]

_postponed: list[tuple[weakref.ref[Any], Callable[[], Reach], list[Recorded]]] = []
_KEPT = "_nbcache_effects"


def record(frame: Frame) -> list[Recorded]:
    """The frame's effects in terms of what its unit reaches; others are nobody's to see.

    Nor are the toolchain's own dispatchers: nobody asks for the signatures of Numba's internals.
    """
    reach = frame.reach
    found: list[Recorded] = []
    for kind, obj, args, return_type in frame.effects:
        if is_toolchain_definition(getattr(obj, "py_func", obj)) or any(isinstance(t, types.Callable) for t in args):
            continue  # nor can a function among the arguments be named in another process
        reference = reach.reference(obj) if reach is not None else None
        if reference is not None and obj is not getattr(frame.unit, "owner", None):
            found.append((kind, reference, args, return_type))
    return found


def repeat(owner: Any, reach: Callable[[], Reach], recorded: list[Recorded]) -> None:
    """Do to live objects what the compilation did to their counterparts."""
    if not recorded:
        return
    if any(kind == "ufunc" for kind, *_rest in recorded):
        found = reach()
        for kind, reference, args, return_type in recorded:
            if kind == "ufunc":
                _add_loop(found, reference, args, return_type)
    if any(kind == "dispatcher" for kind, *_rest in recorded):
        _postponed.append((weakref.ref(owner), reach, recorded))


def _add_loop(reach: Reach, reference: tuple[int, bytes], args: tuple[Any, ...], return_type: Any) -> None:
    try:
        ufunc: Any = reach.referent(reference)
    except Unresolvable:
        return
    if not any(tuple(sig.args) == args for sig in ufunc._dispatcher.overloads):
        ufunc._compile_for_argtys(args, return_type)


def postponed() -> bool:
    """Whether `deliver` has anything to do."""
    return bool(_postponed)


def deliver() -> None:
    """Give dispatchers the overloads that they would have by now."""
    while _postponed:
        batch = _postponed[:]
        _postponed.clear()
        for owner, reach, recorded in batch:
            if owner() is None:
                continue
            try:
                found = reach()
                for kind, reference, args, return_type in recorded:
                    if kind == "dispatcher":
                        _add_overload(found.referent(reference), args, return_type)
            except Exception:  # noqa: BLE001  somebody only wanted to look
                _log.debug("an overload could not be added", exc_info=True)


def _add_overload(dispatcher: Any, args: tuple[Any, ...], return_type: Any) -> None:
    overloads = vars(dispatcher)["overloads"]
    if args in overloads or not dispatcher._can_compile:
        return
    dispatcher.compile(args if return_type is None else signature(return_type, *args))


def remember(owner: Any, args: tuple[Any, ...], effects: Callable[[], list[Effect]]) -> None:
    """Keep what compiling *owner* for *args* did, for callers compiled later in this process."""
    vars(owner).setdefault(_KEPT, {})[args] = effects


def remembered(owner: Any, args: tuple[Any, ...]) -> list[Effect]:
    """What `remember` was told, as far as it can still be found."""
    effects = vars(owner).get(_KEPT, {}).get(args)
    return effects() if effects is not None else []


def resolved(reach: Callable[[], Reach], recorded: list[Recorded]) -> list[Effect]:
    """Recorded effects in terms of live objects."""
    found: list[Effect] = []
    for kind, reference, args, return_type in recorded:
        try:
            found.append((kind, reach().referent(reference), args, return_type))
        except Unresolvable:
            continue
    return found


class Overloads:
    """Stands in for the instance attribute ``overloads``: complete whenever somebody looks."""

    def __get__(self, dispatcher: Any, _owner: type | None = None) -> Any:
        if dispatcher is None:
            return self
        if _postponed and not dispatcher._compiling_counter:
            deliver()
        return vars(dispatcher)["overloads"]

    def __set__(self, dispatcher: Any, value: Any) -> None:
        vars(dispatcher)["overloads"] = value
