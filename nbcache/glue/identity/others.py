"""What in one of Numba's modules, classes or containers is somebody else's, or isn't as Numba made it."""

from __future__ import annotations

import builtins
import functools
import sys
from enum import EnumMeta
from operator import is_
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numba.core.dispatcher import Dispatcher

from nbcache.glue.identity import held, told
from nbcache.glue.identity.consulted import spelling_of
from nbcache.glue.identity.exact import CONSTANTS, is_same_constant
from nbcache.glue.identity.ownership import (
    HEAP_TYPE,
    cell_values,
    has_toolchain_methods,
    is_compilers,
    is_toolchain_module,
)
from nbcache.glue.identity.told import ROOTS
from nbcache.glue.identity.watched import are_same
from nbcache.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nbcache.glue.identity.sources import Definitions


class Held(Record):
    """A container of a module or class, or in one of these, or what an object has."""

    name: str
    """``module:name`` or ``module:class.name``"""
    content: Any
    was: tuple[Any, ...] | None = None
    """What it held when it was noted (`held.contents`), None if Numba may have changed it since."""
    kind: type | None = None
    """Of the object whose attributes these are."""


Owner: TypeAlias = "ModuleType | type | Held"
_NOTHING = "there is nothing any more"


def changes_of(owner: Owner, *, is_known: bool) -> dict[str, Any]:
    """What isn't Numba's in it; *is_known*: whether all of it was Numba's once."""
    if isinstance(owner, Held) and owner.was is not None:
        return {owner.name: owner.content} if is_changed(owner) else {}
    members = owner.content if isinstance(owner, Held) else vars(owner)
    others = {
        called(owner, name): value
        for name, value in [*members.items()]
        if (_is_others(value) and not _imports(owner, name, value)) or _is_displaced(owner, name, value)
    }
    if isinstance(owner, Held):
        others.update((called(owner, name), members[name]) for name in _hiding(owner))
    elif is_known:
        others.update((called(owner, name), members[name]) for name in _altered(owner, members))
        others.update((called(owner, name), value) for name, value in _exchanged(owner, members))
    return others


def is_changed(container: Held) -> bool:
    """Whether somebody else than Numba changed what it holds, or its order where there is one."""
    was, now = container.was or (), held.contents(container.content)
    if any(type(each) is FunctionType and _is_others(each) for each in now):  # whenever it was noted
        return True
    if type(container.content) is set:  # what was put back may have another place
        return {*now} != {*was}
    if type(container.content) not in held.KINDS:  # such as Numba's registries by target, which it fills when asked
        return not all(
            dict.get(container.content, key, was) is value for key, value in zip(was[::2], was[1::2], strict=True)
        )
    return len(now) != len(was) or not (all(map(is_, now, was)) or all(map(_are_alike, now, was)))


def _are_alike(one: Any, other: Any) -> bool:
    """Whether they are the same or made alike: Numba makes some loops anew each time; tables in tables count apart."""
    if type(one) is FunctionType and type(other) is FunctionType and one.__code__ is other.__code__:
        return are_same([*cell_values(one)], [*cell_values(other)])
    return one is other or (type(one) is dict and type(other) is dict)


def called(owner: Owner, member: Any) -> str:
    """The name of what an owner has under the name or key *member*."""
    if isinstance(owner, Held):
        return f"{owner.name}[{spelling_of(member)}]"
    if isinstance(owner, ModuleType):
        return f"{owner.__name__}:{member}"
    return f"{owner.__module__}:{owner.__qualname__}.{member}"


def module_of(owner: Owner) -> str:
    """The name of the module that an owner is, or is in."""
    if isinstance(owner, Held):
        return owner.name.partition(":")[0]
    return owner.__name__ if isinstance(owner, ModuleType) else owner.__module__


def _is_others(value: Any) -> bool:
    """Whether a member of a module or class of Numba's is somebody else's definition."""
    kind = type(value)
    if kind is FunctionType:
        return not _is_compilers(value)
    if issubclass(kind, type):
        if not value.__flags__ & HEAP_TYPE:
            return False
        return not (is_toolchain_module(value.__module__) and has_toolchain_methods(value))
    if not all(_is_compilers(part) for part in _parts(value) if isinstance(part, FunctionType)):
        return True
    return callable(value) and not is_toolchain_module(kind.__module__)


def _parts(value: Any) -> list[Any]:
    """What is inside something that isn't a function."""
    return [getattr(value, name) for base in type(value).__mro__ for name in _WRAPPERS.get(base, ())]


def _imports(owner: Owner, name: str, value: Any) -> bool:
    """Whether a module of Numba's imports this itself, such as what ``numba.core.errors`` takes from colorama."""
    if not isinstance(owner, ModuleType):
        return False
    where, attribute = _definitions_of(owner).imported.get(name, ("", ""))
    return getattr(sys.modules.get(where), attribute, owner) is value


def _definitions_of(owner: ModuleType | type) -> Definitions:
    from nbcache.glue.identity import sources  # few processes have anything to read there

    return sources.definitions_of(owner)


def _is_set_later(owner: ModuleType | type, name: str) -> bool:
    from nbcache.glue.identity import sources  # as above

    return sources.is_set_later(owner, name)


def _is_displaced(owner: Owner, name: str, value: Any) -> bool:
    """Whether one of Numba's definitions is in the place of another one."""
    if isinstance(owner, Held) or not isinstance(name, str):
        return False
    for part in (value, *_parts(value)):
        # A class among the members of another was hardly written there.
        if type(part) is not FunctionType and not (issubclass(type(part), type) and isinstance(owner, ModuleType)):
            continue
        # A wrapper, such as nbcache's own, says that it is what it is made around.
        module = part.__globals__.get("__name__") if type(part) is FunctionType else part.__module__
        qualname = part.__qualname__
        own = name if isinstance(owner, ModuleType) else f"{owner.__qualname__}.{name}"
        # A module has what it imports under the name that it has elsewhere.
        if part.__name__ == name and (isinstance(owner, ModuleType) or qualname == own):
            continue
        # What a decorator made isn't called as what it decorates, and what Python's library made has Numba's name.
        if "<" in qualname or not str(module).startswith(ROOTS) or (module == owner.__name__ and qualname == own):
            continue
        known = _definitions_of(owner)
        if name in known.aliases:
            scopes = vars(owner), vars(sys.modules.get(module_of(owner), owner))
            return all(scope.get(other) is not value for other in known.aliases[name] for scope in scopes)
        if name in known.defined or name in known.imported or _overrides(owner, name, value):
            return not _imports(owner, name, value)
    return False


def _overrides(owner: ModuleType | type, name: str, value: Any) -> bool:
    """Whether a member that a class's body says nothing of hides an inherited one."""
    if not isinstance(owner, type):
        return False
    known = _definitions_of(owner)
    return bool(known.put) and name not in known.put and _is_hiding(owner, name, value)


def _is_hiding(cls: type, name: str, value: Any) -> bool:
    """Whether this hides an inherited member that is something else: who undoes a change may leave the same there."""
    inherited = (vars(base)[name] for base in cls.__mro__[1:] if name in vars(base))
    return next(inherited, value) is not value


def _altered(owner: ModuleType | type, members: Any) -> Iterator[str]:
    """The names of members that are constants and have another value than any that the code gives them."""
    if isinstance(owner, EnumMeta):  # its members are made of constants
        return
    names = [
        name
        for name, value in [*members.items()]
        if (type(value) in CONSTANTS or issubclass(type(value), np.generic))
        and isinstance(name, str)
        and not name.startswith("__")
    ]
    for name in names:
        known = _definitions_of(owner)
        where: tuple[ModuleType | type, ...] = (owner,)
        if name in known.constants:
            altered = not any(is_same_constant(members[name], value) for value in known.constants[name])
        elif name in known.imported:
            module, attribute = known.imported[name]
            source = sys.modules.get(module)
            altered = not is_same_constant(members[name], getattr(source, attribute, members[name]))
            where = (owner, source) if isinstance(source, ModuleType) else where
        else:
            altered = _overrides(owner, name, members[name])
            # Decorators and metaclasses count their classes.
            where = (owner,) if isinstance(owner, ModuleType) else owner.__mro__
        if altered and not any(_is_set_later(each, name) for each in where):
            yield name


def _exchanged(owner: ModuleType | type, members: Any) -> Iterator[tuple[str, Any]]:
    """What is in the place of something else that Numba had there, hides it, or says that there is nothing any more."""
    before = held.members[id(owner)]
    for name, then in before.items():
        now = members.get(name, _NOTHING)
        if now is not then and not (_is_nbcaches(now) or _is_nbcaches(then)) and not _is_harmless(owner, name, now):
            yield name, now
    for name in sorted(name for name in {*members}.difference(before) if isinstance(name, str)):
        now = members[name]
        hides = _is_hiding(owner, name, now) if isinstance(owner, type) else hasattr(builtins, name)
        if hides and not _is_nbcaches(now) and not _is_harmless(owner, name, now):
            yield name, now


def _is_harmless(owner: ModuleType | type, name: str, value: Any) -> bool:
    """Whether Python puts this there, such as an imported module or what copying looks up in a class, or Numba."""
    if name.startswith("__") and not _is_definition(value):
        return True
    if isinstance(owner, ModuleType) and sys.modules.get(f"{owner.__name__}.{name}") is value:
        return is_toolchain_module(getattr(value, "__name__", None))
    return _is_set_later(owner, name)


def _is_definition(value: Any) -> bool:
    kind = type(value)
    return kind is FunctionType or kind in _WRAPPERS or issubclass(kind, type)


def _is_nbcaches(value: Any) -> bool:
    functions = (part for part in (value, *_parts(value)) if type(part) is FunctionType)
    places = (type(value).__module__, *(part.__globals__.get("__name__") for part in functions))
    return any(str(place).startswith("nbcache.") for place in places)


def _hiding(attributes: Held) -> Iterator[str]:
    """The names of what an object of Numba's has and its class as well: Numba's own objects hide nothing."""
    classes = () if attributes.kind is None else attributes.kind.__mro__
    yield from (name for name in [*attributes.content] if any(name in vars(each) for each in classes))


def was_seen_whole(owner: Owner) -> bool:
    """Whether it is known from when on anybody but Numba itself can have changed this: else all of it looks changed."""
    name = module_of(owner)
    return name in told.modules_of_numba or name in told.parts_were_whole


def _is_compilers(function: FunctionType) -> bool:
    around = (value for value in cell_values(function) if type(value) is FunctionType)
    return (is_compilers(function) or _is_of_a_named_tuple(function)) and all(map(is_compilers, around))


def _is_of_a_named_tuple(function: FunctionType) -> bool:
    return str(function.__globals__.get("__name__")).startswith("namedtuple_")


_WRAPPERS: dict[type, tuple[str, ...]] = {
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    MethodType: ("__func__",),
    property: ("fget", "fset", "fdel"),
    functools.cached_property: ("func",),
    functools.partial: ("func",),
    type(functools.cache(len)): ("__wrapped__",),
    Dispatcher: ("py_func",),
}
"""Whose functions are behind what isn't a function."""
