"""An index over all that a unit reaches, by which a thing here is found again as its counterpart elsewhere."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType, FunctionType, GeneratorType
from typing import Any

from nbcache.glue.identity.bytecode import nested_codes, plan_of, variables_of
from nbcache.glue.identity.describe_numba import nameless
from nbcache.glue.identity.marked_packages import Ran
from nbcache.glue.identity.node import Node, Unresolvable
from nbcache.glue.identity.only_named import Referred
from nbcache.glue.identity.ownership import address, is_toolchain_definition
from nbcache.passing_exceptions import suppressed


class LiveValue:
    """An object with a life of its own, and the variable that compiled code has it from.

    ``kind``: "closure" or "global", of *function*. The library of the code holds this, and so the object.
    """

    __slots__ = ("__weakref__", "_function", "kind", "obj", "variable")

    def __init__(self, function: FunctionType, kind: str, variable: str) -> None:
        self._function = weakref.ref(function)
        self.kind = kind
        self.variable = variable
        self.obj = dict(variables_of(function))[kind, variable]

    @property
    def function(self) -> FunctionType | None:
        """The function, or None when it is no more."""
        return self._function()


def qualname_of(code: CodeType) -> str:
    """Return the qualified name of what a code object is of; the plain one where Python has no other."""
    return getattr(code, "co_qualname", code.co_name)


def _and_beyond(look: Callable[..., Any]) -> Callable[..., Any]:
    """Look among what is reached from the unit itself; only what isn't there is looked for further off."""

    @functools.wraps(look)
    def look_further(self: Reach, *args: Any) -> Any:
        while self._beyond:
            with suppressed(Unresolvable):
                found = look(self, *args)
                if found is not None:  # whatever it is: not every object can be asked whether it is true
                    return found
            self._extend()
        return look(self, *args)

    return look_further


class Reach:
    """An index over all that a unit reaches: code objects by file and digest, objects by identity.

    *beyond* yields what it reaches by way of registrations with Numba: large, in some packages, and seldom needed.
    *chosen* yields what is reached from what choosers chose for it, which is known once they were asked.
    *types*: those that it takes and what these are made of, if others made any of them.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        beyond: Callable[[], Iterable[Node]] | None = None,
        chosen: Callable[[], Iterable[Node]] = tuple,
        types: Sequence[object] = (),
    ) -> None:
        self.types = types
        self._beyond = [] if beyond is None else [chosen, beyond]
        self._coming: Iterator[Node] | None = None
        self._chosen = chosen
        self._positions: dict[int, int] = {}
        self._objects: list[tuple[bytes, object]] = []
        self._functions: dict[bytes, list[tuple[FunctionType, CodeType]]] = {}
        self._codes: dict[str, list[CodeType]] = {}
        self._codes_by_digest: dict[bytes, list[CodeType]] = {}
        self._add(nodes)
        self._own = len(self._objects)

    @property
    def went_further(self) -> bool:
        """Whether anything was looked for beyond what is reached from the unit itself."""
        return self._coming is not None or len(self._beyond) < 2 or "choices" in vars(self)

    def _extend(self) -> None:
        left = len(self._beyond)
        while len(self._beyond) == left:
            self._goes_on()

    def _goes_on(self) -> bool:
        """Add the next that is further off; return whether there may be more."""
        if not self._beyond:
            return False
        if self._coming is None:
            self._coming = iter(self._beyond[0]())
        if isinstance(self._coming, GeneratorType) and self._coming.gi_running:
            # A walk runs code of a module that is asked for an attribute, and that compiles something.
            raise Unresolvable("it is being looked for where it could be found")
        node = next(self._coming, None)
        if node is None:
            del self._beyond[0]
            self._coming = None
            return True
        known = self._positions.get(id(node.obj))
        if known is None:
            self._add([node])
        elif self._objects[known][0] != node.digest:
            # What runs while compiling counts by more than what is compiled. Whoever made the entry came by the
            # object on one of both ways.
            self._objects.append((node.digest or b"", node.obj))
        return True

    def _add(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            if isinstance(node.obj, Referred):
                self._positions.setdefault(id(node.obj.target), len(self._objects))
                self._objects.append((node.digest or b"", node.obj.target))
                continue
            obj = node.obj.function if isinstance(node.obj, Ran) else node.obj
            self._positions.setdefault(id(obj), len(self._objects))
            self._objects.append((node.digest or b"", obj))
            if isinstance(obj, FunctionType):
                self._add_code(obj)

    def _add_code(self, function: FunctionType) -> None:
        for each in nested_codes(function.__code__):
            self._functions.setdefault(plan_of(each).digest, []).append((function, each))
            known = self._codes.setdefault(each.co_filename, [])
            if not any(each is other for other in known):
                known.append(each)
                self._codes_by_digest.setdefault(plan_of(each).digest, []).append(each)

    @_and_beyond
    def codes_at(self, filename: str, line: int) -> list[tuple[CodeType, tuple[int, ...]]] | None:
        """Code objects with bytecode for this line, each with the offsets of that bytecode; None if there are none.

        For line 1, which stands for what is on no line of a file, the first code object of that.
        """
        found = []
        codes = self._codes.get(filename, [])
        for code in codes:
            offsets = tuple(start for start, _end, at in code.co_lines() if at == line)
            if offsets:
                found.append((code, offsets))
        if line == 1 and not found:
            found = [(code, ()) for code in codes[:1]]
        return found or None

    @_and_beyond
    def line_of(self, digest: bytes, qualname: str, offsets: tuple[int, ...]) -> tuple[str, int]:
        """Where the code with this digest stands now; without *offsets* line 1 of its file.  Raises Unresolvable."""
        answers = set()
        for code in self._codes_by_digest.get(digest, ()):
            if qualname_of(code) == qualname:
                lines = {at for start, end, at in code.co_lines() for offset in offsets if start <= offset < end}
                lines = lines if offsets else {1}
                answers |= {(code.co_filename, at) for at in lines}
        if len(answers) != 1:
            raise Unresolvable(f"the lines of {qualname} are {'gone' if not answers else 'arranged differently'}")
        filename, line = answers.pop()
        if line is None:
            raise Unresolvable(f"{qualname} has no line there")
        return filename, line

    @_and_beyond
    def place_of(self, code: CodeType) -> tuple[bytes, str] | None:
        """What `closure` finds *code* by; None if it can't."""
        digest, qualname = plan_of(code).digest, qualname_of(code)
        found = [each for _function, each in self._functions.get(digest, ()) if qualname_of(each) == qualname]
        return (digest, qualname) if len(found) == 1 and found[0] is code else None

    @_and_beyond
    def variable_of(self, value: object, name: str) -> LiveValue | None:
        """The variable of a reachable function that holds this very *value*, one called *name* if there is one."""
        others = []
        for function in [obj for _digest, obj in self._objects if isinstance(obj, FunctionType)]:
            for (kind, variable), held in variables_of(function):
                if held is value and variable == name:
                    return LiveValue(function, kind, variable)
                if held is value:
                    others.append((function, kind, variable))
        return LiveValue(*others[0]) if others else None

    @_and_beyond
    def closure(self, digest: bytes, qualname: str) -> tuple[FunctionType, CodeType]:
        """The function around a closure's code, and that code.  Raises Unresolvable."""
        found = [pair for pair in self._functions.get(digest, ()) if qualname_of(pair[1]) == qualname]
        if len(found) != 1:
            raise Unresolvable(f"the closure {qualname} is {'gone' if not found else 'there more than once'}")
        return found[0]

    def own_objects(self) -> list[object]:
        """What is reached from the unit itself."""
        return [obj for _digest, obj in self._objects[: self._own]]

    def objects(self) -> Iterator[object]:
        """All that is reached, the root first; it is walked no further than somebody goes through it."""
        position = 0
        while True:
            for _digest, obj in self._objects[position:]:
                position += 1
                yield obj
            if position == len(self._objects) and not self._goes_on():
                return

    @functools.cached_property
    def choices(self) -> Reach:
        """What is reached from what choosers chose."""
        return Reach(self._chosen())

    def reference_of_effect(self, obj: object) -> tuple[int, bytes] | None:
        """As `reference`, for who asks once choosers were asked: what they import then, they alone lead to.

        Positions among `choices` are negative.
        """
        found = self.reference(obj)
        if found is None:
            among = self.choices.reference(obj)
            return None if among is None else (-1 - among[0], among[1])
        return found

    @_and_beyond
    def reference(self, obj: object) -> tuple[int, bytes] | None:
        """Position and identity of a reachable object, from which `referent` finds its counterpart."""
        position = self._positions.get(id(obj))
        return None if position is None else (position, self._objects[position][0])

    def lasting_reference(self, obj: object) -> tuple[int, bytes | tuple[str, str]] | None:
        """As `reference`; for what others' types hold, whose content grows while they are asked, type and attribute."""
        for position, typ in enumerate(self.types if obj is not None else ()):
            if not is_toolchain_definition(type(typ)):
                held = next((name for name, value in vars(typ).items() if value is obj), None)
                if held is not None:
                    return position, (nameless(typ), held)
        found: tuple[int, bytes] | None = self.reference(obj)
        return found

    def type_at(self, position: int, name: str) -> object:
        """The type that *position* and *name* mean here.  Raises Unresolvable.

        The other half of a recursion is loaded for a function that takes others.
        """
        found = self.types[position : position + 1]
        if [*map(nameless, found)] != [name]:
            msg = f"the type {name} is not where it was"
            raise Unresolvable(msg)
        return found[0]

    def own_reference(self, obj: object) -> tuple[int, bytes] | None:
        """The same for what is reached from the unit itself, whatever else has been asked for already."""
        position = self._positions.get(id(obj), self._own)
        return None if position >= self._own else (position, self._objects[position][0])

    def referent(self, reference: tuple[int, bytes | tuple[str, str]]) -> object:
        """The object that *reference* means here.  Raises Unresolvable."""
        position, digest = reference
        if isinstance(digest, tuple):
            return self._held(position, *digest)
        if position < 0:
            return self.choices.referent((-1 - position, digest))
        return self._referent((position, digest))

    def _held(self, position: int, name: str, attribute: str) -> object:
        try:
            return vars(self.type_at(position, name))[attribute]
        except KeyError as exc:
            msg = f"the type {name} has no {attribute} yet"
            raise Unresolvable(msg) from exc

    def _referent(self, reference: tuple[int, bytes]) -> object:
        """The same for what is reached otherwise.

        Walks of equal graphs visit in the same order, so the position tells apart even objects
        that are alike; where it is off, because two objects there are one here, identity must do: among all there is.
        """
        position, digest = reference
        while position >= len(self._objects) and self._goes_on():
            pass
        if position < len(self._objects) and self._objects[position][0] == digest:
            return self._objects[position][1]
        while self._goes_on():
            pass
        found = {address(obj): obj for other, obj in self._objects if other == digest}
        if len(found) != 1:
            msg = "something that the code refers to is not reachable" if not found else "two objects are alike"
            raise Unresolvable(msg)
        return found.popitem()[1]
