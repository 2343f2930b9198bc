"""Pickles inside an entry, with placeholders for what must not come back as a copy."""

from __future__ import annotations

import copyreg
import functools
import io
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from types import FunctionType
from typing import Any

import numpy as np
from numba.core import ir, types
from numba.core.dispatcher import LiftedCode, LiftedWith
from numba.core.registry import cpu_target
from numba.core.serialize import NumbaPickler
from numba.core.types.abstract import Type, _type_reconstructor
from numba.core.typing import npydecl
from numba.core.typing.templates import builtin_registry

from nbcache.glue import own_attributes
from nbcache.glue.capture import placeholders
from nbcache.glue.capture.compilations import Frame
from nbcache.glue.entries.meta import living_type, name_of, type_called
from nbcache.glue.entries.verdicts import Unloadable, Unstorable
from nbcache.glue.identity.asked_names import as_made
from nbcache.glue.identity.describe_numba import ADDRESS, types_in
from nbcache.glue.identity.describe_numpy import by_address
from nbcache.glue.identity.node import Unidentifiable
from nbcache.glue.identity.object_mode import DEFINITIONS, is_value
from nbcache.glue.identity.ownership import is_toolchain_definition, toolchain_name
from nbcache.passing_exceptions import let_pass, suppressed


class TokenPickler(NumbaPickler):
    """Numba's pickler, with tokens for what must not come back as a copy."""

    def __init__(self, file: io.BytesIO, frame: Frame, *, for_entry: bool = False) -> None:
        super().__init__(file, protocol=4)
        self._frame = frame
        self._for_entry = for_entry

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, DEFINITIONS):
            reference = placeholders.live_reference(self._frame, obj)
            if reference is not None:
                return placeholders.recall, reference
        elif isinstance(obj, np.ndarray) and by_address(obj):
            # Identity covers the head of such an array; only here is its content written down, for object mode.
            self._frame.taint = self._frame.taint or "it writes down an array that counts by its address"
        elif isinstance(obj, LiftedCode):
            rebuild, state = obj.__reduce__()
            origin = _numbered(obj, self._frame)
            return (rebuild, state) if origin is None else (_lifted_from, (origin, rebuild, state))
        elif isinstance(obj, types.BoundFunction):
            return self._method(obj)
        elif isinstance(obj, types.Function):
            return self._function(obj)
        elif isinstance(obj, Type) and name_of(obj) is not None:
            return type_called, (name_of(obj),)
        elif self._is_somebodys_type(obj) and (reference := placeholders.live_type(self._frame, obj)) is not None:
            return placeholders.recall, reference
        elif isinstance(obj, _VIEWS_OF_DICTIONARIES):
            # Its iterator's type refers to it, and Numba compares types that it has made half.
            return type(obj), (obj.parent,)
        elif isinstance(obj, Type) and re.search(ADDRESS, obj.name):
            return self._addressed_type(obj)
        elif isinstance(obj, _HOLDERS) and not is_value(obj.value):
            # Code lifted out of a function is compiled when it is entered, with the objects that the function had.
            live = placeholders.live_value(self._frame, obj.value, getattr(obj, "name", ""))
            return copyreg.__newobj__, (type(obj),), {**vars(obj), "value": live}  # type: ignore[attr-defined]
        elif isinstance(obj, Type) and type(obj) not in copyreg.dispatch_table:
            return self._living(obj) if self._is_somebodys_type(obj) else _reduced(obj)
        return super().reducer_override(obj)

    def _is_somebodys_type(self, obj: Any) -> bool:
        """Whether a type may hold what its owner fills in while it compiles; in code are copies, as without a cache."""
        return self._for_entry and isinstance(obj, Type) and not is_toolchain_definition(type(obj))

    def _living(self, obj: Type) -> Any:
        """What pickles a type that the program makes, see `living_type`."""
        reduced = _reduced(obj)
        if reduced[0] is not _type_reconstructor:  # who says how it is made again makes it himself
            return reduced
        reconstructor, made_of, _state = reduced[1]
        state, content = self._as_made(obj)
        return living_type, (reconstructor, made_of, _interned_state(state), content)

    def _as_made(self, obj: Type) -> tuple[dict[str, Any], bytes]:
        """What somebody's type held when it was made, and what tells its class: b"" if that isn't known."""
        held = as_made.of(obj)
        if held is not None and self._frame.unit is not None:
            with suppressed(Unidentifiable):
                return held, self._frame.unit.maker.engine.digest_for_good((type(obj),))
        return vars(obj), b""

    def _method(self, obj: Any) -> Any:
        """A method of a type refers to the context it was resolved in, and is resolved again where it is needed."""
        key = obj.typing_key
        attribute = key[1] if isinstance(key, tuple) else key.rpartition(".")[2]
        chooser = own_attributes.unheard(getattr(obj.template, "_overload_func", None))
        if is_toolchain_definition(chooser):
            chooser = None
        if _resolve(obj.this, attribute) != obj:
            raise pickle.PicklingError(f"a method {attribute} that {obj.this} is not known to have")
        return _method_of, (obj.this, attribute, key, chooser)

    def _function(self, obj: Any) -> Any:
        """A function that Numba was told how to compile is looked up again by the function it stands for."""
        if all(toolchain_name(template) is not None for template in obj.templates):
            return super().reducer_override(obj)
        if _registered_for(obj.typing_key) != obj:
            msg = f"the type {re.sub(ADDRESS, '', obj.name)} has something that is not registered with Numba"
            raise pickle.PicklingError(msg)
        return _function_of, (obj.typing_key,)

    def _addressed_type(self, obj: Any) -> Any:
        """A type that is named by an address must be made again, around what it stands for here."""
        if isinstance(obj, types.Generator):
            return types.Generator, (obj.gen_func, obj.yield_type, obj.arg_types, obj.state_types, obj.has_finalizer)
        if isinstance(obj, types.Dispatcher):
            return type(obj), (obj.dispatcher,)
        if isinstance(obj, types.Omitted):
            return type(obj), (obj.value,)
        if isinstance(obj, types.ClassInstanceType):
            return type(obj), (obj.class_type,)
        if self._frame.reach is not None and self._frame.reach.reference(obj) is not None:
            return placeholders.recall, placeholders.live_reference(self._frame, obj)
        # Its name has those of other types in it, or what Python writes for functions.
        is_somebodys = self._is_somebodys_type(obj)
        held, content = self._as_made(obj) if is_somebodys else (vars(obj), b"")
        state = {field: value for field, value in held.items() if field not in {"_code", "name"}}
        found = {_spelt(part): part for part in _addressed_in(state.values())}
        parts = [found[spelling] for spelling in sorted(found, key=len, reverse=True)]
        name = obj.name
        for i, part in enumerate(parts):
            name = name.replace(_spelt(part), f"\0{i}\0")
        if re.search(ADDRESS, name):
            raise pickle.PicklingError(f"the type {re.sub(ADDRESS, '', obj.name)} is named by an address")
        maker = (living_type, content) if is_somebodys else (_type_reconstructor,)
        return _type_of_parts, (type(obj), state, name, parts, *maker)


def _reduced(obj: Type) -> Any:
    """What pickles a type, in the same bytes whether it was made here or came out of an entry.

    A pickle refers back to a string if that is the same object. The names of attributes, and of fields that a program
    spells, are the same objects in all types that Numba makes; those that were unpickled together have strings of their
    own.
    """
    reduced = obj.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    if reduced[0] is not _type_reconstructor:
        return reduced
    reconstructor, made_of, state = reduced[1]
    state = _interned_state(state)
    if isinstance(obj, types.Tuple) and isinstance(obj.dtype, types.UnionType):
        state["dtype"] = _UnionOf(obj.types)
    return _type_reconstructor, (reconstructor, made_of, state)


class _UnionOf:
    """What the items of a tuple have in common: pickled as what Numba makes of their types where it is unpickled.

    Numba keeps one such type for each name. If a program has made a class again, as whoever runs a cell of a notebook
    twice, a tuple with an instance of the new class leads to the old one.
    """

    __slots__ = ("types",)

    def __init__(self, items: tuple[Type, ...]) -> None:
        self.types = items

    def __reduce__(self) -> tuple[type[Type], tuple[object, ...]]:
        return types.UnionType, (self.types,)


def _interned_state(state: dict[str, Any]) -> dict[str, Any]:
    return {sys.intern(name): _interned(value) for name, value in state.items()}


def _interned(value: Any) -> Any:
    """The same with one object for each text in it."""
    if type(value) is str:
        return sys.intern(value)
    return tuple(map(_interned, value)) if type(value) is tuple else value


def _resolve(this: Type, attribute: str) -> Any:
    return cpu_target.typing_context.resolve_getattr(this, attribute)


def _method_of(this: Type, attribute: str, key: Any, chooser: Any) -> Type:
    """Called by unpickling: the type of a method, as it is resolved here.  Raises Unloadable."""
    found = _resolve(this, attribute)
    known = own_attributes.unheard(getattr(getattr(found, "template", None), "_overload_func", None))
    if getattr(found, "typing_key", None) != key or (chooser is not None and known is not chooser):
        raise Unloadable(f"the method {attribute} of {this} is another one here")
    return found


def _registered_for(function: Any) -> Type | None:
    """The type of *function*, put together as a typing context does; None if nothing is registered for it."""
    found: Any = None
    for value, typ in chain(builtin_registry.globals, npydecl.registry.globals):
        if value is function:
            found = typ if found is None else found.augment(typ)
    # What a program made, such as a ufunc with dynamic loops, tells the context alone.
    return cpu_target.typing_context._lookup_global(function) if found is None else found


def _function_of(function: Any) -> Type:
    """Called by unpickling: the type of a function that Numba was told how to compile.  Raises Unloadable."""
    _filled()
    found = _registered_for(function)
    if found is None:
        _fill()  # what was registered since
        found = _registered_for(function)
    if found is None:
        raise Unloadable(f"nothing is registered with Numba for {getattr(function, '__qualname__', function)}")
    return found


def _fill() -> None:
    cpu_target.target_context.refresh()
    cpu_target.typing_context.refresh()


_filled = functools.cache(_fill)
"""Numba registers some of its own when they are needed, in modules that say how they are lowered. The type of a
function has all that is registered for it; one that was made before lacked some, and compiled code was for another."""


def _addressed_in(values: Iterable[Any]) -> Iterator[Any]:
    """The functions among *values* and in their containers, and the types that are named by an address."""
    for value in values:
        if isinstance(value, FunctionType) or (isinstance(value, Type) and re.search(ADDRESS, value.name)):
            yield value
        elif isinstance(value, tuple | list):
            yield from _addressed_in(value)
        elif isinstance(value, dict):
            yield from _addressed_in((*value, *value.values()))


def _spelt(part: Any) -> str:
    """What the name of a type has of one of those in it."""
    return part.name if isinstance(part, Type) else hex(id(part))


def _type_of_parts(
    cls: type[Type], state: dict[str, Any], name: str, parts: list[Any], maker: Callable[..., Type], *content: bytes
) -> Type:
    """Called by unpickling: a type whose name contains what is written for *parts*, as it is written here."""
    for i, part in enumerate(parts):
        name = name.replace(f"\0{i}\0", _spelt(part))
    return maker(copyreg._reconstructor, (cls, object, None), {**state, "name": name}, *content)  # type: ignore[attr-defined]


def origin_of(lifted: LiftedCode, frame: Frame | None) -> tuple[str, int] | None:
    """The key of the unit that a piece of code was lifted from, and its number there; None if that has no key.

    An ``objmode`` block is compiled while that unit's *frame* is open. A loop is when it is first
    called, whatever is being compiled then: it has an origin once its unit was stored or loaded.
    """
    return _numbered(lifted, frame if isinstance(lifted, LiftedWith) else None)


def _numbered(lifted: LiftedCode, frame: Frame | None) -> tuple[str, int] | None:
    origin = vars(lifted).get(own_attributes.ORIGIN)
    if origin is None and frame is not None and frame.unit is not None:
        origin = vars(lifted)[own_attributes.ORIGIN] = (frame.unit.key, next(frame.blocks))
    return origin


def _lifted_from(origin: tuple[str, int], rebuild: Callable[..., LiftedCode], state: tuple[Any, ...]) -> LiftedCode:
    lifted = rebuild(*state)
    vars(lifted).setdefault(own_attributes.ORIGIN, origin)
    return lifted


_VIEWS_OF_DICTIONARIES = (types.DictItemsIterableType, types.DictKeysIterableType, types.DictValuesIterableType)
_HOLDERS = (ir.Const, ir.Global, ir.FreeVar)


def constants(values: Iterable[Any], frame: Frame) -> list[Any]:
    """The constants of an environment, as they are pickled."""
    return [value if is_value(value) else placeholders.live_value(frame, value) for value in values]


def can_be_named(args: tuple[Type, ...], frame: Frame) -> bool:
    """Whether another process that reads these types out of an entry has the ones that it would compile for.

    If not, they are nobody else's either: they hold a function that Numba made of a closure. Raises Unstorable where
    others have them too, as they have a generator that an overload chose: nobody could tell them what was compiled.
    """
    if _come_back(args, frame):
        return True
    if any(isinstance(typ, types.Callable) and not _come_back((typ,), frame) for typ in types_in(args)):
        return False
    kinds = {type(typ).__name__ for typ in args if not _come_back((typ,), frame)}
    raise Unstorable(f"it calls a function with a type that no other process can name ({', '.join(sorted(kinds))})")


_SAME_EVERYWHERE: set[tuple[Type, ...]] = set()
"""Types that come back whatever the frame: their pickles refer to nothing of it. A caller asks for all below it."""


def _come_back(args: tuple[Type, ...], frame: Frame) -> bool:
    if args in _SAME_EVERYWHERE:
        return True
    taint = frame.taint
    try:
        data = dumps(args, frame)
        same: bool = pickle.loads(data) == args and frame.taint == taint  # noqa: S301  what was just written
        if same and not placeholders.tokens_in(data):
            _SAME_EVERYWHERE.add(args)
    except Exception as raised:  # noqa: BLE001  whatever makes a type what can't be written down
        let_pass(raised)
        return False
    else:
        return same
    finally:
        frame.taint = taint


def dumps(obj: object, frame: Frame, *, for_entry: bool = False) -> bytes:
    """Pickle *obj* for use in any process that can resolve *frame*'s tokens; *for_entry*: not in code."""
    with io.BytesIO() as file:
        TokenPickler(file, frame, for_entry=for_entry).dump(obj)
        return file.getvalue()


def dumps_each(objs: Iterable[object], frame: Frame) -> bytes:
    """The same for an entry with one pickle after the other, each of which is read once the program has got so far."""
    with io.BytesIO() as file:
        pickler = TokenPickler(file, frame, for_entry=True)
        for obj in objs:
            pickler.dump(obj)
        return file.getvalue()
