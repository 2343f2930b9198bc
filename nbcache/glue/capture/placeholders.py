"""Things in compiled code that belong to a process: source locations and live Python objects.

Numba bakes pickles into object code: the exception to raise with the file and line to blame, the
dispatcher behind an ``objmode`` block.  Baked in as values, a file name lies after an edit or in
another checkout, and a class from ``__main__`` comes back as a stranger that no ``except`` clause
matches.  So while a frame is open such things are pickled as *tokens*: calls of `locate` or
`recall` with a name that no other build uses.  Their definitions say how to find the thing again:

* ``line``: in the code object with this digest, the line of these bytecode offsets.  Bytecode is
  part of the key, lines are not; looking the line up in the live code's own table makes tracebacks
  right after edits above, in other checkouts, for notebook cells.
* ``toolchain``: a file of a toolchain package, relative to it; ``file``: a file with this content.
* ``object``: the reachable object with this identity; ``address``: the address of one (addresses.py).
* ``value``: whatever this variable of that function holds, a list that ``objmode`` appends to, say.

Tokens are found in an object by their spelling, so an entry carries the definitions of exactly
those that survived optimisation, whichever library they came from.  On a hit every definition is
resolved before the object is loaded; one that can't be is a miss.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import types as kinds
import weakref
from contextlib import suppress
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from nbcache.glue.capture import addresses
from nbcache.glue.identity.bytecode import nested_codes, plan_of
from nbcache.glue.identity.files import file_digest
from nbcache.glue.identity.ownership import is_toolchain_definition
from nbcache.glue.identity.ownership import resolve as resolve_name
from nbcache.glue.identity.referred import Referred
from nbcache.passing import suppressed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from nbcache.glue.capture.compilations import Frame
    from nbcache.glue.identity.node import Node

_SPELLING = re.compile(rb"nbcache![0-9a-z]{24}\.[0-9]+!")
Definition = tuple[Any, ...]
Location = tuple[str, str, int]

definitions: dict[str, Definition] = {}
_live: dict[str, Any] = {}


class Unresolvable(Exception):  # noqa: N818  a verdict, not a malfunction
    """A definition means nothing, or two things, in this process."""


class Taken(Unresolvable):
    """The tokens are bound already, to a twin of the function: same code, standing elsewhere."""


def locate(token: str) -> Location | None:
    """Called by unpickling inside compiled code: (function name, file name, line), or None."""
    return _live.get(token)


def recall(token: str) -> Any:
    """Called by unpickling inside compiled code: the live object, which the code's library holds."""
    live = _live[token]()
    return live.obj if isinstance(live, LiveValue) else live


class Recalled:
    """Pickles as a token's live object."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __reduce__(self) -> tuple[Any, ...]:
        return recall, (self._token,)


class LiveValue:
    """An object with a life of its own, and the variable that compiled code has it from.

    ``kind``: "closure" or "global", of *function*. The library of the code holds this, and so the object.
    """

    __slots__ = ("__weakref__", "_function", "kind", "obj", "variable")

    def __init__(self, function: FunctionType, kind: str, variable: str) -> None:
        self._function = weakref.ref(function)
        self.kind = kind
        self.variable = variable
        self.obj = dict(_variables_of(function, kind))[variable]

    @property
    def function(self) -> FunctionType | None:
        """The function, or None when it is no more."""
        return self._function()


def _variables_of(function: FunctionType, kind: str) -> Iterator[tuple[str, object]]:
    """(name, value) of what the code of *function* can read."""
    if kind == "closure":
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            with suppress(ValueError):  # an empty cell
                yield name, cell.cell_contents
    else:
        scope = function.__globals__
        yield from ((name, scope[name]) for name in plan_of(function.__code__).global_names if name in scope)


class LiveLocation:
    """Pickles as a token; equal and hashed like one, so that Numba shares equal exceptions."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __reduce__(self) -> tuple[Any, ...]:
        return locate, (self._token,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LiveLocation) and self._token == other._token

    def __hash__(self) -> int:
        return hash(self._token)


def located(location: LiveLocation | Location) -> Location:
    """(function name, file name, line) of what `live_location` returned, or of what it was unpickled as."""
    return _live[location._token] if isinstance(location, LiveLocation) else location


def _qualname(code: CodeType) -> str:
    return getattr(code, "co_qualname", code.co_name)  # Python 3.10 has no qualified names of code


def _and_beyond(look: Callable[..., Any]) -> Callable[..., Any]:
    """Look among what is reached from the unit itself; only what isn't there is looked for further off."""

    @functools.wraps(look)
    def look_twice(self: Reach, *args: Any) -> Any:
        if self._beyond is not None:
            with suppressed(Unresolvable):
                found = look(self, *args)
                if found:
                    return found
            self._extend()
        return look(self, *args)

    return look_twice


class Reach:
    """An index over all that a unit reaches: code objects by file and digest, objects by identity.

    *beyond* yields what it reaches by way of registrations with Numba: large, in some packages, and seldom needed.
    """

    def __init__(self, nodes: Iterable[Node], beyond: Callable[[], Iterable[Node]] | None = None) -> None:
        self._beyond = beyond
        self._positions: dict[int, int] = {}
        self._objects: list[tuple[bytes, object]] = []
        self._functions: dict[bytes, list[tuple[FunctionType, CodeType]]] = {}
        self._codes: dict[str, list[CodeType]] = {}
        self._codes_by_digest: dict[bytes, list[CodeType]] = {}
        self._add(nodes)

    def _extend(self) -> None:
        beyond, self._beyond = self._beyond, None
        if beyond is not None:
            self._add(node for node in beyond() if id(node.obj) not in self._positions)

    def _add(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            if isinstance(node.obj, Referred):
                self._positions.setdefault(id(node.obj.target), len(self._objects))
                self._objects.append((node.digest or b"", node.obj.target))
                continue
            self._positions[id(node.obj)] = len(self._objects)
            self._objects.append((node.digest or b"", node.obj))
            if isinstance(node.obj, FunctionType):
                self._add_code(node.obj)

    def _add_code(self, function: FunctionType) -> None:
        for each in nested_codes(function.__code__):
            self._functions.setdefault(plan_of(each).digest, []).append((function, each))
            known = self._codes.setdefault(each.co_filename, [])
            if not any(each is other for other in known):
                known.append(each)
                self._codes_by_digest.setdefault(plan_of(each).digest, []).append(each)

    @_and_beyond
    def codes_at(self, filename: str, line: int) -> list[tuple[CodeType, tuple[int, ...]]]:
        """Code objects with bytecode for this line, each with the offsets of that bytecode."""
        found = []
        for code in self._codes.get(filename, ()):
            offsets = tuple(start for start, _end, at in code.co_lines() if at == line)
            if offsets:
                found.append((code, offsets))
        return found

    @_and_beyond
    def line_of(self, digest: bytes, qualname: str, offsets: tuple[int, ...]) -> tuple[str, int]:
        """Where the code with this digest stands now.  Raises Unresolvable."""
        answers = set()
        for code in self._codes_by_digest.get(digest, ()):
            if _qualname(code) == qualname:
                lines = {at for start, end, at in code.co_lines() for offset in offsets if start <= offset < end}
                answers |= {(code.co_filename, at) for at in lines}
        if len(answers) != 1:
            msg = f"the lines of {qualname} are {'gone' if not answers else 'arranged differently'}"
            raise Unresolvable(msg)
        filename, line = answers.pop()
        if line is None:
            msg = f"{qualname} has no line there"
            raise Unresolvable(msg)
        return filename, line

    @_and_beyond
    def place_of(self, code: CodeType) -> tuple[bytes, str] | None:
        """What `closure` finds *code* by; None if it can't."""
        digest, qualname = plan_of(code).digest, _qualname(code)
        found = [each for _function, each in self._functions.get(digest, ()) if _qualname(each) == qualname]
        return (digest, qualname) if len(found) == 1 and found[0] is code else None

    @_and_beyond
    def variable_of(self, value: object, name: str) -> LiveValue | None:
        """The variable of a reachable function that holds this very *value*, one called *name* if there is one."""
        others = []
        for function in [obj for _digest, obj in self._objects if isinstance(obj, FunctionType)]:
            for kind in ("closure", "global"):
                for variable, held in _variables_of(function, kind):
                    if held is value and variable == name:
                        return LiveValue(function, kind, variable)
                    if held is value:
                        others.append((function, kind, variable))
        return LiveValue(*others[0]) if others else None

    @_and_beyond
    def closure(self, digest: bytes, qualname: str) -> tuple[FunctionType, CodeType]:
        """The function around a closure's code, and that code.  Raises Unresolvable."""
        found = [pair for pair in self._functions.get(digest, ()) if _qualname(pair[1]) == qualname]
        if len(found) != 1:
            msg = f"the closure {qualname} is {'gone' if not found else 'there more than once'}"
            raise Unresolvable(msg)
        return found[0]

    def own_objects(self) -> list[object]:
        """What is reached from the unit itself, unless more has been asked for."""
        return [obj for _digest, obj in self._objects]

    def objects(self) -> list[object]:
        """All that is reached, the root first."""
        self._extend()
        return [obj for _digest, obj in self._objects]

    @_and_beyond
    def reference(self, obj: object) -> tuple[int, bytes] | None:
        """Position and identity of a reachable object, from which `referent` finds its counterpart."""
        position = self._positions.get(id(obj))
        return None if position is None else (position, self._objects[position][0])

    @_and_beyond
    def referent(self, reference: tuple[int, bytes]) -> object:
        """The object that *reference* means here.  Raises Unresolvable.

        Walks of equal graphs visit in the same order, so the position tells apart even objects
        that are alike; where it is off, because two objects there are one here, identity must do.
        """
        position, digest = reference
        if position < len(self._objects) and self._objects[position][0] == digest:
            return self._objects[position][1]
        found = [obj for other, obj in self._objects if other == digest]
        if len(found) != 1:
            msg = "something that the code refers to is not reachable" if not found else "two objects are alike"
            raise Unresolvable(msg)
        return found[0]


# -- while compiling ---------------------------------------------------------------------------

_KINDS = frozenset(id(kind) for kind in vars(kinds).values() if isinstance(kind, type))
"""Python's own, as of methods and cells, which say that they are from builtins but are not there."""


def _new_token(frame: Frame, definition: Definition, live: Any) -> str:
    token = f"nbcache!{frame.build}.{next(frame.ordinals)}!"
    definitions[token] = definition
    _live[token] = live if isinstance(live, tuple | addresses.Address) else weakref.ref(live)
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


def _live_location(frame: Frame, location: Location) -> LiveLocation | Location:
    name, filename, line = location
    definition = _toolchain_file(name, filename, line) or _code_line(frame, name, filename, line)
    if definition is None and os.path.exists(filename):
        definition = ("file", name, filename, file_digest(filename), line)
    if definition is None:
        return location
    return LiveLocation(_new_token(frame, definition, location))


def _code_line(frame: Frame, name: str, filename: str, line: int) -> Definition | None:
    codes = frame.reach.codes_at(filename, line) if frame.reach is not None else []
    if not codes:
        return None
    places = ((plan_of(code).digest, _qualname(code), offsets) for code, offsets in codes)
    return ("line", name, tuple(places))


def _toolchain_file(name: str, filename: str, line: int) -> Definition | None:
    for package in ("numba", "numpy", "llvmlite"):
        for root in getattr(sys.modules.get(package), "__path__", ()):
            if filename.startswith(root + os.sep):
                return ("toolchain", name, package, filename[len(root) + 1 :], line)
    return None


def live_reference(frame: Frame, obj: object) -> str | None:
    """The token to pickle for a function, class or Dispatcher that has no importable name.

    None when its name will do.  What is neither importable nor reachable taints the frame: it
    would come back as a copy, which is not what a fresh compile refers to.
    """
    module = getattr(obj, "__module__", None)
    qualname = getattr(obj, "__qualname__", None)
    if isinstance(obj, type) and id(obj) in _KINDS:
        return None
    if isinstance(qualname, str) and is_toolchain_definition(obj):
        return None
    if isinstance(module, str) and isinstance(qualname, str) and module not in {"__main__", "__mp_main__"}:
        with suppressed(Exception):  # a module's __getattr__ may raise anything
            if resolve_name(module, qualname) is obj:
                return None
    reference = frame.reach.reference(obj) if frame.reach is not None else None
    if reference is None:
        frame.taint = frame.taint or f"it refers to {qualname or obj}, which only this process has"
        return None
    return _new_token(frame, ("object", reference), obj)


def live_value(frame: Frame, obj: object, name: str = "") -> Recalled:
    """What to pickle for an object that compiled code must find as it is, and not as a copy; Unresolvable if it can't.

    *name* is that of the variable, if it is known.
    """
    live = frame.reach.variable_of(obj, name) if frame.reach is not None else None
    if live is None:
        msg = f"it refers to an object of type {type(obj).__name__} that no variable of a function holds"
        raise Unresolvable(msg)
    reference = frame.reach.reference(live.function)  # type: ignore[union-attr]
    return Recalled(_new_token(frame, ("value", reference, live.kind, live.variable), live))


def live_address(frame: Frame, value: int) -> str | None:
    """The symbol to use for a variable that holds the address *value*; None when it is nobody's."""
    known = frame.addresses.get(value)
    # What can't become an entry needs no names; to find them may take a walk through half of a package.
    if known is None and frame.reach is not None and not frame.taint:
        found = addresses.owner_of(value, frame.reach)
        found = found or addresses.owner_of_closure(value, frame.closures, frame.reach)
        if found is not None:
            owner, address = found
            known = frame.addresses[value] = _new_token(frame, ("address", owner), address)
            addresses.provide(known, address)
    return known


# -- in an entry -------------------------------------------------------------------------------


def tokens_in(code: bytes) -> set[str]:
    """The tokens spelled out in object code."""
    return {match.decode() for match in _SPELLING.findall(code)}


def definition_for(token: str, reach: Callable[[], Reach]) -> Definition:
    """A token's definition in terms of what the unit being packed reaches.  Raises Unresolvable.

    The token may have come with a callee's code, whose positions are another unit's.
    """
    definition = definitions[token]
    if definition[0] == "object":
        return ("object", _reference(_live[token](), reach))
    if definition[0] == "value":
        live = _live[token]()
        return ("value", _reference(live.function, reach), live.kind, live.variable)
    if definition[0] == "address" and definition[1][0] not in addresses.NAMED:
        return ("address", (definition[1][0], _reference(_live[token].owner, reach)))
    return definition


def _reference(obj: object, reach: Callable[[], Reach]) -> tuple[int, bytes]:
    reference = reach().reference(obj)
    if reference is None:
        msg = f"it refers to {getattr(obj, '__qualname__', type(obj).__name__)}, which only exists after compiling"
        raise Unresolvable(msg)
    return reference


def bind(found: dict[str, Definition], reach: Any) -> list[object]:
    """Make every token of an entry about to be loaded mean something here, or raise Unresolvable.

    *reach* is a callable returning the Reach of the function being loaded; it is only called when
    something must be looked up.  Returns what must live as long as the code.
    """
    fresh: dict[str, Any] = {}
    held: list[object] = []
    for token, definition in found.items():
        known = _live.get(token)
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
        if not isinstance(value, tuple | addresses.Address):
            value = weakref.ref(value)
        if token in _live and not _same(_live[token], value):
            msg = "the same code is loaded already, for a function that stands elsewhere"
            raise Taken(msg)
        fresh[token] = value
    _live.update(fresh)
    for token, value in fresh.items():
        if isinstance(value, addresses.Address):
            addresses.provide(token, value)
    definitions.update(found)
    return held


def _same(one: Any, other: Any) -> bool:
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
            msg = "lines that were one are two now"
            raise Unresolvable(msg)
        return (name, *places.pop())
    if kind == "toolchain":
        _, name, package, relative, line = definition
        return (name, os.path.join(sys.modules[package].__path__[0], relative), line)
    if kind == "file":
        _, name, filename, digest, line = definition
        if file_digest(filename) != digest:
            msg = f"{filename} changed"
            raise Unresolvable(msg)
        return (name, filename, line)
    if kind == "object":
        return reach().referent(definition[1])
    if kind == "value":
        _, reference, where, variable = definition
        try:
            return LiveValue(reach().referent(reference), where, variable)
        except KeyError as exc:
            msg = f"the variable {variable} is gone"
            raise Unresolvable(msg) from exc
    if kind == "address":
        try:
            return addresses.locate(definition[1], reach)
        except LookupError as exc:
            raise Unresolvable(str(exc)) from exc
    msg = f"unknown kind of reference {kind!r}"
    raise Unresolvable(msg)
