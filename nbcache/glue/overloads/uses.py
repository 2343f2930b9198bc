"""What a compilation was built upon, as an entry lists it: overloads, choices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

from numba.core import types

from nbcache.glue import own_attributes
from nbcache.glue.capture.compilations import Effect
from nbcache.glue.identity.bytecode import nested_codes, plan_of
from nbcache.glue.identity.dispatcher_past import Given, past_of
from nbcache.glue.identity.node import Unidentifiable, Unresolvable
from nbcache.glue.identity.ownership import is_toolchain_definition, toolchain_name
from nbcache.glue.keys.units import Unit
from nbcache.records import Record

ID_BYTES: Final = 16
_PLAIN: Final = frozenset({types.Array, types.Boolean, types.Complex, types.Float, types.Integer, types.UnicodeType})
"""Types that are the same in each process, as anybody can see."""


class OverloadUse(Record):
    """An overload, a loop or a neighborhood of an object that the unit reaches: users look at it too."""

    kind: str
    reference: tuple[int, bytes]
    args: tuple[Any, ...]
    return_type: Any
    given: Given
    fresh: bool
    key: str
    """Of the unit that it is; "" if there is none."""
    momentary: bool
    """Whether it has to be loaded at once: later, what it is made of may be no more."""


class ChoiceUse(Record):
    """The implementation that somebody's chooser gave: where the chooser is registered, what for, and its key."""

    place: tuple[bytes, int]
    name: bytes
    key: str
    fresh: bool


class Uses:
    """All of one compilation."""

    __slots__ = ("choices", "overloads")

    def __init__(self, overloads: Iterable[OverloadUse] = (), choices: Iterable[ChoiceUse] = ()) -> None:
        self.overloads = list(overloads)
        self.choices = list(choices)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.overloads or self.choices)

    def packed(self) -> tuple[Any, ...]:
        """As they stand in an entry: plain tuples, which are read without a look at any class."""
        return [tuple(each) for each in self.overloads], [tuple(each) for each in self.choices]

    @classmethod
    def unpacked(cls, packed: tuple[Any, ...]) -> Uses:
        """The same out of an entry."""
        overloads, choices = packed
        return cls(map(OverloadUse._make, overloads), map(ChoiceUse._make, choices))

    def lines(
        self, types_digest: Callable[[tuple[Any, ...]], bytes], which: Callable[[Given, bool], bool]
    ) -> list[str]:
        """Those in words of which *which* holds: equal ones for equal uses."""
        seen = (use for use in self.overloads if which(use.given, use.fresh))
        lines = [f"{use.reference[1].hex()} {types_digest(use.args).hex()} {use.given}" for use in seen]
        lines += (f"{each.place} {each.name.hex()} {each.key}" for each in self.choices if which((), each.fresh))
        return sorted(lines)


def uses_of(
    unit: Unit,
    effects: Iterable[Effect],
    can_be_named: Callable[[tuple[Any, ...]], bool],
    bound: Collection[str],
) -> Uses:
    """What an entry says of the *effects* that compiling its unit had, in terms of what the unit reaches.

    Its code has tokens that will be *bound* where it is loaded, and so are in what it is built upon.

    *can_be_named* tells of types whether an entry can have them, and raises where there can't be an entry.
    """
    uses = Uses()
    for effect in effects:
        if effect.obj is unit.owner and effect.args == unit.args:
            continue
        if effect.kind == "implementation":
            place = unit.maker.extensions.place(effect.obj)
            (name,) = effect.args
            uses.choices.append(ChoiceUse(place, name, effect.given[0][1], effect.fresh))
            continue
        reference = _reference(unit, effect, can_be_named)
        if reference is not None:
            kind, obj, args, return_type, given, fresh = effect
            key = key_of(obj, args) or unit.frames.key_of(obj, args)
            momentary = kind == "dispatcher" and _is_momentary(unit, obj, args, bound)
            uses.overloads.append(OverloadUse(kind, reference, args, return_type, given, fresh, key, momentary))
        elif effect.kind == "ufunc" and not effect.fresh:
            raise Unidentifiable("a loop of a ufunc that nothing leads to, compiled under other circumstances")
        elif effect.kind == "dispatcher" and (name := toolchain_name(effect.obj)) is not None:
            msg = f"{name}, which anybody in this process may have compiled first, and under other flags"
            raise Unidentifiable(msg)
    return uses


def resolved(unit: Unit, uses: Uses) -> list[Effect]:
    """An entry's uses, for callers that are compiled later in this process."""
    found = []
    for kind, reference, args, return_type, given, fresh, _key, _momentary in uses.overloads:
        try:
            obj = unit.referent(reference)
            found.append(Effect(kind, obj, types_here(obj, args), return_type, given, fresh))
        except Unresolvable:
            continue
    for place, name, key, fresh in uses.choices:
        template = unit.maker.extensions.at(place)
        if template is not None:
            found.append(Effect("implementation", template, (name,), None, (("key", key),), fresh))
    unit.forget()
    return found


def types_here(dispatcher: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The types of an entry as *dispatcher* has them: that of a default knows it by `is` if it is an array or NaN."""
    if types.Omitted not in map(type, args):  # each hit asks for each callee
        return args
    parameters = dispatcher._compiler.pysig.parameters.values()
    return tuple(
        types.Omitted(parameter.default) if isinstance(typ, types.Omitted) else typ
        for typ, parameter in zip(args, parameters, strict=True)
    )


def _reference(unit: Unit, effect: Effect, can_be_named: Callable[[tuple[Any, ...]], bool]) -> tuple[int, bytes] | None:
    """How to find the object again; None if users can't see it, or can't in other processes.

    Nobody asks for the signatures of Numba's internals, and some functions among the arguments can't be named in
    another process: one that Numba made of a closure, say, which is nobody else's argument.
    """
    obj: Any = effect.obj
    if effect.kind == "stencil":  # says of itself that it is from the module of its class
        return unit.reach().reference(obj)
    if is_toolchain_definition(getattr(obj, "py_func", obj)):
        return None
    reference = unit.reach().reference_of_effect(obj)
    if reference is None or _PLAIN.issuperset(map(type, effect.args)):
        return reference
    return reference if can_be_named(tuple(typ for typ in effect.args if type(typ) is not types.Omitted)) else None


def _is_momentary(unit: Unit, dispatcher: Any, args: tuple[Any, ...], bound: Collection[str]) -> bool:
    """Whether the entry of an overload, loaded when somebody asks for it, could find itself in another world.

    What it refers to, and its caller doesn't, is found by what that is; what it was built upon is compared with what
    there is, and so are answers of choosers and registrations. Of most entries there is
    nothing of it to say, and what is promised and wasn't loaded at once is one of these. Of the other half of a
    recursion nobody knows yet.
    """
    cres = vars(dispatcher)["overloads"].get(args)
    if cres is None:
        return bool(unit.frames.key_of(dispatcher, args))
    if not own_attributes.has_meta(cres.library):  # no entry: it is compiled when somebody asks
        return True
    meta, definitions = own_attributes.meta_of(cres.library)
    uses, consulted = meta.uses, meta.consulted
    if uses.choices or consulted.asks or consulted.snapshot:
        return True
    if any(use.given or not use.fresh for use in uses.overloads):
        return True
    own = {plan_of(code).digest for code in nested_codes(dispatcher.py_func.__code__)}
    return not all(token in bound or _stays(definition, own) for token, definition in definitions.items())


def _stays(definition: tuple[Any, ...], own: set[bytes]) -> bool:
    """Whether a token means what it means for as long as there is the function whose code has the *own* digests."""
    if definition[0] == "line":
        return all(digest in own for digest, _qualname, _offsets in definition[2])
    return definition[0] == "toolchain"


def key_of(obj: Any, args: tuple[Any, ...]) -> str:
    """The key of an overload's unit, also of one that a hit promised; "" if there is none."""
    own = getattr(obj, "__dict__", {})
    cres = own.get("overloads", {}).get(args)
    if cres is None:
        promise = past_of(obj).promised.get(args) if own_attributes.PAST in own else None
        return "" if promise is None else promise.key
    unit = own_attributes.unit_of(cres.library)
    return unit.key if unit is not None else ""
