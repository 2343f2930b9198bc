"""Every attribute that nbcache keeps on objects of Numba's and of users': no other module spells one.

All begin with `PREFIX`, by which a description of an object leaves them out.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from nbcache.records import Record

PREFIX: Final = "_nbcache_"
IDENTITY: Final = PREFIX + "identity"
"""On dispatchers: what is known of their identity, as something that is compiled."""
IDENTITY_OF_RUN: Final = PREFIX + "identity_run"
"""The same, as something that only runs."""
PAST: Final = PREFIX + "past"
"""On dispatchers: what is remembered of their overloads."""
CHOOSER: Final = PREFIX + "chooser"
"""On the dispatcher of an implementation that was chosen for an ``@overload``: who was asked for it, and what."""
QUESTION: Final = PREFIX + "question"
"""On a template that is about to choose: the same."""
_HEARD: Final = PREFIX + "heard"
EFFECTS: Final = PREFIX + "effects"
"""On dispatchers and ufuncs: what each overload did to others when it was compiled or loaded."""
FACE: Final = PREFIX + "face"
"""On a kernel's dispatcher: the ufunc that users know it as."""
RECIPE: Final = PREFIX + "recipe"
"""On a function that Numba made of a closure: what it was made of."""
ORIGIN: Final = PREFIX + "origin"
"""On lifted code: the key that it was lifted out of, and as which of the blocks."""
COUNTED: Final = PREFIX + "counted"
"""On a compilation: that it was counted."""
DEFINING: Final = PREFIX + "defining"
"""On a template: that its class is being defined at this moment."""
CONSULTED: Final = PREFIX + "consulted"
"""On a library: what was asked for while it was compiled."""
SYMBOLS: Final = PREFIX + "symbols"
"""On a library: those of its object."""
EXACT: Final = PREFIX + "exact"
"""On a library: whether optimising it again changes no result."""
CALLEES: Final = PREFIX + "callees"
"""On a library: the callees whose own objects its code was bound to."""
OWN_IR: Final = PREFIX + "own_ir"
"""On a library: the digests of the modules that were added to it."""
IR: Final = PREFIX + "ir"
"""On a library: the same with all that is linked into it (front_end.py)."""
_NEIGHBORHOOD: Final = PREFIX + "neighborhood"
_FINDING: Final = object()
_BIRTHS: Final = PREFIX + "births"
_TAINT: Final = PREFIX + "taint"
_UNIT: Final = PREFIX + "unit"
_HELD: Final = PREFIX + "held"
_META: Final = PREFIX + "meta"
_WRAPPERS: Final = PREFIX + "wrappers"
_ENVIRONMENTS: Final = PREFIX + "environments"
_POSTPONED: Final = PREFIX + "postponed"


class Birth(Record):
    """What a device function's overload was made under.

    ``conditions``: digest of the toolkit, the compute capability and the settings; ``content``: what identified the
    function, b"" if that changed meanwhile; ``declared``: the return type that it was asked for with, in words.
    """

    conditions: bytes
    content: bytes
    declared: str


def listen_for(heard: object, listener: object) -> None:
    """Remember of a function that stands in the place of another one, and calls it, for whom it does."""
    vars(listener)[_HEARD] = heard


def unheard(function: Any) -> Any:
    """The function itself, where one stands that listens while something is compiled."""
    return getattr(function, "__dict__", {}).get(_HEARD, function)


def show_as(ufunc: object, kernel: object) -> None:
    """Remember that *kernel*, a dispatcher, is what *ufunc* compiles."""
    vars(kernel)[FACE] = weakref.ref(ufunc)


def public_face(owner: Any) -> Any:
    """What users know a kernel's dispatcher as: its ufunc, while that lives; any other *owner* of a unit, itself."""
    face = vars(owner).get(FACE)
    found = None if face is None else face()
    return owner if found is None else found


def learn_neighborhood(stencil: Any, neighborhood: Any) -> None:
    """Give a stencil the neighborhood that compiling it would have found, unless it has one."""
    with finding_neighborhood(stencil):
        if stencil.neighborhood is None:
            stencil.neighborhood = neighborhood


@contextmanager
def finding_neighborhood(stencil: Any) -> Iterator[None]:
    """The neighborhood that a stencil without one has while this is entered, and after that, was found."""
    if stencil.neighborhood is not None:
        yield
        return
    setattr(stencil, _NEIGHBORHOOD, _FINDING)
    try:
        yield
    finally:
        setattr(stencil, _NEIGHBORHOOD, stencil.neighborhood)


def given_neighborhood(stencil: Any) -> Any:
    """The neighborhood that somebody set, None where it is that of its options or what compiling found."""
    now, found = stencil.neighborhood, vars(stencil).get(_NEIGHBORHOOD)
    return None if now is stencil.options.get("neighborhood") or now is found or found is _FINDING else now


def keep_birth(dispatcher: Any, args: tuple[Any, ...], birth: Birth) -> None:
    """Note what an overload of a device function was made under."""
    vars(dispatcher).setdefault(_BIRTHS, {})[args] = birth


def birth_of(dispatcher: Any, args: tuple[Any, ...]) -> Birth | None:
    """What `keep_birth` noted; None for what nobody was watching."""
    births: dict[tuple[Any, ...], Birth] = vars(dispatcher).get(_BIRTHS, {})
    return births.get(args)


def taint(library: Any, reason: str) -> None:
    """Note that a library's code can't leave this process, nor anything linked with it."""
    setattr(library, _TAINT, reason)


def taint_of(library: Any) -> str:
    """Why code linked into a library can't leave this process, or ""."""
    pending, seen = [library], set()
    while pending:
        each = pending.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        reason: str = getattr(each, _TAINT, "")
        if reason:
            return reason
        pending += each._linking_libraries
    return ""


def is_tainted(library: Any) -> bool:
    """Whether the library's own code can't leave this process."""
    return bool(getattr(library, _TAINT, ""))


def belongs_to(library: Any, unit: Any) -> None:
    """Note which unit's code a library is, for the wrappers around it."""
    setattr(library, _UNIT, unit)


def unit_of(library: Any) -> Any | None:
    """The unit whose code a library is, or None."""
    return getattr(library, _UNIT, None)


def hold(library: Any, live: Iterable[object]) -> None:
    """Keep what the code refers to for as long as the code can run."""
    setattr(library, _HELD, [*getattr(library, _HELD, ()), *live])


def once(library: Any, mark: str, find: Callable[[], Any]) -> Any:
    """What a library has under a *mark*; it is found out for who asks first."""
    if not hasattr(library, mark):
        setattr(library, mark, find())
    return getattr(library, mark)


def keep_meta(library: Any, meta: Any, definitions: dict[str, Any]) -> None:
    """Keep what an entry says of a library's code (`nbcache.glue.entries.meta`), for twins of its function."""
    setattr(library, _META, (meta, definitions))


def has_meta(library: Any) -> bool:
    """Whether its code is in an entry."""
    return hasattr(library, _META)


def meta_of(library: Any) -> tuple[Any, dict[str, Any]]:
    """What `keep_meta` kept."""
    found: tuple[Any, dict[str, Any]] = getattr(library, _META)
    return found


def keep_environments(library: Any, environments: list[Any]) -> None:
    """Keep the environments that a library's code finds by address."""
    setattr(library, _ENVIRONMENTS, environments)


def keep_wrapper(library: Any, kind: str, wrapper: tuple[Any, Any, str]) -> None:
    """Keep the wrapper of a *kind* that was made around a kernel's library: its unit, its library, the name in it."""
    vars(library).setdefault(_WRAPPERS, {})[kind] = wrapper


def wrapper_of(library: Any, kind: str) -> tuple[Any, Any, str] | None:
    """What `keep_wrapper` kept, or None."""
    found: dict[str, tuple[Any, Any, str]] = getattr(library, _WRAPPERS, {})
    return found.get(kind)


def postpone(dispatcher: Any, declared: list[Any]) -> None:
    """Remember that a dispatcher is still to be compiled for what its decorator declared."""
    _forget_identity(dispatcher)
    vars(dispatcher)[_POSTPONED] = declared


def is_postponed(dispatcher: Any) -> bool:
    """Whether a dispatcher lacks what its decorator declared."""
    return _POSTPONED in vars(dispatcher)


def no_longer_postponed(dispatcher: Any) -> list[Any] | None:
    """The signatures that a dispatcher lacked until now; None if it lacked none."""
    found: list[Any] | None = vars(dispatcher).pop(_POSTPONED, None)
    if found is not None:
        _forget_identity(dispatcher)
    return found


def _forget_identity(dispatcher: Any) -> None:
    for name in (IDENTITY, IDENTITY_OF_RUN):
        vars(dispatcher).pop(name, None)
