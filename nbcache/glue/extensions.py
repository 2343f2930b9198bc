"""What has been registered with Numba by code that is not Numba's.

Numba lets any package say how a function is typed and compiled: ``@overload``, ``@intrinsic``, lowering
functions, data models, boxing, ``typeof``.  None of it is in the bytecode of the functions it changes,
and it isn't in their keys either: what a compilation asks for is noted under names (consulted.py), and
registrations are filed here under the same names, so that a hit compares just those that it would meet.

Who is asked first matters.  Templates are asked in the order of their registration until one of them
answers, and Numba's own for numbers, operators, ufuncs and the like always come first: what these answer,
nobody else is asked.  So registrations in Numba's registry of built-in things are
filed under ``typed``, which is noted unless one of those answered, and all others under ``called``.

Registries are append-only lists, so the index reads on from where it stopped.
"""

from __future__ import annotations

import abc
import functools
import hashlib
import importlib
import sys
from collections import Counter
from types import FunctionType
from typing import TYPE_CHECKING, Any

from numba.core import imputils, pythonapi
from numba.core.datamodel import default_manager
from numba.core.registry import cpu_target
from numba.core.rewrites import rewrite_registry
from numba.core.types.abstract import Type
from numba.core.typing import templates
from numba.core.typing.asnumbatype import as_numba_type
from numba.core.typing.typeof import typeof_impl

from nbcache.glue import consulted, told
from nbcache.glue.consulted import EVERYTHING, is_type_class
from nbcache.glue.identity import Unidentifiable, are_same
from nbcache.glue.instances import HEAP_TYPE
from nbcache.glue.ownership import (
    are_toolchain_definitions,
    cell_values,
    is_numba_type,
    is_toolchain_definition,
    judging_once,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nbcache.glue.identity import IdentityEngine, Scope

_FIRST = frozenset(
    "numba.core.typing." + name
    for name in (
        "builtins", "cffi_utils", "cmathdecl", "enumdecl", "listdecl", "mathdecl", "npydecl", "setdecl", "dictdecl",
    )
)  # fmt: skip
"""Whose templates come first: ``builtins`` is there once Numba is imported; the others have registries of their own,
which a typing context installs ahead of Numba's registry of built-in things."""


@functools.cache
def is_native(template: type) -> bool:
    """Whether nobody who registers a template in the usual way gets ahead of this one."""
    own = any(base.__module__ in _FIRST for base in template.__mro__[:2])
    return own and not _is_foreign_registration(template)


_REMEMBERED = 4096
"""Of how many sets of names it is remembered which are relevant; small functions share theirs."""


class Registration:
    """One thing registered by others: *registered* for *key*, declared for types; *label* is for people.

    ``rank``: how many were registered for the key before it, Numba's included, or "late" once that says nothing:
    when something had been looked up, Numba would have loaded all of its own.
    """

    __slots__ = ("formal", "key", "label", "rank", "registered")

    def __init__(self, label: str, key: object, registered: Any, formal: tuple[Any, ...], rank: str) -> None:
        self.label = label
        self.rank = rank
        self.key = key
        self.registered = registered
        self.formal = formal


def chooser_of(template: Any) -> Any | None:
    """The function that an overload's or intrinsic's template asks, None for other templates."""
    if isinstance(template, type):
        for base, field in ((templates._OverloadFunctionTemplate, "_overload_func"),
                            (templates._IntrinsicTemplate, "_definition_func")):  # fmt: skip
            if base in template.__mro__:
                return getattr(template, field)
    return None


class ExtensionIndex:
    """An incremental index over Numba's registries; `refresh` before asking."""

    def __init__(self) -> None:
        told.listen()
        self._positions: dict[tuple[int, str], int] = {}
        self._namesakes: dict[tuple[int, str], Counter[int]] = {}
        """For a list of a registry how many of it were read that are for one object, by its id."""
        self._filed: dict[bytes, list[Registration]] = {}
        self._since: dict[bytes, int] = {}
        self._count = 0
        self._sizes: tuple[int, ...] = ()
        self._conversions = 0
        self._tables = _tables()
        self._held: list[list[object]] = []
        """What the tables held: they are dictionaries, where one thing can take another's place."""
        self._seen: dict[str, dict[Any, Any]] = {}
        self._relevant: dict[bytes, tuple[bytes, ...]] = {}
        self._digests: dict[int, tuple[Registration, bytes, Scope]] = {}
        self._typing: set[Any] = set()
        self._inlined: tuple[int, list[Any]] = (-1, [])
        self._refused: dict[int, tuple[int, str]] = {}
        self._modules: tuple[int, frozenset[str]] = (0, frozenset())
        self._ordinals: dict[int, tuple[object, list[int]]] = {}
        self.settled = False
        """Whether something was looked up in this process, and so would have been compiled."""
        self.generation = 0
        self.ambiguities = 0
        """A number that grows when an `ordinal` changes."""

    def refresh(self) -> int:
        """Read what has been registered since the last call; return a number that grows with news."""
        tables = [*(table for _label, table in self._tables), as_numba_type.lookup]
        sizes, held = self._current_sizes(), [[*table.values()] for table in tables]
        if sizes != self._sizes or not all(map(are_same, held, self._held)):
            self._sizes, self._held = sizes, held
            before = self._count
            with judging_once():
                for registry in self._typing_registries():
                    self._read_typing(registry)
                for registry in self._lowering_registries():
                    self._read_lowering(registry)
                self._read_rewrites()
                self._read_tables()
                self._read_annotations()
                self._read_conversions()
            if self._count != before:
                self.generation += 1
                self._relevant.clear()
        return self.generation

    @property
    def empty(self) -> bool:
        """Whether nobody has registered anything."""
        return not self._filed

    def relevant(self, packed: bytes) -> tuple[bytes, ...]:
        """Those of the names of an entry for which others have registered something."""
        if not self._filed:
            return ()
        found = self._relevant.get(packed)
        if found is None:
            if len(self._relevant) >= _REMEMBERED:
                self._relevant.clear()
            found = self._relevant[packed] = self.relevant_among(consulted.split(packed))
        return found

    def relevant_among(self, names: Iterable[bytes]) -> tuple[bytes, ...]:
        """The same for names one by one; sorted."""
        return tuple(sorted(self._filed.keys() & set(names))) if self._filed else ()

    def registered(self, name: bytes) -> list[Registration]:
        """What others have registered for a name, in the order of registration."""
        return self._filed.get(name, [])

    def inlined(self) -> list[Any]:
        """The templates of others' overloads of functions that are inlined, always or when somebody says so.

        Not those of attributes and methods, which Numba finds by their choosers, so that nobody may stand in for one.
        """
        if self.generation != self._inlined[0]:
            every = {id(each.registered): each.registered for filed in self._filed.values() for each in filed}
            found = [template for template in every.values() if chooser_of(template) is not None]
            inline = [each for each in found if hasattr(each, "_inline") and not each._inline.is_never_inline]
            self._inlined = (self.generation, [each for each in inline if "_overload_func" in vars(each)])
        return self._inlined[1]

    def asks_for_types(self, template: Any) -> bool:
        """Whether others have registered *template* to say what type a call has, which is asked again on a hit."""
        return template in self._typing

    def place(self, template: Any) -> tuple[bytes, int]:
        """Where a template of somebody else's chooser is filed: name and position; `at` finds it there.

        Registering with ``infer_global`` makes a class of its own around the same chooser, so that decides.
        Raises LookupError.
        """
        self.refresh()
        chooser = chooser_of(template)
        for name in (consulted.typed(template.key), consulted.called(template.key)):
            for position, each in enumerate(self._filed.get(name, ())):
                same = each.registered is template or (chooser is not None and chooser_of(each.registered) is chooser)
                if each.key is template.key and same:
                    return name, position
        raise LookupError(f"{template.__name__} is registered nowhere")

    def at(self, place: tuple[bytes, int]) -> Any | None:
        """The template at a place, None if there is none."""
        name, position = place
        filed = self._filed.get(name, ())
        return filed[position].registered if position < len(filed) else None

    def ordinal(self, obj: object) -> list[int] | None:
        """Where *obj* stands among namesakes for which something is registered, None where it has none.

        Functions made by one factory are alike in name and content, and each may have an overload of its own.
        """
        found = self._ordinals.get(id(obj))
        return found[1] if found is not None and found[0] is obj else None

    def names(self) -> Iterable[bytes]:
        """All names for which somebody has registered anything."""
        return self._filed.keys()

    def since(self, name: bytes) -> int:
        """The generation when something was registered for *name* last."""
        return self._since[name]

    def modules(self) -> list[str]:
        """The modules that registered anything, as far as another process can import them."""
        if self._count != self._modules[0]:
            everything = (each for filed in self._filed.values() for each in filed)
            self._modules = (self._count, frozenset(map(_module_of, everything)) - {"__main__"})
        return sorted(name for name in self._modules[1] if name in sys.modules)

    def digest(self, name: bytes, engine: IdentityEngine) -> bytes:
        """Identity of what others have registered for *name*.  Raises Unidentifiable.

        Choosers are only listed: they are asked, and their answers count.
        """
        hasher = hashlib.blake2b(digest_size=16, person=b"nbcache names")
        for each in self._filed[name]:
            content = each.rank.encode() + self._digest(each, engine)
            hasher.update(len(content).to_bytes(8, "little") + content)
        return hasher.digest()

    def words(self, each: Registration, engine: IdentityEngine) -> str:
        """A registration's identity, for people."""
        try:
            return hashlib.blake2b(self._digest(each, engine), digest_size=6).hexdigest()
        except Unidentifiable as exc:
            return str(exc)

    def _digest(self, each: Registration, engine: IdentityEngine) -> bytes:
        if self.asks_for_types(each.registered):
            return _asked(each)
        if hasattr(each.registered, "_overload_func") or chooser_of(each.registered) is not None:
            # In lists, as what runs.
            return _asked(each) + b"".join(engine.digest([part]) for part in _identified(each.registered))
        known = self._digests.get(id(each))
        if known is None or not known[2].unchanged():
            refused = self._refused.get(id(each))
            if refused is not None and refused[0] == self.generation:
                raise Unidentifiable(refused[1])
            try:
                # A list is nothing that Numba compiles: what it holds counts as what runs.
                digest, scope = engine.scoped_for_good([each.registered, *each.formal])
            except Unidentifiable as exc:
                msg = f"{each.label.partition(' ')[2]}, which is registered with Numba: {exc}"
                # Each compilation asks, and it may have taken a walk through half of a package.
                self._refused[id(each)] = (self.generation, msg)
                raise Unidentifiable(msg) from exc
            known = self._digests[id(each)] = (each, digest, scope)
        return known[1]

    # -- reading Numba's registries ------------------------------------------------------------------

    def _typing_registries(self) -> list[Any]:
        context = cpu_target.typing_context
        return [templates.builtin_registry, *(r for r in context._registries if r is not templates.builtin_registry)]

    def _lowering_registries(self) -> list[Any]:
        context = cpu_target.target_context
        return [imputils.builtin_registry, *(r for r in context._registries if r is not imputils.builtin_registry)]

    def _current_sizes(self) -> tuple[int, ...]:
        sizes: list[int] = []
        for registry in self._typing_registries():
            sizes += (id(registry), len(registry.functions), len(registry.attributes), len(registry.globals))
        for registry in self._lowering_registries():
            sizes += (
                id(registry), len(registry.functions), len(registry.getattrs),
                len(registry.setattrs), len(registry.casts), len(registry.constants),
            )  # fmt: skip
        sizes += [len(classes) for classes in rewrite_registry.rewrites.values()]
        sizes += (len(as_numba_type.functions), len(told.conversions))
        sizes.append(abc.get_cache_token())  # type: ignore[arg-type]  # it says that it is an object
        return tuple(sizes)

    def _news(self, registry: Any, field: str) -> list[Any]:
        """What was added to a list of a registry since it was read last."""
        items = getattr(registry, field)
        start = self._positions.get((id(registry), field), 0)
        self._positions[id(registry), field] = len(items)
        return items[start:]

    def _read_typing(self, registry: Any) -> None:
        late = registry is templates.builtin_registry
        functions, attributes = self._news(registry, "functions"), self._news(registry, "attributes")
        values = self._news(registry, "globals")
        asked = [(value, template) for value, typ in values for template in getattr(typ, "templates", ())]
        keys = [*(template.key for template in (*functions, *attributes)), *(value for value, _typ in values)]
        counts = self._namesakes.setdefault((id(registry), "functions"), Counter())
        counts_of_values = self._namesakes.setdefault((id(registry), "globals"), Counter())
        if _are_numbas([*functions, *attributes, *(template for _value, template in asked)], keys):
            counts.update(map(id, (template.key for template in functions)))  # the registry keeps them alive
            counts_of_values.update(id(value) for value, _typ in values)
            return
        for template in functions:
            if _is_others(template, template.key):
                self._file_template(template.key, template, counts[id(template.key)], late=late)
            counts[id(template.key)] += 1
        for template in attributes:
            if _is_others(template, template.key):
                self._file_attributes(template)
        for value, typ in values:
            for template in getattr(typ, "templates", ()):
                if _is_others(template, value):
                    self._file_template(value, template, counts_of_values[id(value)], late=late)
            counts_of_values[id(value)] += 1

    def _file_template(self, key: object, template: Any, before: int, *, late: bool) -> None:
        late = late and getattr(template, "metadata", {}).get("target", "generic") == "generic"
        rank = "late" if self.settled else str(before)
        self._file((consulted.typed if late else consulted.called)(key), "template", key, template, rank=rank)

    def _file_attributes(self, template: Any) -> None:
        cls = template.key if isinstance(template.key, type) else type(template.key)
        # Attributes of one's own types say nothing to who has none of these, whatever they are called.
        own = is_type_class(cls) and not is_toolchain_definition(cls)
        name = functools.partial(consulted.attribute_of, cls) if own else consulted.attribute
        overloaded = getattr(template, "_attr", None)
        if overloaded is not None:
            self._file(name(overloaded), "attribute", template.key, template)
            return
        if template.generic_resolve is not NotImplemented:
            self._file(consulted.type_class(cls) if own else EVERYTHING, "attributes", template.key, template)
        for member in dir(template):
            if member.startswith("resolve_"):
                self._file(name(member.removeprefix("resolve_")), "attribute", template.key, template)

    def _read_lowering(self, registry: Any) -> None:
        # What an intrinsic's typing half answered is registered for itself.
        functions = [each for each in self._news(registry, "functions") if each[0] is not each[1]]
        members = [
            (field, _undecorated(decorated), name, signature)
            for field in ("getattrs", "setattrs")
            for decorated, name, signature in self._news(registry, field)
        ]
        members += [
            (field, implementation, None, signature)
            for field in ("casts", "constants")
            for implementation, signature in self._news(registry, field)
        ]
        keys = [key for _implementation, function, signature in functions for key in (function, *(signature or ()))]
        keys += [formal for *_rest, signature in members for formal in signature or ()]
        if _are_numbas([*(each[0] for each in functions), *(each[1] for each in members)], keys):
            return
        for implementation, function, signature in functions:
            if _is_others(implementation, function, signature):
                self._file(_lowered(function, signature), "lowering", function, implementation, signature)
        for field, implementation, name, signature in members:
            if _is_others(implementation, None, signature):
                general = EVERYTHING if name is None else consulted.attribute(name)
                self._file(_of_type(signature) or general, field, None, implementation, signature)

    def _read_rewrites(self) -> None:
        for kind, classes in rewrite_registry.rewrites.items():
            start = self._positions.get((id(rewrite_registry), kind), 0)
            self._positions[id(rewrite_registry), kind] = len(classes)
            for cls in filter(_is_others, classes[start:]):
                self._file(EVERYTHING, f"rewrite {kind}", None, cls)

    def _read_tables(self) -> None:
        unseen = [table for label, table in self._tables if label not in self._seen]
        registered = [each for table in unseen for each in table.values()]
        if len(unseen) == len(self._tables) and _are_numbas(registered, [key for table in unseen for key in table]):
            return
        for label, table in self._tables:
            if label not in self._seen and _are_numbas([*table.values()], [*table]):
                continue
            seen = self._seen.setdefault(label, {})
            for cls, registered in table.items():
                # What is registered for an abstract base class may be for whoever is said to be one.
                general = is_toolchain_definition(cls) or (label == "typeof" and _speaks_for_others(cls))
                if seen.get(cls) != (registered, general):
                    seen[cls] = (registered, general)
                    if not _is_others(registered, cls):
                        continue
                    name = EVERYTHING
                    if not general:
                        name = consulted.value_class(cls) if label == "typeof" else consulted.type_class(cls)
                    self._file(name, label, cls, registered, (cls,))

    def _read_annotations(self) -> None:
        seen = self._seen.setdefault("annotation", {})
        for kind, typ in as_numba_type.lookup.items():
            if told.own_annotations.get(kind) != typ and seen.get(kind) is not typ:
                seen[kind] = typ
                self._file(consulted.annotation(kind), "annotation", kind, typ)
        for function in filter(_is_others, self._news(as_numba_type, "functions")):
            self._file(consulted.ANY_ANNOTATION, "annotation", None, function)

    def _read_conversions(self) -> None:
        news = told.conversions[self._conversions :]
        self._conversions += len(news)
        for fromty, toty, relation in news:
            name = _of_type((fromty, toty)) or EVERYTHING
            self._file(name, f"{relation} conversion to {toty} from", None, fromty, (fromty, toty), rank=relation)

    def _file(
        self, name: bytes, label: str, key: object, registered: Any, signature: Iterable[Any] = (), rank: str = ""
    ) -> None:
        filed = self._filed.setdefault(name, [])
        formal = tuple(t for t in signature if isinstance(t, type) or is_numba_type(t))
        said = (each for each in filed if each.registered is registered and each.label.startswith(label))
        if any(each.key is key and each.formal == formal for each in said):
            return
        label = f"{label} {getattr(registered, '__qualname__', registered)!s}"
        filed.append(Registration(label, key, registered, formal, rank))
        if _only_types(registered):
            self._typing.add(registered)
        self._count += 1
        if any(each.key is not key for each in filed):
            self.ambiguities += 1
            for each in filed:
                self._ordinals[id(each.key)] = (each.key, [])
            for position, each in enumerate(filed):
                self._ordinals[id(each.key)][1].append(position)
        self._since[name] = self.generation + 1


def _tables() -> list[tuple[str, Any]]:
    """Numba's registries that hold one thing for each class."""
    return [
        ("data model", default_manager._handlers),
        ("boxing", pythonapi._boxers.functions),
        ("unboxing", pythonapi._unboxers.functions),
        ("reflection", pythonapi._reflectors.functions),
        ("typeof", typeof_impl.registry),
    ]


def _only_types(template: Any) -> bool:
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
        "__annotations__", "key", "generic", "prefer_literal", "unsafe_casting", "exact_match_required", "metadata",
        "recvr", "__abstractmethods__", "_abc_impl",
    }
)  # fmt: skip
"""What a template may define of which `_asked` or its answers tell."""


def _speaks_for_others(cls: type) -> bool:
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
    return any(map(_speaks_for_others, subclasses))


_registered_with = importlib.import_module("_abc")._get_dump  # nothing says what types it has


def _lowered(function: object, signature: Iterable[Any]) -> bytes:
    """Lowering for one's own types says nothing to who has none of these."""
    return _of_type(signature) or consulted.called(function)


def _of_type(signature: Iterable[Any]) -> bytes | None:
    """The name of the first class of types in a signature that isn't Numba's."""
    for formal in signature or ():
        cls = formal if isinstance(formal, type) else type(formal)
        if is_type_class(cls) and not is_toolchain_definition(cls):
            return consulted.type_class(cls)
    return None


def _asked(each: Registration) -> bytes:
    """What counts of a template whose chooser is asked: how it is asked, and what is made of its answer."""
    template = each.registered
    chooser = getattr(template, "_overload_func", None) or chooser_of(template)
    options = sorted((name, repr(value)) for name, value in _options(template) if type(value) in _PLAIN)
    inline = getattr(template, "_inline", None)
    fields = (
        consulted.spelling_of(each.key), consulted.spelling_of(chooser), options, getattr(template, "_strict", None),
        template.prefer_literal, sorted(template.metadata.items()),
        getattr(template, "unsafe_casting", None), getattr(template, "exact_match_required", None),
        None if inline is None else (inline.is_never_inline, inline.is_always_inline),
    )  # fmt: skip
    return repr(fields).encode("utf-8", "surrogatepass")


_PLAIN = frozenset({bool, int, str, type(None)})


def _options(template: Any) -> list[tuple[str, Any]]:
    """What the implementations that an overload's chooser returns are compiled with."""
    return sorted(getattr(template, "_jit_options", {}).items())


def _identified(template: Any) -> Iterator[object]:
    """What counts of such a template besides `_asked`, by its content: it isn't asked, or has no words of its own."""
    chooser = chooser_of(template) or getattr(template, "_overload_func", None)
    if is_toolchain_definition(chooser):
        yield chooser
    options = [(name, value) for name, value in _options(template) if type(value) not in _PLAIN]
    if options:
        yield options
    inline = getattr(template, "_inline", None)
    if inline is not None and not (inline.is_never_inline or inline.is_always_inline):
        yield inline.value


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
    return next(foreign_parts(registered), None) is not None


def _is_others(registered: Any, key: object = None, signature: Iterable[Any] | None = ()) -> bool:
    """Whether a registration concerns anybody: something of others is registered, or it is for something of theirs."""
    if _is_foreign_registration(registered):
        return True
    # Numba's templates register something themselves when they are first used, which adds nothing to them.
    if getattr(registered, "__module__", "") == templates.__name__:
        return False
    return _is_somebodys(key) or any(map(_is_somebodys, signature or ()))


def _are_numbas(registered: list[Any], keys: list[Any]) -> bool:
    """Whether none of these is others', nor for anything of theirs: one look is enough when nobody extends Numba.

    May say no where it is so; then `_is_others` tells for each.
    """
    kinds = {id(type(key)): type(key) for key in keys}.values()  # others' metaclasses say what is equal
    classes = [kind for kind in kinds if Type in kind.__mro__] + [key for key in keys if issubclass(type(key), type)]
    functions = [key for key in keys if type(key) is FunctionType]
    return are_toolchain_definitions([*registered, *functions, *(cls for cls in classes if cls.__flags__ & HEAP_TYPE)])


def _is_somebodys(key: object) -> bool:
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
        for part in (member, *cell_values(member)):
            if isinstance(part, FunctionType) and not is_toolchain_definition(part):
                yield part


def _undecorated(implementation: Any) -> Any:
    """The user's function inside the closure that ``lower_getattr`` makes around it."""
    return next((value for value in cell_values(implementation) if callable(value)), implementation)


def _module_of(each: Registration) -> str:
    """The module of a function or template that is registered; where that is Numba's, of what it is registered for."""
    registered = each.registered
    chooser = getattr(registered, "_overload_func", None) or getattr(registered, "_definition_func", None)
    if chooser is None and isinstance(registered, type) and is_toolchain_definition(registered):
        chooser = next(foreign_parts(registered), None)
    if not _is_foreign_registration(registered):
        chooser = next(filter(_is_somebodys, (each.key, *each.formal)), chooser)
    return str(getattr(chooser or registered, "__module__", ""))
