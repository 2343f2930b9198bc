"""One thing that was registered with Numba: whose it is, what it is about, and what chooses for it."""

from __future__ import annotations

import abc
import functools
import importlib
import sys
from collections.abc import Iterable, Iterator
from itertools import chain, compress, filterfalse, takewhile
from types import FunctionType
from typing import Any, Final

from numba.core.types.abstract import Type
from numba.core.typing import templates

from nbcache.glue import own_attributes
from nbcache.glue.identity import asked_names
from nbcache.glue.identity.asked_names import EVERYTHING, is_type_class
from nbcache.glue.identity.constant_bytes import spelt
from nbcache.glue.identity.dictionary_changes import Mutations, dictionary_behind
from nbcache.glue.identity.ownership import (
    HEAP_TYPE,
    address,
    are_toolchain_definitions,
    cell_values,
    is_numba_type,
    is_toolchain_definition,
    is_toolchain_module,
)
from nbcache.glue.identity.unregistered import TYPED_WITH
from nbcache.glue.identity.watched import are_same

_FIRST = frozenset({"numba.core.typing.builtins", *TYPED_WITH})
"""Whose templates come first: ``builtins`` is there once Numba is imported; the others have registries of their own,
which a typing context installs ahead of Numba's registry of built-in things."""


@functools.cache
def is_native(template: type) -> bool:
    """Whether nobody who registers a template in the usual way gets ahead of this one."""
    own = any(base.__module__ in _FIRST for base in template.__mro__[:2])
    return own and not _is_foreign_registration(template)


REMEMBERED = 4096
"""Of how many sets of names it is remembered which are relevant; small functions share theirs."""


class Registration:
    """One thing registered by others: *registered* for *key*, declared for types; *label* is for people.

    ``rank``: how many of them were registered before it for what may be Numba's as well, or "late" once that says
    nothing: when something had been looked up, Numba would have loaded all of its own.
    """

    __slots__ = ("formal", "key", "label", "rank", "registered")

    def __init__(self, label: str, key: object, registered: Any, formal: tuple[Any, ...], rank: str) -> None:
        self.label = label
        self.rank = rank
        self.key = key
        self.registered = registered
        self.formal = formal

    @property
    def identity(self) -> tuple[object, ...]:
        """What it is, as long as all of it lives."""
        return id(self.registered), id(self.key), self.formal


def formals(signature: Iterable[Any]) -> tuple[Any, ...]:
    """The types, and classes of types, for which something is registered."""
    return tuple(each for each in signature if isinstance(each, type) or is_numba_type(each))


class Tables:
    """Registries of Numba's that are dictionaries, where one thing can take another's place."""

    def __init__(self, tables: list[Any]) -> None:
        self._tables = tables
        """They live as long as this does, and so do the dictionaries in which they are."""
        self._held: list[list[object]] = [[] for _table in tables]
        # One of them shows its dictionary behind a proxy (`functools.singledispatch`).
        inside = [it if isinstance(it, dict) else dictionary_behind(it) for it in tables]
        mutations = Mutations()
        mutations.watch([each for each in inside if each is not None])
        self._mutations = mutations.asked()
        self._can_tell = None not in inside
        self._is_asked = False

    def same(self) -> list[bool]:
        """Of each whether it holds what it held when this was asked last."""
        changed = self._mutations.changed()
        if self._can_tell and self._is_asked and not changed:
            return [True] * len(self._tables)
        before, self._held, self._is_asked = self._held, [[*table.values()] for table in self._tables], True
        return [*map(are_same, self._held, before)]


def chooser_of(template: Any) -> Any | None:
    """The function that an overload's or intrinsic's template asks, None for other templates."""
    if isinstance(template, type):
        for base, field in ((templates._OverloadFunctionTemplate, "_overload_func"),
                            (templates._IntrinsicTemplate, "_definition_func")):  # fmt: skip
            if base in template.__mro__:
                return own_attributes.unheard(getattr(template, field))
    return None


def _chooser_in(template: Any) -> Any:
    """The same as `chooser_of`, and of templates for methods and attributes."""
    return own_attributes.unheard(getattr(template, "_overload_func", None)) or chooser_of(template)


def is_asked(chooser: Any) -> bool:
    """Whether what a *chooser* answers is somebody else's: it is theirs, or Numba made it around a function of theirs.

    The latter does `register_jitable`. What such a function reads is read anew for each implementation, and so, as with
    any other chooser, no matter of what is registered.
    """
    return not is_toolchain_definition(chooser) or any(_somebodys_in(chooser))


def only_types(template: Any) -> bool:
    """Whether all that matters of a template of others is the signatures that it answers with."""
    if not isinstance(template, type) or hasattr(template, "_overload_func") or chooser_of(template) is not None:
        return False
    # Not issubclass(), which asks each of the thousands of other templates when it sees a class for the first time.
    if {templates.AbstractTemplate, templates.CallableTemplate}.isdisjoint(template.__mro__):
        return False
    made_here = [base for base in template.__mro__[:-1] if vars(templates).get(base.__qualname__) is not base]
    return all(set(vars(base)) <= _OF_TEMPLATES_THAT_TYPE for base in made_here)


_OF_TEMPLATES_THAT_TYPE = frozenset(
    {
        "__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__firstlineno__", "__static_attributes__",
        "__annotations__", "__annotate_func__", "__annotations_cache__", "key", "generic", "prefer_literal",
        "unsafe_casting", "exact_match_required", "metadata", "recvr", "__abstractmethods__", "_abc_impl",
    }
)  # fmt: skip
"""What a template may define of which `asks_of` or its answers tell."""


def speaks_for_others(cls: type) -> bool:
    """Whether a class that isn't derived from *cls* may count as a subclass of it."""
    if type(cls).__subclasscheck__ is type.__subclasscheck__:
        return False
    if type(cls).__subclasscheck__ is not abc.ABCMeta.__subclasscheck__ or _registered_with(cls)[0]:
        return True
    asked = next(base for base in cls.__mro__ if "__subclasshook__" in vars(base))
    # Those of the standard library answer for the class itself that they are written in, and for none derived from it.
    if asked is cls or asked.__module__ not in {"builtins", "collections.abc", "typing"}:
        return True
    subclasses: list[type] = type.__subclasses__(cls)
    return any(map(speaks_for_others, subclasses))


_registered_with = importlib.import_module("_abc")._get_dump  # nothing says what types it has


def of_type(signature: Iterable[Any]) -> bytes | None:
    """The name of the first class of types in a signature that isn't Numba's."""
    for formal in signature or ():
        cls = formal if isinstance(formal, type) else type(formal)
        if is_type_class(cls) and not is_toolchain_definition(cls):
            return asked_names.type_class(cls)
    return None


NAMELESS: Final = 2
"""How many parts there are to what lowers a conversion or constant: no function or attribute is named."""


def attributes_before(template: Any, attributes: list[Any]) -> int:
    """How many of a registry's templates Numba asks before this one, for attributes of types like those of this one.

    Of those for no certain attribute, if this one is for one, such as have a method for it.
    """
    name = getattr(template, "_attr", None)
    before = [each for each in takewhile(lambda each: each is not template, attributes) if each.key is template.key]
    if name is None:
        return len(before)
    return sum(hasattr(each, f"resolve_{name}") or getattr(each, "_attr", None) == name for each in before)


def lowered_before(item: tuple[Any, ...], items: list[Any]) -> int | None:
    """How many of a registry's list come before *item* that lower the same: Numba takes the last.

    None if Numba itself has none.
    """
    _implementation, *named, signature = item
    if of_type(signature) or any(map(is_somebodys, named)):
        return None
    before = takewhile(lambda each: each is not item, items)
    return sum([*map(id, each[1:-1])] == [*map(id, named)] and each[-1] == signature for each in before)


def asks_of(each: Registration) -> bytes:
    """What counts of a template whose chooser is asked: how it is asked, and what is made of its answer."""
    template = each.registered
    chooser = _chooser_in(template)
    options = sorted((name, repr(value)) for name, value in _options(template) if type(value) in _PLAIN)
    inline = getattr(template, "_inline", None)
    fields = (
        asked_names.spelling_of(each.key), asked_names.spelling_of(chooser), options,
        getattr(template, "_strict", None), template.prefer_literal, spelt(dict(template.metadata)),
        getattr(template, "unsafe_casting", None), getattr(template, "exact_match_required", None),
        None if inline is None else (inline.is_never_inline, inline.is_always_inline),
    )  # fmt: skip
    return repr(fields).encode("utf-8", "surrogatepass")


_PLAIN = frozenset({bool, int, str, type(None)})


def _options(template: Any) -> list[tuple[str, Any]]:
    """What the implementations that an overload's chooser returns are compiled with."""
    return sorted(getattr(template, "_jit_options", {}).items())


def identified(template: Any) -> Iterator[object]:
    """What counts of such a template besides `asks_of`, by its content: it isn't asked, or has no words of its own."""
    chooser = _chooser_in(template)
    if not is_asked(chooser):
        yield chooser
    options = [(name, value) for name, value in _options(template) if type(value) not in _PLAIN]
    if options:
        yield options
    # Somebody's own kind of template: this one, or one from which Numba derives it.
    yield from (members for base in template.__mro__ if (members := _members_of(base)))
    inline = getattr(template, "_inline", None)
    if inline is not None and not (inline.is_never_inline or inline.is_always_inline):
        yield inline.value


def _members_of(base: type) -> list[object]:
    """What somebody has written into a class of templates that `asks_of` doesn't tell; nothing for one of Numba's."""
    # Nearly all are Numba's own bases, found under their names; what somebody puts into these counts as a patch.
    if base is object or vars(templates).get(base.__qualname__) is base:
        return []
    from nbcache.glue.identity.attributes import ignored_members  # few have kinds of their own

    members = vars(base)
    names = [name for name in members.keys() - _TOLD - ignored_members(base)
             if not name.startswith("__") or isinstance(members[name], FunctionType)]  # fmt: skip
    if not names or is_toolchain_definition(base):
        return []
    found = {name: members[name] for name in sorted(names)}
    return [part for name, member in found.items() for part in (name, getattr(member, "__func__", member))]


_TOLD = frozenset(
    {
        "key", "_attr", "_overload_func", "_definition_func", "_jit_options", "_strict", "_inline", "prefer_literal",
        "metadata", "unsafe_casting", "exact_match_required",
    }
)  # fmt: skip


def is_made_by_a_template(implementation: Any) -> bool:
    """Whether a template registers this lowering function itself, for itself, when it is first used.

    That adds nothing to the template, which counts with all that it could register.
    """
    if not isinstance(implementation, FunctionType) or "<locals>" not in implementation.__qualname__:
        return False
    classes = [each for each in cell_values(implementation) if isinstance(each, type)]
    bases = [base for cls in classes if templates._TemplateTargetHelperMixin in cls.__mro__ for base in cls.__mro__]
    return any(implementation.__qualname__.startswith(f"{base.__qualname__}.") for base in bases)


def _is_foreign_registration(registered: Any) -> bool:
    """Whether somebody else's code is behind a function or template that is registered.

    Templates are often made by Numba around somebody's function: an overload's chooser, the typing
    function of ``@type_callable``.
    """
    if not isinstance(registered, type):
        return not is_toolchain_definition(registered)
    members = vars(registered)
    for field in ("_overload_func", "_definition_func"):
        if field in members:
            return not is_toolchain_definition(members[field].__func__)
    if not is_toolchain_definition(registered):
        return True
    if getattr(sys.modules[registered.__module__], registered.__name__, None) is registered:
        return False
    # Numba makes templates of others' classes, too, by deriving from them (`infer_global`); and it registers none that
    # is found nowhere and consists of a list of signatures.
    of_signatures = "cases" in members and "<" not in registered.__qualname__
    derived = not all(map(is_toolchain_definition, registered.__bases__))
    return of_signatures or derived or next(foreign_parts(registered), None) is not None


def is_others(registered: Any, key: object = None, signature: Iterable[Any] | None = ()) -> bool:
    """Whether a registration concerns anybody: something of others is registered, or it is for something of theirs."""
    if is_made_by_a_template(registered):
        return False
    if _is_foreign_registration(registered):
        return True
    # Numba's templates register something themselves when they are first used, which adds nothing to them.
    if getattr(registered, "__module__", "") == templates.__name__:
        return False
    return is_somebodys(key) or any(map(is_somebodys, signature or ()))


def are_numbas(registered: list[Any], keys: list[Any]) -> bool:
    """Whether none of these is others', nor for anything of theirs: one look is enough when nobody extends Numba.

    May say no where it is so; then `is_others` tells for each.
    """
    # Others' metaclasses say what is equal.
    addresses = [*map(address, map(type, keys))]
    kinds = dict(zip(addresses, map(type, keys), strict=True))
    metaclasses = {at for at, kind in kinds.items() if issubclass(kind, type)}
    classes = [kind for kind in kinds.values() if Type in kind.__mro__]
    classes += compress(keys, map(metaclasses.__contains__, addresses))
    functions = [key for key in keys if type(key) is FunctionType]
    return are_toolchain_definitions([*registered, *functions, *(cls for cls in classes if cls.__flags__ & HEAP_TYPE)])


def is_somebodys(key: object) -> bool:
    """Whether what something is registered for is others': their function, or a class of theirs.

    Then it counts even if Numba's own code is what was registered, as it is by ``make_attribute_wrapper``, or where a
    type of one's own is given a data model of Numba's.
    """
    if is_numba_type(key):
        key = type(key)
    if isinstance(key, type) and not key.__flags__ & HEAP_TYPE:
        return False  # Python and Numba have native classes that are found under no name
    return isinstance(key, FunctionType | type) and not is_toolchain_definition(key)


def foreign_parts(template: type) -> Iterator[FunctionType]:
    """Somebody's functions inside a template that Numba made around them."""
    for member in vars(template).values():
        yield from _somebodys_in(member)


def _somebodys_in(member: Any) -> Iterator[FunctionType]:
    for part in (member, *cell_values(member)):
        if isinstance(part, FunctionType) and not is_toolchain_definition(part):
            yield part


def name_in(label: str, cls: type, *, general: bool) -> bytes:
    """Under which name a compilation asks a table for what is registered for a class."""
    if general:
        return asked_names.model_of(cls) if label == "data model" else EVERYTHING
    return asked_names.value_class(cls) if label == "typeof" else asked_names.type_class(cls)


def parts_of(field: str, item: tuple[Any, ...]) -> tuple[Any, Any, tuple[Any, ...]]:
    """What an item of one of a registry's lists for lowering is: implementation, function if any, and signature."""
    implementation = item[0]
    if field in {"getattrs", "setattrs"}:  # Numba's decorators for these make a closure around the user's function
        implementation = next(filter(callable, cell_values(implementation)), implementation)
    return implementation, item[1] if field == "functions" else None, item[-1] or ()


def module_of(each: Registration) -> str:
    """The module of a function or template that is registered; where that is Numba's, of what it is registered for."""
    registered = each.registered
    chooser = getattr(registered, "_overload_func", None) or getattr(registered, "_definition_func", None)
    if chooser is None and isinstance(registered, type) and _says_nothing(registered.__module__):
        bases = filterfalse(lambda base: _says_nothing(base.__module__), registered.__mro__)
        chooser = next(chain(foreign_parts(registered), bases), None)
    if not _is_foreign_registration(registered):
        chooser = next(filter(is_somebodys, (each.key, *each.formal)), chooser)
    return str(getattr(chooser or registered, "__module__", ""))


def _says_nothing(module: object) -> bool:
    """Whether Numba may have made a class of that *module* around somebody's function, or derived it from their class.

    Where it calls a metaclass of the standard library for it, that one's module is the class's.
    """
    return module in (abc.__name__, object.__module__) or is_toolchain_module(module)


def chooses(registered: Any) -> bool:
    """Whether what is registered is somebody's chooser, which is asked again."""
    return hasattr(registered, "_overload_func") or chooser_of(registered) is not None
