"""What has been registered with Numba by code that is not Numba's.

Numba lets any package say how a function is typed and compiled: ``@overload``, ``@intrinsic``, lowering
functions, data models, boxing, ``typeof``.  None of it is in the bytecode of the functions it changes,
and it isn't in their keys either: what a compilation asks for is noted under names (asked_names.py), and
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
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from numba.core.rewrites import rewrite_registry
from numba.core.typing import templates
from numba.core.typing.asnumbatype import as_numba_type

from nbcache.glue.identity import asked_names, unregistered
from nbcache.glue.identity.asked_names import EVERYTHING, is_type_class
from nbcache.glue.identity.graph import IdentityEngine
from nbcache.glue.identity.marked_packages import runners
from nbcache.glue.identity.node import Scope, Unidentifiable
from nbcache.glue.identity.ownership import is_toolchain_definition
from nbcache.glue.identity.registration import (
    NAMELESS,
    REMEMBERED,
    Registration,
    Tables,
    are_numbas,
    asks_of,
    attributes_before,
    chooser_of,
    chooses,
    formals,
    identified,
    is_others,
    is_somebodys,
    lowered_before,
    module_of,
    name_in,
    of_type,
    only_types,
    parts_of,
    speaks_for_others,
)
from nbcache.glue.identity.watched import Watched, are_same
from nbcache.process import collected_later

_Rank = str | int | None
"""How many come before it, or in words; None if that says nothing."""


class ExtensionIndex:
    """An incremental index over Numba's registries; `refresh` before asking."""

    def __init__(self) -> None:
        unregistered.listen()
        self._positions = dict(unregistered.own_lengths)
        self._filed: dict[bytes, list[Registration]] = {}
        self._said: set[tuple[object, ...]] = set()
        """The names, objects and types of all that is filed, which keeps them alive."""
        self.since: dict[bytes, int] = {}
        """The generation when something was registered for a name last."""
        self._count = self._conversions = 0
        self._sizes: list[int] = []
        self._registries: list[Any] = []
        self._token: object = None
        self._tables = unregistered.tables_by_class()
        self._contents = Tables([*self._tables.values(), as_numba_type.lookup])
        self._seen: dict[str, dict[Any, Any]] = {}
        self._relevant: dict[bytes, tuple[bytes, ...]] = {}
        self.digests: dict[int, tuple[Registration, bytes, Scope]] = {}
        self._holding: set[int] = set()
        """Whose digest, of those, is what it was when that was looked at last."""
        self._watched: Watched | None = None
        """All that those were read from, which have most of it in common; None after one was added."""
        self.asked_for_types: set[Any] = set()
        """Templates that others have registered to say what type a call has, which are asked again on a hit."""
        self._inlined: tuple[int, list[Any]] = (-1, [])
        self._modules: tuple[int, set[str]] = (-1, set())
        self._refused: dict[int, tuple[int, str]] = {}
        self._named: dict[int, tuple[object, set[bytes]]] = {}
        """For which names something is registered with an object, by its id."""
        self._several: dict[bytes, int] = {}
        """The names for which something is registered with several objects, and what `ambiguities` was then last."""
        self.settled_at: dict[tuple[int, str], int] | None = None
        """How long lists were when something was looked up for the first time, and would have been compiled."""
        self._ahead: frozenset[str] = frozenset()
        self._early: set[tuple[object, ...]] = set()
        """What isn't late."""
        self.has_rewrites = False
        self.generation = self.ambiguities = self.readings = 0
        """The second grows when an `ordinal` changes, the last with whatever is registered, Numba's own included."""

    def refresh(self) -> int:
        """Read what has been registered since the last call; return a number that grows with news."""
        typing, lowering = unregistered.registries()
        registries, sizes, token = [*typing, *lowering], unregistered.lengths(typing, lowering), abc.get_cache_token()
        same = self._contents.same()
        asked_again = token != self._token
        if sizes != self._sizes or asked_again or not all(same) or not are_same(registries, self._registries):
            self._sizes, self._token, self._registries = sizes, token, registries
            changed = [label for label, is_same in zip(self._tables, same, strict=False) if not is_same]
            # Which classes speak for others may have changed; where all are Numba's, that says nothing.
            if asked_again and "typeof" in self._seen and "typeof" not in changed:
                changed.append("typeof")
            before = self._count
            with collected_later():
                self._read(typing, lowering, changed)
            if self._count != before:
                self.generation += 1
                self._relevant.clear()
        return self.generation

    def settle(self, ahead: frozenset[str]) -> None:
        """Something is looked up: what is registered later is late, but for the modules *ahead*, as yet unloaded."""
        self.settled_at = self.settled_at or dict(self._positions)
        self._ahead = ahead

    def is_late(self, each: Registration) -> bool:
        """Whether something is registered, now, when Numba would have loaded all of its own."""
        is_late = self.settled_at is not None and each.identity not in self._early
        return is_late and module_of(each) not in self._ahead

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
            if len(self._relevant) >= REMEMBERED:
                self._relevant.clear()
            found = self._relevant[packed] = self.relevant_among(asked_names.split(packed))
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

    def place(self, template: Any) -> tuple[bytes, int]:
        """Where a template of somebody else's chooser is filed: name and position; `at` finds it there.

        Registering with ``infer_global`` makes a class of its own around the same chooser, so that decides.
        Raises LookupError.
        """
        self.refresh()
        chooser = chooser_of(template)
        for name in (asked_names.typed(template.key), asked_names.called(template.key)):
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
        key, names = self._named.get(id(obj), (None, set()))
        several = self._several.keys() & names
        if key is not obj or not several:
            return None
        latest = max(several, key=self._several.__getitem__)
        return [position for position, each in enumerate(self._filed[latest]) if each.key is obj]

    def modules(self) -> list[str]:
        """The modules that registered anything, as far as another process can import them."""
        if self.generation != self._modules[0]:
            self._modules = self.generation, self.since_then({})[1]
        return sorted(self._modules[1] & sys.modules.keys())

    def sizes(self) -> dict[bytes, int]:
        """How much others have registered for each name."""
        return {name: len(filed) for name, filed in self._filed.items()}

    def since_then(self, sizes: dict[bytes, int]) -> tuple[set[bytes], set[str]]:
        """For which names others have registered more than that, and the modules that did."""
        fresh = {name: filed[sizes.get(name, 0) :] for name, filed in self._filed.items()}
        modules = {module_of(each) for filed in fresh.values() for each in filed}
        return {name for name, filed in fresh.items() if filed}, modules - {"__main__"}

    def digests_of(self, names: Collection[bytes], engine: IdentityEngine) -> Iterator[tuple[bytes, bytes]]:
        """Each of *names* with the identity of what others have registered for it.  Raises Unidentifiable.

        Choosers are only listed: they are asked, and their answers count.
        """
        if names:
            scopes = (scope for key in self._holding for scope in self.digests[key][2].all())
            self._watched = self._watched or Watched([*set(scopes)])
            if not self._watched.unchanged():
                self._holding = {key for key in self._holding if self.digests[key][2].unchanged()}
                self._watched = None
        for name in names:
            hasher = hashlib.blake2b(digest_size=16, person=b"nbcache names")
            for each in self._filed[name]:
                content = each.rank.encode() + self._digest(each, engine)
                hasher.update(len(content).to_bytes(8, "little") + content)
            yield name, hasher.digest()

    def words(self, each: Registration, engine: IdentityEngine) -> str:
        """A registration's identity, for people."""
        try:
            return hashlib.blake2b(self._digest(each, engine), digest_size=6).hexdigest()
        except Unidentifiable as exc:
            return str(exc)

    def is_asked_again(self, each: Registration) -> bool:
        """Whether a hit asks it again, so that all that it reads is covered."""
        return each.registered in self.asked_for_types or chooses(each.registered)

    def _digest(self, each: Registration, engine: IdentityEngine) -> bytes:
        if each.registered in self.asked_for_types:
            return asks_of(each)
        if chooses(each.registered):
            # In lists, as what runs.
            return asks_of(each) + b"".join(engine.digest([part]) for part in identified(each.registered))
        if id(each) not in self._holding:
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
            self.digests[id(each)] = (each, digest, scope)
            if not scope.volatile:
                self._holding.add(id(each))
                self._watched = None
        return self.digests[id(each)][1]

    # -- reading Numba's registries ------------------------------------------------------------------

    def _read(self, typing: list[Any], lowering: list[Any], changed: list[str]) -> None:
        self.readings += 1
        for registry in typing:
            self._read_typing(registry)
        for registry in lowering:
            self._read_lowering(registry)
        self._read_rewrites()
        self._read_tables(changed)
        self._read_annotations()
        self._read_conversions()

    def _news(self, registry: Any, field: str, items: list[Any] | None = None) -> list[Any]:
        """What was added to a list of a registry since it was read last."""
        items = getattr(registry, field) if items is None else items
        start = self._positions.get((id(registry), field), 0)
        self._positions[id(registry), field] = len(items)
        return items[start:]

    def _read_typing(self, registry: Any) -> None:
        built_in = registry is templates.builtin_registry
        functions, attributes = self._news(registry, "functions"), self._news(registry, "attributes")
        values = self._news(registry, "globals")
        if not functions and not attributes and not values:
            return
        asked = [(value, template) for value, typ in values for template in getattr(typ, "templates", ())]
        keys = [*(template.key for template in (*functions, *attributes)), *(value for value, _typ in values)]
        if are_numbas([*functions, *attributes, *(template for _value, template in asked)], keys):
            return
        first = self._positions[id(registry), "functions"] - len(functions)
        known = Counter(id(each.key) for each in registry.functions[:first])
        for template in functions:
            if is_others(template, template.key):
                self._file_template(template.key, template, known[id(template.key)], built_in=built_in)
            known[id(template.key)] += 1
        for template in filter(lambda it: is_others(it, it.key), attributes):
            self._file_attributes(template, registry.attributes)
        first = self._positions[id(registry), "globals"] - len(values)
        known = Counter(id(value) for value, _typ in registry.globals[:first])
        for value, typ in values:
            for template in getattr(typ, "templates", ()):
                if is_others(template, value):
                    self._file_template(value, template, known[id(value)], built_in=built_in)
            known[id(value)] += 1

    def _file_template(self, key: object, template: Any, before: int, *, built_in: bool) -> None:
        built_in = built_in and getattr(template, "metadata", {}).get("target", "generic") == "generic"
        rank = None if is_somebodys(key) else before
        self._file((asked_names.typed if built_in else asked_names.called)(key), "template", key, template, rank=rank)

    def _file_attributes(self, template: Any, attributes: list[Any]) -> None:
        cls = template.key if isinstance(template.key, type) else type(template.key)
        # Attributes of one's own types say nothing to who has none of these, whatever they are called.
        own = is_type_class(cls) and not is_toolchain_definition(cls)
        name = functools.partial(asked_names.attribute_of, cls) if own else asked_names.attribute
        rank = None if own else attributes_before(template, attributes)
        overloaded = getattr(template, "_attr", None)
        if overloaded is None and template.generic_resolve is not NotImplemented:
            general = asked_names.type_class(cls) if own else EVERYTHING
            self._file(general, "attributes", template.key, template, rank=rank)
        members = [each.removeprefix("resolve_") for each in dir(template) if each.startswith("resolve_")]
        for each in members if overloaded is None else [overloaded]:
            self._file(name(each), "attribute", template.key, template, rank=rank)

    def _read_lowering(self, registry: Any) -> None:
        news = [(field, item) for field in unregistered.LISTS_OF_LOWERING for item in self._news(registry, field)]
        # What an intrinsic's typing half answered is registered for itself.
        news = [(field, item) for field, item in news if field != "functions" or item[0] is not item[1]]
        parts = [parts_of(field, item) for field, item in news]
        keys = [key for _, function, signature in parts for key in (function, *signature)]
        if not news or are_numbas([implementation for implementation, _, _ in parts], keys):
            return
        for (field, item), (implementation, function, signature) in zip(news, parts, strict=True):
            if is_others(implementation, function, signature):
                rank = lowered_before(item, getattr(registry, field))
                if field == "functions":
                    # Lowering for one's own types says nothing to who has none of these.
                    name = of_type(signature) or asked_names.called(function)
                    self._file(name, "lowering", function, implementation, signature, rank)
                else:
                    general = EVERYTHING if len(item) == NAMELESS else asked_names.attribute(item[1])
                    self._file(of_type(signature) or general, field, None, implementation, signature, rank)

    def _read_rewrites(self) -> None:
        for kind, classes in rewrite_registry.rewrites.items():
            news = self._news(rewrite_registry, kind, classes)
            for cls in () if are_numbas(news, []) else filter(is_others, news):
                self.has_rewrites = True
                self._file(EVERYTHING, f"rewrite {kind}", None, cls, rank=classes.index(cls))

    def _read_tables(self, changed: list[str]) -> None:
        news = {label: unregistered.registered_since(label, self._tables[label]) for label in changed}
        unseen = [table for label, table in news.items() if label not in self._seen]
        registered = [each for table in unseen for each in table.values()]
        if len(unseen) == len(changed) and are_numbas(registered, [key for table in unseen for key in table]):
            return
        for label, table in news.items():
            if label not in self._seen and are_numbas([*table.values()], [*table]):
                continue
            seen = self._seen.setdefault(label, {})
            for cls, registered in table.items():
                # What is registered for an abstract base class may be for whoever is said to be one.
                general = is_toolchain_definition(cls) or (label == "typeof" and speaks_for_others(cls))
                if seen.get(cls) != (registered, general):
                    seen[cls] = (registered, general)
                    if not is_others(registered, cls):
                        continue
                    self._file(name_in(label, cls, general=general), label, cls, registered, (cls,))

    def _read_annotations(self) -> None:
        seen = self._seen.setdefault("annotation", {})
        for kind, typ in as_numba_type.lookup.items():
            if unregistered.own_annotations.get(kind) != typ and seen.get(kind) is not typ:
                seen[kind] = typ
                self._file(asked_names.annotation(kind), "annotation", kind, typ)
        for function in filter(is_others, self._news(as_numba_type, "functions")):
            self._file(asked_names.ANY_ANNOTATION, "annotation", None, function)

    def _read_conversions(self) -> None:
        news = unregistered.conversions[self._conversions :]
        self._conversions += len(news)
        for fromty, toty, how in news:
            name = of_type((fromty, toty))
            if name is None:  # both are Numba's
                unregistered.told.append("how types are converted")
            else:
                self._file(name, f"conversion to {toty} from", None, fromty, (fromty, toty), rank=how)

    def _file(
        self, name: bytes, label: str, key: object, registered: Any, signature: Iterable[Any] = (), rank: _Rank = None
    ) -> None:
        filed = self._filed.setdefault(name, [])
        formal = formals(signature)
        said = (name, label, id(registered), id(key), formal)
        if said in self._said:
            return
        self._said.add(said)
        words = f"{label} {getattr(registered, '__qualname__', registered)!s}"
        each = Registration(words, key, registered, formal, "" if rank is None else str(rank))
        is_late = self.is_late(each)
        waited = self.settled_at is not None and not is_late and each.identity not in self._early
        if not is_late:
            self._early.add(each.identity)
        elif isinstance(rank, int):
            each.rank = "late"
        filed.append(each)
        if only_types(registered):
            self.asked_for_types.add(registered)
        elif not chooses(registered) or any(True for _ in identified(registered)):
            runners.setdefault(name, set()).add(str(getattr(registered, "__module__", "")))
        self._count += 1
        self._named.setdefault(id(key), (key, set()))[1].add(name)
        if filed[0].key is not key or name in self._several:
            self.ambiguities += 1
            self._several[name] = self.ambiguities
        # Hits take it that who waited had been asked.
        self.since[name] = self.since.get(name, 0) if waited else self.generation + 1
