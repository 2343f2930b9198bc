"""Things in compiled code that belong to a process: source locations and live Python objects.

Numba bakes pickles into object code: the exception to raise with the file and line to blame, the
dispatcher behind an ``objmode`` block.  Baked in as values, a file name lies after an edit or in
another checkout, and a class from ``__main__`` comes back as a stranger that no ``except`` clause
matches.  So while a frame is open such things are pickled as *tokens*: calls of `locate` or
`recall` with a name that no other build uses.  Their definitions say how to find the thing again:

* ``line``: in the code object with this digest, the line of these bytecode offsets.  Bytecode is
  part of the key, lines are not; looking the line up in the live code's own table makes tracebacks
  right after edits above, in other checkouts, for notebook cells. Line 1 is what Numba says where it knows of none.
* ``toolchain``: a file of a toolchain package, relative to it; ``file``: a file with this content.
* ``object``: the reachable object with this identity, or, where it is none of these, what this name
  leads to. Numba pickles a class or function by its name if that leads to it just then, and otherwise
  as itself; so does `_as_pickled`, when an entry is loaded. A name alone won't do: a test may have put
  another class there, and a loader of plug-ins leaves its modules out of ``sys.modules``.
* ``address``: the address of a reachable object (addresses.py).
* ``type``: one of somebody's that the function takes, or that it is made of: the how many-th, and its name. Types grow.
* ``value``: whatever this variable of that function holds, a list that ``objmode`` appends to, say.

Tokens are found in an object by their spelling, so an entry carries the definitions of exactly
those that survived optimisation, whichever library they came from.  On a hit every definition is
resolved before the object is loaded; one that can't be is a miss.
"""

from __future__ import annotations

import os
import pickle
import re
import sys
import types as kinds
import weakref
from collections.abc import Callable, Collection
from typing import Any

from nbcache.glue.capture import addresses
from nbcache.glue.capture.compilations import Frame
from nbcache.glue.identity.bytecode import plan_of
from nbcache.glue.identity.counterparts import LiveValue, Reach, qualname_of
from nbcache.glue.identity.describe_numba import nameless
from nbcache.glue.identity.distributions import file_digest
from nbcache.glue.identity.node import Unresolvable
from nbcache.glue.identity.ownership import is_toolchain_definition
from nbcache.glue.identity.ownership import resolve as resolve_name
from nbcache.passing_exceptions import suppressed
from nbcache.records import Record

_SPELLING = rb"nbcache![0-9a-z]{24}\.[0-9]+!"
"""Compiled where it is used: a hit only binds, and would pay for it."""
Definition = tuple[Any, ...]
Location = tuple[str, str, int]

definitions: dict[str, Definition] = {}
_live: dict[str, Any] = {}


class _Named:
    """What is looked up under its name each time that its pickle is read, as code without a cache does.

    Numba reads a pickle once, but for exceptions whose arguments are only known when they are raised.
    """

    __slots__ = ("first", "name", "obj")

    def __init__(self, name: str, obj: Any) -> None:
        self.name = name
        self.obj = weakref.ref(obj)
        self.first: Callable[[], Any] | None = None
        """What it was when it was looked up first: code has kept that."""

    def __call__(self) -> Any:
        return self.obj()

    def recall(self) -> Any:
        # What unpickling raises where there is no such thing any more, a program gets to see.
        found = _imported(self.name)
        if self.first is None:
            self.first = weakref.ref(found) if isinstance(found, type | kinds.FunctionType) else lambda: found
        return found


def _imported(name: str) -> Any:
    """What unpickling finds under ``module:qualname``.  Raises what it raises."""
    texts = (text.encode() for text in name.split(":"))
    strings = b"".join(b"X" + len(text).to_bytes(4, "little") + text for text in texts)
    return pickle.loads(b"\x80\x04" + strings + b"\x93.")  # noqa: S301  a name alone


_AS_THEY_ARE = (tuple, addresses.Address, _Named)
"""What is kept by itself, and not by a weak reference."""


class Taken(Unresolvable):
    """The tokens are bound already, to a twin of the function: same code, standing elsewhere."""


def locate(token: str) -> Location | None:
    """Called by unpickling inside compiled code: (function name, file name, line), or None."""
    return _live.get(token)


def locate_in(token: str, before: str, between: str, after: str) -> str:
    """Called by unpickling inside compiled code: a text that ends with a file and a line."""
    _name, filename, line = _live[token]
    return f"{before}{filename}{between}{line}{after}"


def recall(token: str, _name: str = "") -> Any:
    """Called by unpickling inside compiled code: the live object, which the code's library holds.

    Its ``module:qualname``, if it can be imported, is for who runs the code without Numba (published/unpickling.py).
    """
    known = _live[token]
    if isinstance(known, _Named):
        return known.recall()
    live = known()
    return live.obj if isinstance(live, LiveValue) else live


class Recalled(Record):
    """Pickles as a token's live object."""

    token: str

    def __reduce__(self) -> tuple[Any, ...]:
        return recall, (self.token,)


class LiveLocation(Record):
    """Pickles as a token; equal and hashed like one, so that Numba shares equal exceptions."""

    token: str

    def __reduce__(self) -> tuple[Any, ...]:
        return locate, (self.token,)


class LiveText(Record):
    """Pickles as a text that ends with the file and the line of a token; equal and hashed likewise."""

    location: LiveLocation
    before: str
    between: str
    after: str

    def __reduce__(self) -> tuple[Any, ...]:
        return locate_in, (self.location.token, self.before, self.between, self.after)


def located(location: LiveLocation | Location) -> Location:
    """(function name, file name, line) of what `live_location` returned, or of what it was unpickled as."""
    return _live[location.token] if isinstance(location, LiveLocation) else location


# -- while compiling ---------------------------------------------------------------------------

_KINDS = frozenset(id(kind) for kind in vars(kinds).values() if isinstance(kind, type))
"""Python's own, as of methods and cells, which say that they are from builtins but are not there."""


def _new_token(frame: Frame, definition: Definition, live: Any) -> str:
    token = f"nbcache!{frame.build}.{next(frame.ordinals)}!"
    definitions[token] = definition
    _live[token] = live if isinstance(live, _AS_THEY_ARE) else weakref.ref(live)
    frame.held.append(_held_for(live))
    return token


def _held_for(live: Any) -> object:
    """What must live for *live* to stay valid."""
    return live.handed_over() if isinstance(live, addresses.Address) else live


def live_location(frame: Frame, location: Location) -> LiveLocation | Location:
    """What to pickle for *location*.  Generated code (``<string>``) is the same everywhere: itself."""
    known = frame.locations.get(location)
    if known is None:
        known = frame.locations[location] = _live_location(frame, location)
    return known  # type: ignore[return-value]


def live_text(frame: Frame, text: str) -> LiveText | str:
    """What to pickle for a message of Numba's: if it ends with a place, as Numba spells one, no copy of that."""
    found = _PLACE_AT_END.fullmatch(text)
    if found is None:
        return text
    before, filename, between, line, after = (part for part in found.groups() if part is not None)
    location = live_location(frame, ("", filename, int(line)))
    return LiveText(location, before, between, after) if isinstance(location, LiveLocation) else text


_PLACE_AT_END = re.compile(r'(.*? on )(.+)( \()([0-9]+)(\))|(.*\nFile ")(.+)(", line )([0-9]+)(, )', re.DOTALL)
"""``ir.Loc`` as a text, after what array analysis puts before it; and what ufuncs say of shapes that don't fit."""


def _live_location(frame: Frame, location: Location) -> LiveLocation | Location:
    name, filename, line = location
    definition = _toolchain_file(name, filename, line) or _code_line(frame, name, filename, line)
    if definition is None and os.path.exists(filename):
        definition = ("file", name, filename, file_digest(filename), line)
    if definition is None:
        return location
    return LiveLocation(_new_token(frame, definition, location))


def _code_line(frame: Frame, name: str, filename: str, line: int) -> Definition | None:
    reach = frame.reach
    codes = None if reach is None else reach.codes_at(filename, line)
    if not codes:
        return None
    places = ((plan_of(code).digest, qualname_of(code), offsets) for code, offsets in codes)
    return ("line", name, tuple(places))


def _toolchain_file(name: str, filename: str, line: int) -> Definition | None:
    for package in ("numba", "numpy", "llvmlite"):
        for root in getattr(sys.modules.get(package), "__path__", ()):
            if filename.startswith(root + os.sep):
                return ("toolchain", name, package, filename[len(root) + 1 :], line)
    return None


def live_reference(frame: Frame, obj: object) -> tuple[str, str] | None:
    """The token to pickle for a function, class or Dispatcher, and its name if it can be imported.

    None when it is the toolchain's, or nobody's but this process's. What is neither importable nor reachable taints the
    frame: it would come back as a copy, which is not what a fresh compile refers to.
    """
    qualname = getattr(obj, "__qualname__", None)
    if isinstance(obj, type) and id(obj) in _KINDS:
        return None
    if isinstance(qualname, str) and is_toolchain_definition(obj):
        return None
    known = frame.references.get(id(obj))
    if known is not None:
        return known[0]
    name = _name_that_leads_to(obj)
    reference = None
    if frame.reach is not None:
        reference = frame.reach.own_reference(obj) if name else frame.reach.reference(obj)
    if reference is None and not name:
        frame.taint = frame.taint or f"it refers to {qualname or obj}, which only this process has"
        return None
    token = _new_token(frame, ("object", reference, name), _as_pickled(obj, name))
    frame.references[id(obj)] = (token, name), obj
    return token, name


def _name_that_leads_to(obj: Any) -> str:
    """``module:qualname``, if whoever imports that gets *obj*; else ""."""
    module = getattr(obj, "__module__", None)
    qualname = getattr(obj, "__qualname__", None)
    if isinstance(module, str) and isinstance(qualname, str) and module not in {"__main__", "__mp_main__"}:
        with suppressed(Exception):  # a module's __getattr__ may raise anything
            if resolve_name(module, qualname) is obj:
                return f"{module}:{qualname}"
    return ""


def _as_pickled(obj: Any, name: str) -> Any:
    """What Numba would write down of *obj*, which *name* leads to if there is one."""
    return _Named(name, obj) if name and isinstance(obj, type | kinds.FunctionType) else obj


def live_value(frame: Frame, obj: object, name: str = "") -> Recalled:
    """What to pickle for an object that compiled code must find as it is, and not as a copy; Unresolvable if it can't.

    *name* is that of the variable, if it is known.
    """
    live = frame.reach.variable_of(obj, name) if frame.reach is not None else None
    if live is None:
        raise Unresolvable(f"it refers to an object of type {type(obj).__name__} that no variable of a function holds")
    reference = frame.reach.reference(live.function)  # type: ignore[union-attr]
    return Recalled(_new_token(frame, ("value", reference, live.kind, live.variable), live))


def live_type(frame: Frame, typ: object) -> tuple[str, str] | None:
    """The token to pickle for a type that is among those of the arguments; None for another one."""
    places = (place for place, each in enumerate(frame.reach.types if frame.reach else ()) if each is typ)
    if (position := next(places, None)) is None:
        return None
    known = frame.references.get(id(typ))
    if known is None:
        token = _new_token(frame, ("type", position, nameless(typ)), typ)
        known = frame.references[id(typ)] = (token, ""), typ
    return known[0]


def live_address(frame: Frame, value: int) -> str | None:
    """The symbol to use for a variable that holds the address *value*; None when it is nobody's."""
    known = frame.addresses.get(value)
    # What can't become an entry needs no names; to find them may take a walk through half of a package.
    if known is None and not frame.refusal and frame.reach is not None:
        found = addresses.owner_of_closure(value, frame.closures, frame.reach)
        found = found or addresses.owner_of(value, frame.reach)
        if found is not None:
            owner, address = found
            known = frame.addresses[value] = _new_token(frame, ("address", owner), address)
            addresses.provide(known, address)
    return known


def name_of(token: str) -> str | None:
    """The qualified name of the class or function that a token stands for; None if it stands for something else."""
    if token not in definitions or definitions[token][0] != "object":
        return None
    return str(getattr(_live[token](), "__qualname__", ""))


# -- in an entry -------------------------------------------------------------------------------


def tokens_in(code: bytes) -> set[str]:
    """The tokens spelled out in object code."""
    return {match.decode() for match in re.findall(_SPELLING, code)}


def definition_for(token: str, reach: Callable[[], Reach]) -> Definition:
    """A token's definition in terms of what the unit being packed reaches.  Raises Unresolvable.

    The token may have come with a callee's code, whose positions are another unit's.
    """
    definition = definitions[token]
    if definition[0] == "object":
        obj, name = _live[token](), definition[2]
        return ("object", reach().own_reference(obj) if name else _reference(obj, reach().reference), name)
    if definition[0] == "value":
        live = _live[token]()
        return ("value", _reference(live.function, reach().reference), live.kind, live.variable)
    if definition[0] == "address" and definition[1][0] not in addresses.NAMED:
        return ("address", (definition[1][0], _reference(_live[token].owner, reach().lasting_reference)))
    return definition


def _reference(obj: object, look: Callable[[object], Any]) -> Any:
    reference = look(obj)
    if reference is None:
        msg = f"it refers to {getattr(obj, '__qualname__', type(obj).__name__)}, which only exists after compiling"
        raise Unresolvable(msg)
    return reference


def bind(found: dict[str, Definition], reach: Any, bound: Collection[str] = ()) -> list[object]:
    """Make every token of an entry about to be loaded mean something here, or raise Unresolvable.

    *reach* is a callable returning the Reach of the function being loaded; it is only called when
    something must be looked up. Those that are *bound* mean what they meant to a caller, which holds it: an overload
    that it was promised belongs to that moment.  Returns what must live as long as the code.
    """
    fresh: dict[str, Any] = {}
    held: list[object] = []
    for token, definition in found.items():
        known = _live.get(token)
        if token in bound:
            live = known() if isinstance(known, weakref.ref) else known
            if live is None:
                raise Unresolvable("something that the code refers to is no more")
            held.append(_held_for(live))
            continue
        if (
            definition[0] == "address"
            and definition[1][0] == "closure"
            and known is not None
            and known.owner is not None
        ):
            value = known  # one that this process has made serves twins of the function as well
        else:
            value = _resolve(definition, reach)
        if isinstance(value, LiveValue) and known is not None and _same(known, weakref.ref(value)):
            value = known()  # what holds the object for the code that is there already
        held.append(_held_for(value))
        if not isinstance(value, _AS_THEY_ARE):
            value = weakref.ref(value)
        if token in _live and not _same(_live[token], value):
            raise Taken("the same code is loaded already, for a function that stands elsewhere")
        if isinstance(value, _Named) and known is not None:
            value.first = known.first
        fresh[token] = value
    _live.update(fresh)
    for token, value in fresh.items():
        if isinstance(value, addresses.Address):
            addresses.provide(token, value)
    definitions.update(found)
    return held


def _called(name: str) -> Any:
    """What is called *name*, which unpickling would import.  Raises Unresolvable."""
    found = None
    with suppressed(Exception):  # whatever importing somebody's module raises
        found = _imported(name)
    if found is None:
        raise Unresolvable(f"there is no {name}")
    return found


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, _Named):
        kept = None if one.first is None else one.first()
        return isinstance(other, _Named) and one.name == other.name and (kept is None or kept is other.obj())
    if isinstance(one, weakref.ref):
        return isinstance(other, weakref.ref) and _found(one) is _found(other)
    return bool(one == other)


def _found(known: weakref.ref[Any]) -> object:
    live = known()
    return live.obj if isinstance(live, LiveValue) else live


def _resolve(definition: Definition, reach: Any) -> Any:
    kind = definition[0]
    if kind == "line":
        _, name, candidates = definition
        places = {reach().line_of(digest, qualname, offsets) for digest, qualname, offsets in candidates}
        if len(places) != 1:
            raise Unresolvable("lines that were one are two now")
        return (name, *places.pop())
    if kind == "toolchain":
        _, name, package, relative, line = definition
        return (name, os.path.join(sys.modules[package].__path__[0], relative), line)
    if kind == "file":
        _, name, filename, digest, line = definition
        if file_digest(filename) != digest:
            raise Unresolvable(f"{filename} changed")
        return (name, filename, line)
    if kind == "object":
        _, reference, name = definition
        found = _called(name) if reference is None else reach().referent(reference)
        return _as_pickled(found, _name_that_leads_to(found))
    if kind == "type":
        return reach().type_at(*definition[1:])
    if kind == "value":
        _, reference, where, variable = definition
        try:
            return LiveValue(reach().referent(reference), where, variable)
        except KeyError as exc:
            raise Unresolvable(f"the variable {variable} is gone") from exc
    if kind == "address":
        try:
            return addresses.locate(definition[1], reach)
        except LookupError as exc:
            raise Unresolvable(str(exc)) from exc
    raise Unresolvable(f"unknown kind of reference {kind!r}")
