"""One object of a graph: what it consists of, what was read to know that, and whether that is what it was."""

from __future__ import annotations

import functools
import hashlib
import weakref
from collections.abc import Callable, KeysView, Sequence
from operator import attrgetter
from types import FunctionType, ModuleType
from typing import Any, TypeAlias

from nbcache.glue.identity.constant_bytes import encode_atom, encode_plain, spelt
from nbcache.glue.identity.watched import Readings, Watched

MAX_ITEMS = 100_000
"""How many items a container may have: all are compared whenever somebody asks."""
ANYTHING = "*"
"""Among the names that code may read off a module: one that it computes."""
TOOLCHAIN = "toolchain "
"""What the title of a definition begins with that is the toolchain's, and that its name says all about."""
_LONG = 2000
_LOWEST, _HIGHEST = 1 << 32, 1 << 48
"""Between which kernels place libraries. Others have them elsewhere, and never find what has one in its key."""


class Unidentifiable(Exception):  # noqa: N818  a verdict, not a malfunction
    """No identity can be established; ``str()`` is the reason, fit for ``nbcache stats``."""


class Unresolvable(Exception):  # noqa: N818  a verdict, not a malfunction
    """A definition means nothing, or two things, in this process."""


class Node(Readings):
    """One object's description.  ``parts``: (label, bytes, words); ``edges``: (label, object)."""

    __slots__ = (
        "children", "compiled", "digest", "edges", "held", "index", "individual", "live", "lowlink", "names", "obj",
        "parts", "reached_compiled", "scope", "title", "unordered", "ways",
    )  # fmt: skip

    def __init__(self, obj: object, title: str, *, compiled: bool = False) -> None:
        self.obj = obj
        self.title = title
        self.compiled = compiled
        """Whether what the edges lead to that are added from now on is compiled; else it may run while compiling."""
        self.reached_compiled = False
        self.individual = False
        """Whether anybody could tell the object from another one that is just like it."""
        self.live = False
        """Whether compiled code is bound to this very object, whatever it holds."""
        self.held: list[tuple[bytes, object]] = []
        """Such objects that are described as part of this one, with their content."""
        self.ways: list[bool] = []
        """For each edge what `compiled` was."""
        self.parts: list[tuple[str, bytes, str]] = []
        self.edges: list[tuple[str, object]] = []
        self.children: list[Node] = []
        self.attributes, self.checks, self.items, self.sizes, self.snapshots = [], [], [], [], []
        self.absent, self.handed_on, self.strings = [], [], []
        self.volatile = self.ends = self.parallel = False
        self.names: frozenset[str] = frozenset()
        """Names that code here may read off a module that it was handed."""
        self.digest: bytes | None = None
        self.scope: Scope | None = None
        self.unordered = False
        """Whether the edges are in no order."""
        self.index = -1
        self.lowlink = -1

    def part(self, label: str, content: bytes, words: str = "") -> None:
        """Add exact bytes."""
        self.parts.append((label, content, words))

    def edge(self, label: str, obj: object) -> None:
        """Add another object's identity."""
        self.edges.append((label, obj))
        self.ways.append(self.compiled)

    def value(self, label: str, value: object, *, owned: bool = False) -> None:
        """Add a value: an atom by its bytes, a container by its items, the rest as an edge.

        *owned*: nobody else refers to the container.
        """
        before = len(self.edges)
        content = self._encode(label, value, 0)
        if not owned and type(value) in _MUTABLE:
            self.held.append((hashlib.blake2b(content, digest_size=16).digest(), value))
        if len(self.edges) > before:
            words = type(value).__name__
        elif len(content) < _LONG:
            words = (spelt if type(value) in _SETS else repr)(value)[:200]
        else:
            words = f"{type(value).__name__} {hashlib.blake2b(content, digest_size=6).hexdigest()}"
        self.parts.append((label, content, words))

    def _encode(self, label: str, value: object, depth: int) -> bytes:
        atom = encode_atom(value)
        kind = type(value)
        if atom is not None:
            if kind is str:
                self.strings.append(value)  # type: ignore[arg-type]
            elif kind is int and _LOWEST < value < _HIGHEST:  # type: ignore[operator]
                from nbcache.glue.identity.c_functions import file_of  # few numbers are that large

                file = file_of(value)  # type: ignore[arg-type]
                if file:
                    raise Unidentifiable(f"{label} is the address of something in {file}")
            return atom
        if kind not in _CONTAINERS or depth > (_TUPLE_DEPTH if kind is tuple else 0):
            # A node of its own: what is shared is described once, however often it is met.
            self.edge(label, value)
            return b"@"
        if len(value) > MAX_ITEMS:  # type: ignore[arg-type]
            msg = f"{label} is a {kind.__name__} of {len(value)} items"  # type: ignore[arg-type]
            raise Unidentifiable(msg)
        if kind is not tuple and kind is not frozenset:
            self.snapshot(_CONTAINERS[kind], value)
        if kind is dict:
            parts = self._encode_pairs(label, value, depth + 1)
        elif kind is tuple or kind is list:
            parts = [self._encode(f"{label}[{i}]", item, depth + 1) for i, item in enumerate(value)]  # type: ignore[arg-type,var-annotated]
        else:
            parts = self._encode_items(label, value)
        return kind.__name__.encode() + b"%d(" % len(parts) + b"".join(parts) + b")"

    def _encode_pairs(self, label: str, value: Any, depth: int) -> list[bytes]:
        """Keys and values of a dictionary, in its order."""
        parts = []
        for i, (key, each) in enumerate(value.items()):
            before = len(self.edges)
            parts.append(self._encode(f"{label} key", key, depth))
            # What an object says of itself may be its address.
            name = i if len(self.edges) > before else repr(key)
            parts.append(self._encode(f"{label}[{name}]", each, depth))
        return parts

    def _encode_items(self, label: str, value: Any) -> list[bytes]:
        """The items of a set, which are in no order that processes share."""
        spelt = [(item, encode_plain(item)) for item in value]
        plain = [content for _item, content in spelt if content is not None]
        parts = sorted(plain)
        if len(plain) == len(spelt):
            if not self.compiled and _NUMBERS.issuperset(map(type, value)):
                # They have the same order in each process, and code that runs may go through them.
                parts += plain
            return parts
        if self.obj is not value:  # a node of its own, all of whose edges lead to items
            self.edge(label, value)
            return [b"@"]
        self.unordered = True
        others = [item for item, content in spelt if content is None]
        for item in sorted(others, key=_name_of):  # so that processes come by most in one order
            self.edge(label, item)
        return [*parts, b"@" * len(others)]

    def watch_item(self, container: dict[str, Any], name: str, value: object) -> None:
        """The identity holds while ``container.get(name)`` is *value* (MISSING: absent)."""
        self.items.append((container, name, value))

    def watch_absent(self, container: dict[str, Any], names: frozenset[str]) -> None:
        """The identity holds while *container* has none of these *names*."""
        if names:
            self.absent.append((container, names))

    def watch_attribute(self, owner: object, name: str, value: object) -> None:
        """The identity holds while ``getattr(owner, name)`` is *value*, or the same text if it makes one each time."""
        if type(value) is str and attrgetter(name)(owner) is not value:
            self.check(functools.partial(_text_of, name), owner)
        else:
            self.attributes.append((owner, name, value))

    def watch_paths(self, owner: object, *paths: str) -> None:
        """The identity holds while what lies at these *paths*, names with dots between, is what it is now."""
        for path, value in zip(paths, attrgetter(*paths)(owner), strict=True):
            if type(value) is str:
                self.watch_attribute(owner, path, value)
            else:
                self.attributes.append((owner, path, value))

    def check(self, function: Callable[[Any], bytes], obj: object) -> bytes:
        """The identity holds while ``function(obj)`` returns what it returns now."""
        seen = function(obj)
        self.checks.append((function, obj, seen))
        return seen

    def watch_members(self, cls: type, *, ignored: frozenset[str]) -> list[tuple[str, object]]:
        """A class's own members, sorted; the identity holds while they are these."""
        members = vars(cls)
        found = sorted((name, value) for name, value in members.items() if name not in ignored)
        self.items += ((members, name, value) for name, value in found)
        self.watch_size(members)
        return found

    def watch_size(self, sized: Any) -> None:
        """The identity holds while ``len(sized)`` is what it is now."""
        self.sizes.append((sized, len(sized)))

    def snapshot(self, take: Callable[[Any], list[object]], obj: object) -> None:
        """The identity holds while ``take(obj)`` returns these very objects."""
        self.snapshots.append((take, obj, take(obj)))

    def local_digest(self) -> bytes:
        """Digest of kind and parts alone."""
        pieces = [self.title.encode("utf-8", "surrogatepass")]
        for label, content, _words in self.parts:
            name = label.encode("utf-8", "surrogatepass")
            pieces += (b"%d:%d:" % (len(name), len(content)), name, content)
        return hashlib.blake2b(b"".join(pieces), digest_size=32, person=b"nbcache node").digest()


def _name_of(item: Any) -> str:
    """What a function or a class is called; "" for all else."""
    return f"{item.__module__}:{item.__qualname__}" if isinstance(item, type | FunctionType) else ""


def _text_of(name: str, owner: object) -> bytes:
    return str(attrgetter(name)(owner)).encode("utf-8", "surrogatepass")


_MUTABLE = frozenset({list, dict, set})
_SETS = frozenset({set, frozenset})
_NUMBERS = frozenset({bool, int, float, complex})


def _items_of_dict(value: dict[Any, Any]) -> list[object]:
    return [*value, *value.values()]


_CONTAINERS: dict[type, Callable[[Any], list[object]]] = {
    tuple: list,
    list: list,
    dict: _items_of_dict,
    set: list,
    frozenset: list,
}
_TUPLE_DEPTH = 5


Bound: TypeAlias = "tuple[tuple[bytes, object], ...]"
"""Objects that code is bound to, whatever they hold, each with the digest that it has."""


class Scope(Readings):
    """What one component read, and the scopes of the components it leads to; what ends or is parallel may be below."""

    __slots__ = ("_bound", "_keepers", "_watched", "children", "cycle", "hands_on", "individuals", "keepers", "live",
                 "may_run", "names", "walked")  # fmt: skip

    def __init__(self, nodes: Sequence[Node]) -> None:
        # Nearly all components are one node, whose lists nobody needs any more. Of what isn't there it keeps none: half
        # of what the collector met after a hit were empty lists.
        first, *others = nodes
        empty: Any = list if others else tuple
        self.attributes, self.checks = first.attributes or empty(), first.checks or empty()
        self.items, self.sizes = first.items or empty(), first.sizes or empty()
        self.snapshots, self.handed_on = first.snapshots or empty(), first.handed_on or empty()
        self.absent, self.strings = first.absent or empty(), first.strings or empty()
        self.volatile, self.ends, self.parallel = first.volatile, first.ends, first.parallel
        self.may_run = False
        """Whether anything is here or below that may run while compiling, and isn't the toolchain's by its name."""
        for node in others:
            self.add(node)
        self.hands_on = bool(self.handed_on)
        """Whether a module is handed on, here or below."""
        names, live, individuals = [], [], []
        for node in nodes:
            self.may_run |= not node.reached_compiled and not node.title.startswith(TOOLCHAIN)
            if node.names:
                names.append(node.names)
            if node.live:
                live.append((node.digest, node.obj))
            if node.individual:
                individuals.append((node.digest, id(node.obj)))
            for content, obj in node.held:
                individuals.append((content, id(obj)))
        self.names = tuple(names)
        self.live: Bound = tuple(live)  # type: ignore[arg-type]
        self.individuals: tuple[tuple[bytes, int], ...] = tuple(individuals)  # type: ignore[arg-type]
        """(digest, id) of what could have a twin; all of it lives while the scope is unchanged."""
        self.children: list[Scope] = []
        self.keepers: list[tuple[weakref.ref[Any], bytes]] = []
        self.cycle: list[tuple[weakref.ref[Any], bytes]] = empty()
        """Those of a cycle that carry no memo, with their digests."""
        self.walked: Walked | None = None
        self._watched: Watched | None = None
        self._bound: Bound | None = None
        self._keepers: dict[bytes, weakref.ref[Any] | None] | None = None

    def unchanged(self) -> bool:
        """Whether everything read, here and below, is still the same object or content."""
        if self._watched is None:
            self._watched = Watched(self.all())
        return self._watched.unchanged()

    def keeper(self, digest: bytes) -> object | None:
        """The one object here or below that carries a memo of *digest*; None if there are two."""
        if self._keepers is None:
            found: dict[bytes, weakref.ref[Any] | None] = {}
            for scope in self.all():
                for known, its_digest in scope.keepers:
                    found[its_digest] = known if found.get(its_digest, known) is known else None
            self._keepers = found
        keeper = self._keepers.get(digest)
        return None if keeper is None else keeper()

    def bound(self) -> Bound:
        """What code is bound to, here and below, in the order in which it is reached."""
        if self._bound is None:
            self._bound = tuple(each for scope in self.all() for each in scope.live)
        return self._bound

    def all(self) -> list[Scope]:
        """This one and those below."""
        found: dict[Scope, None] = {}
        pending = [self]
        while pending:
            scope = pending.pop()
            if scope not in found:
                found[scope] = None
                pending += scope.children
        return list(found)


class Walked:
    """What one walk has read for what lives as long as the process: it is kept while all of that is what it was.

    Thousands of functions of a package lead to the same, which would be compared once for each of them.
    """

    __slots__ = ("_watched", "earlier", "holds", "roots", "scopes")

    def __init__(self, scopes: list[Scope]) -> None:
        self.scopes: list[Scope] = []
        """Those that were read in this walk, for these *scopes* and below them."""
        self.roots = set(scopes)
        """These, and where later walks came by the others: what is below none of them nobody leads to any more."""
        self.earlier: set[Walked] = set()
        """Walks that had read what else is below."""
        self.holds = True
        """Whether it did when that was last asked."""
        self._watched: Watched | None = None
        while scopes:
            scope = scopes.pop()
            if scope.walked is None or not scope.walked.holds:
                scope.walked = self
                self.scopes.append(scope)
                scopes += scope.children
            elif scope.walked is not self:
                self.earlier.add(scope.walked)
                scope.walked.roots.add(scope)

    def unchanged(self, earlier: bool) -> bool:
        """Whether all that was read in this walk is what it was, if that in *earlier* ones is; else it is let go.

        What was there before may be large, and what has changed refers to the walk. What hasn't is one of its own.
        """
        if self._watched is None and self.holds:
            self._watched = Watched(self.scopes)
        if self.holds and not (earlier and self._watched.unchanged()):  # type: ignore[union-attr]
            roots, scopes, self.holds = self.roots, self.scopes, False
            self.roots, self.scopes, self.earlier, self._watched = set(), [], set(), None
            Walked([*(roots & _unchanged_among(scopes))])
        return self.holds


def _unchanged_among(scopes: list[Scope]) -> KeysView[Scope]:
    """Those of a walk's *scopes* of which nothing has changed, here or below."""
    parents: dict[Scope, list[Scope]] = {scope: [] for scope in scopes}
    changed = []
    for scope in scopes:
        elsewhere = (child.walked for child in scope.children if child not in parents)
        if not all(walked and walked.holds for walked in elsewhere) or not Watched([scope]).unchanged():
            changed.append(scope)
        for child in parents.keys() & scope.children:
            parents[child].append(scope)
    while changed:
        changed += parents.pop(changed.pop(), ())
    return parents.keys()


class Memo:
    """A digest and the scope it holds in; kept on the object itself, so that it dies with it.

    ``sharing``: that of the object alone, once somebody has asked.
    """

    __slots__ = ("_owner", "_generation", "digest", "scope", "sharing", "whole")  # noqa: RUF023  as they are set

    def __init__(self, owner: object, digest: bytes, scope: Scope, generation: object) -> None:
        # functools.wraps copies an object's __dict__ onto another object, this memo included.
        self._owner = weakref.ref(owner)
        self._generation = generation
        self.digest = digest
        self.scope = scope
        self.whole: tuple[bytes, Scope] | None = None
        """Digest and scope with what others read off the modules that are handed on; None if not known."""
        self.sharing: bytes | None = None

    def is_of(self, owner: object, generation: object) -> bool:
        """Whether this was *owner*'s identity, and still is if the scope is unchanged."""
        return self._owner() is owner and self._generation == generation

    def holds(self, owner: object, generation: object) -> bool:
        """Whether this is still *owner*'s identity."""
        return self.is_of(owner, generation) and self.scope.unchanged()


class HandedOn:
    """Modules that code passes to other code, as ``g(m): return m.K`` is called with one, and what is read off them.

    ``names`` are all names that could be read anywhere below ``roots``.  That is a property of the roots: the
    function that hands a module on knows nothing of the names, nor does the function that reads one know
    the module; so neither's own digest says anything about it.
    """

    def __init__(
        self,
        roots: tuple[object, ...],
        modules: tuple[tuple[ModuleType, bool], ...] = (),
        names: frozenset[str] = frozenset(),
    ) -> None:
        self.roots = roots
        self.modules = modules
        self.names = names


class TooMuchError(Unidentifiable):
    """A walk was given up for its length, which says nothing of what it came by."""


class MarkedError(Unidentifiable):
    """A walk was given up, and would end elsewhere now."""


Describer: TypeAlias = "Callable[[Node, Any], None]"
"""Says of a node what an object consists of."""
