"""Content identity of live Python objects: equal digests mean interchangeable for the compiler.

Theory of operation
-------------------
An object is described by a *node*: labelled parts (exact bytes) and labelled edges to other
objects.  A function's edges lead to what its bytecode reads: globals, closure cells, attributes
of modules; a Dispatcher's to its function; a class's to its members.  The graph may have cycles
(recursion), so digests are computed per strongly connected component, in the order Tarjan's
algorithm finishes them: a node outside a cycle hashes its parts and its children's digests; the
nodes of a cycle are refined together, round by round, until as many rounds as nodes have passed,
which tells apart exactly what can be told apart by following edges.

Asking again must be cheap, so each component keeps a *scope*: what it read (dictionary items,
attributes, array contents) with the values it saw.  Identity is unchanged while every value read
is the same object; that comparison runs in C, in a few passes.  Comparing by ``is`` and never by
``==`` is what keeps ``1`` and ``True`` apart here.

A node is an object *as it is reached*: what is compiled counts by what the compiler makes of it, what
may run while compiling by all of it.  A function that is reached both ways is two nodes.

Digests say what following edges reads, so they can't tell one object that is reached twice from two
that are alike.  `IdentityEngine.sharing` does: it is empty unless something reached has a twin, and
else says who refers to which of the two.  Two graphs without twins whose digests agree are the same.

Objects whose identity cannot be established raise `Unidentifiable`.  Never guess.
"""

from __future__ import annotations

import hashlib
import itertools
import marshal
import weakref
from collections import Counter
from contextlib import contextmanager, suppress
from itertools import chain
from operator import attrgetter, is_, itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from nbcache.glue.identity.exact import encode_atom
from nbcache.passing import let_pass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import ModuleType

MISSING = object()
MAX_NODES = 20_000
MAX_ITEMS = 1_000_000
"""How many items a container may have: all are compared whenever somebody asks."""
_LONG = 2000
_MANY = 1000
MARK = "_nbcache_"
"""What the names of attributes begin with that nbcache leaves on others' objects."""
MEMO = "_nbcache_identity"
_MEMO_OF_RUN = "_nbcache_identity_run"


class Unidentifiable(Exception):  # noqa: N818  a verdict, not a malfunction
    """No identity can be established; ``str()`` is the reason, fit for ``nbcache stats``."""


class Node:
    """One object's description.  ``parts``: (label, bytes, words); ``edges``: (label, object)."""

    __slots__ = (
        "checks", "children", "compiled", "digest", "edges", "handed_on", "held", "index", "individual", "live",
        "lowlink", "names", "obj", "parts", "reached_compiled", "scope", "snapshots", "strings", "title", "volatile",
        "watched_attributes", "watched_items", "watched_members", "watched_sizes", "ways",
    )  # fmt: skip

    def __init__(self, obj: object, title: str, *, compiled: bool = False) -> None:
        self.obj = obj
        self.title = title
        self.compiled = compiled
        """Whether what the edges lead to that are added from now on is compiled; else it may run while compiling."""
        self.reached_compiled = False
        self.individual = False
        self.live = False
        """Whether compiled code is bound to this very object, whatever it holds."""
        """Whether anybody could tell the object from another one that is just like it."""
        self.held: list[tuple[bytes, object]] = []
        """Such objects that are described as part of this one, with their content."""
        self.ways: list[bool] = []
        """For each edge what `compiled` was."""
        self.parts: list[tuple[str, bytes, str]] = []
        self.edges: list[tuple[str, object]] = []
        self.children: list[Node] = []
        self.watched_items: list[tuple[dict[str, Any], str, object]] = []
        self.watched_attributes: list[tuple[object, str, object]] = []
        self.watched_members: list[tuple[MappingProxyType[str, Any], str, object]] = []
        self.checks: list[tuple[Callable[[Any], bytes], object, bytes]] = []
        self.snapshots: list[tuple[Callable[[Any], list[object]], object, list[object]]] = []
        self.watched_sizes: list[tuple[Any, int]] = []
        self.volatile = False
        self.handed_on: list[ModuleType] = []
        """Modules that other code gets from here, and may read anything off."""
        self.names: frozenset[str] = frozenset()
        """Names that code here may read off a module that it was handed."""
        self.strings: list[str] = []
        """More of these: ``getattr`` may be called with them."""
        self.digest: bytes | None = None
        self.scope: Scope | None = None
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
            words = repr(value)[:200]
        else:
            words = f"{type(value).__name__} {hashlib.blake2b(content, digest_size=6).hexdigest()}"
        self.parts.append((label, content, words))

    def _encode(self, label: str, value: object, depth: int) -> bytes:
        atom = encode_atom(value)
        kind = type(value)
        if atom is not None:
            if kind is str:
                self.strings.append(value)  # type: ignore[arg-type]
            return atom
        if kind not in _CONTAINERS or depth > (_TUPLE_DEPTH if kind is tuple else 0):
            # A node of its own: what is shared is described once, however often it is met.
            self.edge(label, value)
            return b"@"
        if len(value) > _MANY:  # type: ignore[arg-type]
            many = self._encode_many(label, value)
            if many is not None:
                return many
        if kind is not tuple and kind is not frozenset:
            self.snapshot(_CONTAINERS[kind], value)
        if kind is dict:
            parts = [
                self._encode(f"{label} key", k, depth + 1) + self._encode(f"{label}[{k!r}]", v, depth + 1)
                for k, v in value.items()  # type: ignore[attr-defined]
            ]
        elif kind is tuple or kind is list:
            parts = [self._encode(f"{label}[{i}]", item, depth + 1) for i, item in enumerate(value)]  # type: ignore[arg-type,var-annotated]
        else:
            atoms = [encode_atom(item) for item in value]  # type: ignore[attr-defined]
            if None in atoms:
                msg = f"{label} is a set of objects"
                raise Unidentifiable(msg)
            parts = sorted(atoms)  # type: ignore[arg-type]
        return kind.__name__.encode() + b"%d(" % len(parts) + b"".join(parts) + b")"

    def _encode_many(self, label: str, value: Any) -> bytes | None:
        """A large container as Python's own C code writes it down, if it can."""
        if len(value) > MAX_ITEMS:
            msg = f"{label} is a {type(value).__name__} of {len(value)} items"
            raise Unidentifiable(msg)
        if type(value) is set or type(value) is frozenset or _written(value) is None:
            return None
        items = [*value, *value.values()] if type(value) is dict else value
        self.strings += (item for item in items if type(item) is str)
        return _digest_of_many(value) if type(value) is tuple else self.check(_digest_of_many, value)

    def watch_item(self, container: dict[str, Any], name: str, value: object) -> None:
        """The identity holds while ``container.get(name)`` is *value* (MISSING: absent)."""
        self.watched_items.append((container, name, value))

    def watch_attribute(self, owner: object, name: str, value: object) -> None:
        """The identity holds while ``getattr(owner, name)`` is *value*."""
        self.watched_attributes.append((owner, name, value))

    def check(self, function: Callable[[Any], bytes], obj: object) -> bytes:
        """The identity holds while ``function(obj)`` returns what it returns now."""
        seen = function(obj)
        self.checks.append((function, obj, seen))
        return seen

    def watch_members(self, cls: type, *, ignored: frozenset[str]) -> list[tuple[str, object]]:
        """A class's own members, sorted; the identity holds while they are these."""
        members = vars(cls)
        found = sorted((name, value) for name, value in members.items() if name not in ignored)
        self.watched_members += ((members, name, value) for name, value in found)
        self.watch_size(members)
        return found

    def watch_size(self, sized: Any) -> None:
        """The identity holds while ``len(sized)`` is what it is now."""
        self.watched_sizes.append((sized, len(sized)))

    def snapshot(self, take: Callable[[Any], list[object]], obj: object) -> None:
        """The identity holds while ``take(obj)`` returns these very objects."""
        self.snapshots.append((take, obj, take(obj)))

    def local_digest(self) -> bytes:
        """Digest of kind and parts alone."""
        hasher = hashlib.blake2b(self.title.encode("utf-8", "surrogatepass"), digest_size=32, person=b"nbcache node")
        for label, content, _words in self.parts:
            name = label.encode("utf-8", "surrogatepass")
            hasher.update(b"%d:%d:" % (len(name), len(content)))
            hasher.update(name)
            hasher.update(content)
        return hasher.digest()


def _written(value: Any) -> bytes | None:
    """The items of a container if they are nothing but plain values; one pass in C."""
    items = [*value, *value.values()] if type(value) is dict else value
    if not _WRITABLE.issuperset(map(type, items)):
        return None
    return marshal.dumps(value, 2)  # later versions write references, which depend on who else holds an item


def _digest_of_many(value: Any) -> bytes:
    written = _written(value)
    return b"" if written is None else b"many" + hashlib.blake2b(written, digest_size=32).digest()


_WRITABLE = frozenset({type(None), bool, int, float, complex, str, bytes})
_MUTABLE = frozenset({list, dict, set})


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


class Scope:
    """What one component read, and the scopes of the components it leads to."""

    __slots__ = ("_bound", "_keepers", "_watched", "attributes", "checks", "children", "cycle", "handed_on", "hands_on",
                 "individuals", "items", "keepers", "live", "members", "names", "sizes", "snapshots", "strings",
                 "volatile")  # fmt: skip

    def __init__(self, nodes: Sequence[Node]) -> None:
        # Nearly all components are one node, whose lists nobody needs any more.
        first = nodes[0]
        self.items = first.watched_items
        self.attributes = first.watched_attributes
        self.members = first.watched_members
        self.checks = first.checks
        self.snapshots = first.snapshots
        self.sizes = first.watched_sizes
        self.volatile = first.volatile
        self.handed_on = first.handed_on
        self.strings = first.strings
        for node in nodes[1:]:
            self.items += node.watched_items
            self.attributes += node.watched_attributes
            self.members += node.watched_members
            self.checks += node.checks
            self.snapshots += node.snapshots
            self.sizes += node.watched_sizes
            self.volatile |= node.volatile
            self.handed_on += node.handed_on
            self.strings += node.strings
        self.hands_on = bool(self.handed_on)
        """Whether a module is handed on, here or below."""
        self.names = [node.names for node in nodes if node.names]
        self.live = [id(node.obj) for node in nodes if node.live]
        self.individuals: list[tuple[bytes, int]] = []
        """(digest, id) of what could have a twin; all of it lives while the scope is unchanged."""
        for node in nodes:
            if node.individual:
                self.individuals.append((node.digest, id(node.obj)))  # type: ignore[arg-type]
            if node.held:
                self.individuals += ((content, id(obj)) for content, obj in node.held)
        self.children: list[Scope] = []
        self.keepers: list[tuple[weakref.ref[Any], bytes]] = []
        self.cycle: list[tuple[weakref.ref[Any], bytes]] = []
        """Those of a cycle that carry no memo, with their digests."""
        self._watched: _Watched | None = None
        self._bound: tuple[int, ...] | None = None
        self._keepers: dict[bytes, weakref.ref[Any] | None] | None = None

    def unchanged(self) -> bool:
        """Whether everything read, here and below, is still the same object or content."""
        if self._watched is None:
            self._watched = _Watched(self.all())
        return _holds(self._watched)

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

    def bound(self) -> tuple[int, ...]:
        """The ids of what code is bound to, here and below, in the order in which it is reached."""
        if self._bound is None:
            self._bound = tuple(each for scope in self.all() for each in scope.live)
        return self._bound

    def all(self) -> list[Scope]:
        """This one and those below."""
        found: dict[int, Scope] = {}
        pending = [self]
        while pending:
            scope = pending.pop()
            if id(scope) not in found:
                found[id(scope)] = scope
                pending += scope.children
        return list(found.values())


class _Watched:
    """All that a scope and those below it read, sorted so that comparing is left to C.

    One attribute or item of many owners is read by one `map`, and many items of one dictionary by one call; reading
    each on its own takes four times as long. ``same``: (reader of one owner, owners, values seen). ``rows``: (reader of
    several items, dictionary, values seen).
    """

    __slots__ = ("checks", "odd", "rows", "same", "sized", "sizes", "snapshots", "volatile")

    def __init__(self, scopes: list[Scope]) -> None:
        self.volatile = any(scope.volatile for scope in scopes)
        # What many read is looked at once.
        checks = [item for scope in scopes for item in scope.checks]
        self.checks = list({(each[0], id(each[1]), each[2]): each for each in checks}.values())
        sizes = [item for scope in scopes for item in scope.sizes]
        self.sized = [sized for sized, _size in sizes]
        self.sizes = [size for _sized, size in sizes]
        self.snapshots = [item for scope in scopes for item in scope.snapshots]
        self.odd: list[tuple[Callable[..., object], object, str, object]] = []
        """What wasn't there, and what is in a dictionary of a class of its own."""
        self.same: list[tuple[Callable[[Any], object], list[Any], list[object]]] = []
        self.rows: list[tuple[Callable[[Any], Any], Any, list[object]]] = []
        self._sort_attributes([item for scope in scopes for item in scope.attributes])
        self._sort_items([item for scope in scopes for item in (*scope.items, *scope.members)])

    def _sort_attributes(self, watched: list[tuple[object, str, object]]) -> None:
        self.odd += [(getattr, owner, name, value) for owner, name, value in watched if value is MISSING]
        self._add_same(attrgetter, [item for item in watched if item[2] is not MISSING])

    def _sort_items(self, watched: list[tuple[Any, str, object]]) -> None:
        plain: list[tuple[Any, str, object]] = []
        for container, name, value in watched:
            if value is MISSING or type(container) not in _PLAIN:
                get = MappingProxyType.get if type(container) is MappingProxyType else dict.get
                self.odd.append((get, container, name, value))
            else:
                plain.append((container, name, value))
        names = Counter(name for _container, name, _value in plain)
        sizes = Counter(id(container) for container, _name, _value in plain)
        tables: dict[int, list[tuple[Any, str, object]]] = {}
        rest: list[tuple[Any, str, object]] = []
        for item in plain:
            size = sizes[id(item[0])]
            (tables.setdefault(id(item[0]), []) if size > max(1, names[item[1]]) else rest).append(item)
        for table in tables.values():
            if len(table) > 1:  # of a single name, itemgetter returns no tuple
                read = itemgetter(*(name for _container, name, _value in table))
                self.rows.append((read, table[0][0], [value for _container, _name, value in table]))
            else:
                rest += table
        self._add_same(itemgetter, rest)

    def _add_same(self, reader: Callable[[str], Any], items: Iterable[tuple[Any, str, object]]) -> None:
        groups: dict[str, list[tuple[object, object]]] = {}
        for owner, name, value in items:
            groups.setdefault(name, []).append((owner, value))
        for name, pairs in groups.items():
            self.same.append((reader(name), [owner for owner, _value in pairs], [value for _owner, value in pairs]))

    def unchanged(self) -> bool:
        """As `Scope.unchanged`; may raise anything, which means no."""
        return (
            not self.volatile
            and all(all(map(is_, map(read, owners), seen)) for read, owners, seen in self.same)
            and all(all(map(is_, read(container), seen)) for read, container, seen in self.rows)
            and list(map(len, self.sized)) == self.sizes
            and all(get(owner, name, MISSING) is seen for get, owner, name, seen in self.odd)
            and all(function(obj) == expected for function, obj, expected in self.checks)
            and all(are_same(take(obj), expected) for take, obj, expected in self.snapshots)
        )


def _holds(watched: _Watched) -> bool:
    try:
        return watched.unchanged()
    except Exception as raised:  # noqa: BLE001  e.g. an emptied closure cell: then it did change
        let_pass(raised)
        return False


_PLAIN = frozenset({dict, MappingProxyType})


def are_same(now: list[object], before: list[object]) -> bool:
    """Whether two lists hold the very same objects."""
    return len(now) == len(before) and all(map(is_, now, before))


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
        self, roots: tuple[object, ...], modules: tuple[ModuleType, ...] = (), names: frozenset[str] = frozenset()
    ) -> None:
        self.roots = roots
        self.modules = modules
        self.names = names


class _TooMuch(Unidentifiable):
    """A walk was given up for its length, which says nothing of what it came by."""


class _Common:
    """What walks from many roots have in common, kept while nothing of it changes."""

    def __init__(self, generation: object = MISSING, count: int = 0) -> None:
        self.generation = generation
        self.count = count
        """How many objects were described for `nodes_of`, in earlier ones of these as well."""
        self.busy = False
        """Whether a walk is adding to this one right now."""
        self.nodes: tuple[dict[int, Node], dict[int, Node]] = ({}, {})
        """By id and by whether they are reached as what is compiled; a node keeps its object alive."""
        self._refused: dict[int, object] = {}
        self._scopes: dict[int, Scope] = {}
        self._watched: list[_Watched] = []
        """What was read for `_scopes`, in the order in which it came."""
        self._grown = False

    def holds(self, generation: object) -> bool:
        """Whether all that is kept is what it was.  That of which nothing tells is dropped."""
        if generation != self.generation:
            return False
        if self._grown:
            self._drop(lambda node: node.scope.volatile)  # type: ignore[union-attr]
            scopes = {id(node.scope): node.scope for part in self.nodes for node in part.values()}
            fresh = {key: scope for key, scope in scopes.items() if key not in self._scopes}
            self._scopes.update(fresh)  # type: ignore[arg-type]
            self._watched.append(_Watched(list(fresh.values())))  # type: ignore[arg-type]
            self._grown = False
        return all(map(_holds, self._watched))

    def first(self, root: object, *, compiled: bool) -> Node | None:
        """The node of a root; None if it has none."""
        return self.nodes[compiled].get(id(root))

    def refused(self, root: object) -> bool:
        """Whether *root* can't be identified."""
        return id(root) in self._refused

    @contextmanager
    def growing(self, *, counted: bool = False) -> Iterator[None]:
        """While this is entered, a walk adds what it describes; what it has not finished is left out if it fails."""
        size = self._size()
        self.busy = True
        try:
            yield
        except BaseException:
            self._drop(lambda node: node.digest is None)
            raise
        finally:
            self.busy = False
            self._grown = True
            self.count += counted * (self._size() - size)

    def refuse(self, root: object) -> None:
        """*root* can't be identified."""
        self._refused[id(root)] = root

    def _size(self) -> int:
        return sum(map(len, self.nodes))

    def _drop(self, unwanted: Callable[[Node], bool]) -> None:
        for part in self.nodes:
            for key in [key for key, node in part.items() if unwanted(node)]:
                del part[key]


def _preorder(first: Node, seen: set[int]) -> Iterator[Node]:
    """The nodes below one in the order in which a walk came to them, but for those in *seen*, which grows."""
    work = [iter((first,))]
    while work:
        node = next(work[-1], None)
        if node is None:
            work.pop()
        elif id(node) not in seen:
            seen.add(id(node))
            yield node
            work.append(iter(node.children))


_LONG_WALK = 1_000
"""From how many objects on it is worth remembering where a walk ended."""


class IdentityEngine:
    """Computes digests with a given table of describers.

    ``describe(obj, compiled)`` returns the Node of an object that is no atom, or raises Unidentifiable.
    ``generation()`` returns a value that changes whenever descriptions may change for reasons
    that no watch sees (a new registration with Numba).  ``keeps_memo(obj)`` says which objects
    (those with a ``__dict__`` of their own that nobody pickles) carry their digest with them.
    ``compilable(obj)`` says what is compiled where it is reached by what is compiled; all else may run.
    """

    def __init__(
        self,
        describe: Callable[[object, bool], Node],
        generation: Callable[[], object],
        keeps_memo: Callable[[object], bool],
        compilable: Callable[[object], bool] = lambda _obj: True,
    ) -> None:
        self._describe = describe
        self._generation = generation
        self._keeps_memo = keeps_memo
        self._compilable = compilable
        self._refused: dict[tuple[int, bool], tuple[weakref.ref[Any], object, str]] = {}
        self._common = _Common()

    def scoped(self, root: object, limit: int | None = None) -> tuple[bytes, Scope]:
        """The digest of *root*, and the scope it holds in.  Raises Unidentifiable beyond *limit* objects."""
        generation = self._generation()
        memo = self._memo_of(root, compiled=self._compilable(root))
        if memo is None or limit is not None or not memo.holds(root, generation):
            first = self._walk([root], generation, use_memos=True, limit=limit)[0]
            digest, scope = first.digest, first.scope
            memo = self._memo_of(root, compiled=self._compilable(root))
        else:
            digest, scope = memo.digest, memo.scope
        if not scope.hands_on:  # type: ignore[union-attr]
            return digest, scope  # type: ignore[return-value]
        if memo is not None and memo.whole is not None and memo.whole[1].unchanged():
            return memo.whole
        node = self._handed_on((root,), limit, scope)
        memo = self._memo_of(root, compiled=self._compilable(root))
        if memo is not None:
            memo.whole = node.digest, node.scope  # type: ignore[assignment]
            memo.sharing = None
        return node.digest, node.scope  # type: ignore[return-value]

    def digest(self, root: object) -> bytes:
        """32 bytes that identify *root* and all it reaches, but for twins.  Raises Unidentifiable."""
        return self.scoped(root)[0]

    def carries(self, root: object, digest: bytes) -> bool:
        """Whether *root*, as what is compiled, carries this *digest*; it need not be up to date."""
        memo = self._memo_of(root, compiled=self._compilable(root))
        return memo is not None and memo.digest == digest

    def together(self, roots: tuple[object, ...]) -> bytes:
        """The digest of several objects, of which one may hand modules on to another."""
        return self._handed_on(roots).digest  # type: ignore[return-value]

    def bound(self, root: object) -> tuple[int, ...]:
        """The ids of the objects that code for *root* is bound to, whatever they hold; *root* carries its digest."""
        memo = self._memo_of(root, compiled=self._compilable(root))
        return () if memo is None else memo.scope.bound()

    def sharing(self, root: object, others: Sequence[tuple[object, Scope]] = ()) -> bytes:
        """What digests don't tell: b"" if nothing has a twin, else which of the two is referred to from where.

        *root* carries its digest, which is up to date; *others* are reached beside it, with their scopes.
        """
        memo = self._memo_of(root, compiled=self._compilable(root))
        if memo is None:
            scope = self.scoped(root)[1]
        elif not others and memo.sharing is not None:
            return memo.sharing
        else:
            scope = memo.scope if memo.whole is None else memo.whole[1]
        individuals = {pair for top in (scope, *(each for _obj, each in others)) for part in top.all()
                       for pair in part.individuals}  # fmt: skip
        found = b""
        if len({digest for digest, _id in individuals}) < len(individuals):
            found = _pattern(self._nodes((root, *(obj for obj, _scope in others))))
            memo = self._memo_of(root, compiled=self._compilable(root))  # a walk makes new ones
        if memo is not None and not others:
            memo.sharing = found
        return found

    def keeper(self, root: object, digest: bytes) -> object | None:
        """The one object reached from *root* that has this *digest*, among those that carry theirs.

        *root* carries its own, which is up to date.
        """
        memo = self._memo_of(root, compiled=self._compilable(root))
        return memo.scope.keeper(digest) if memo is not None else None

    def nodes(self, root: object) -> list[Node]:
        """Every node reached from *root*, the root first, in a stable order."""
        return self._nodes((root,))

    def nodes_of(self, roots: Iterable[object], limit: int, limit_in_all: int) -> Iterator[Node]:
        """Every node reached from *roots*, root by root, in a stable order.

        For graphs that are large and have most in common: an object is described once, however often and from how
        many roots it is asked for, until something changes. Left out are roots that can't be identified or reach more
        than *limit* objects that were not described before, all new ones when *limit_in_all* were described since the
        process began, and what is only read off modules that are handed on, which may be all of several packages.
        """
        common, seen = self._in_common(), set[int]()
        for root in roots:
            node = common.first(root, compiled=self._compilable(root))
            if node is None and not common.refused(root) and common.count < limit_in_all:
                with suppress(Unidentifiable), common.growing(counted=True):
                    node = self._walk((root,), common.generation, use_memos=False, limit=limit, nodes=common.nodes)[0]
            if node is None:
                common.refuse(root)
            else:
                yield from _preorder(node, seen)

    def scoped_for_good(self, root: object) -> tuple[bytes, Scope]:
        """As `scoped`, for something that lives as long as the process; what it reaches is shared with `nodes_of`."""
        common = self._in_common()
        with common.growing():
            self._walk((root,), common.generation, use_memos=False, nodes=common.nodes)
            node = common.nodes[self._compilable(root)][id(root)]
            if node.scope.hands_on:  # type: ignore[union-attr]
                node = self._handed_on((root,), scope=node.scope, nodes=common.nodes)
        return node.digest, node.scope  # type: ignore[return-value]

    def _in_common(self) -> _Common:
        if self._common.busy:  # a module that is asked for an attribute may compile something
            return _Common(self._generation(), self._common.count)
        if not self._common.holds(self._generation()):
            self._common = _Common(self._generation(), self._common.count)
        return self._common

    def _nodes(self, roots: tuple[object, ...]) -> list[Node]:
        nodes = self._walk(roots, self._generation(), use_memos=False)
        if any(node.handed_on for node in nodes):
            nodes = self._walk([self._handed_on(roots).obj], self._generation(), use_memos=False)
            return [*nodes[1:], nodes[0]]
        return nodes

    def _handed_on(
        self,
        roots: tuple[object, ...],
        limit: int | None = None,
        scope: Scope | None = None,
        nodes: tuple[dict[int, Node], dict[int, Node]] | None = None,
    ) -> Node:
        """The node of what is read off the modules that *roots* hand on, and of all they reach.

        Which names that are is known when all is known that is reached; and that may grow by what is found under
        these names.  *scope* is that of the roots, if it is known.
        """
        handed, node = HandedOn(roots), None
        while True:
            if scope is None:
                node = self._walk([handed], self._generation(), use_memos=nodes is None, limit=limit, nodes=nodes)[0]
                scope = node.scope
            scopes = scope.all()  # type: ignore[union-attr]
            # `operator.attrgetter` takes several names at once.
            strings = (part for scope in scopes for text in scope.strings for part in text.split("."))
            names = frozenset(chain(*(names for scope in scopes for names in scope.names), strings))
            modules = {id(module): module for scope in scopes for module in scope.handed_on}
            if node is not None and names == handed.names and modules.keys() == {id(each) for each in handed.modules}:
                return node
            handed, scope = HandedOn(roots, tuple(modules.values()), names), None

    def _walk(
        self,
        roots: Sequence[object],
        generation: object,
        *,
        use_memos: bool,
        limit: int | None = None,
        nodes: tuple[dict[int, Node], dict[int, Node]] | None = None,
    ) -> list[Node]:
        """The nodes that weren't among *nodes*, where all are left."""
        limit = MAX_NODES if limit is None else limit
        order: list[Node] = []
        nodes = ({}, {}) if nodes is None else nodes
        # Members of a cycle that one memo stands for. Without them they would get other digests than the
        # cycle gave them: what carries a memo is a leaf, and so the rest of its cycle none.
        known: tuple[dict[int, tuple[object, bytes, Scope]], ...] = ({}, {})
        # All members of a cycle have one scope, and are looked at one after the other.
        holding: dict[Scope, bool] = {}

        def holds(scope: Scope) -> bool:
            if scope not in holding:
                holding[scope] = scope.unchanged()
            return holding[scope]

        def visit(obj: object, way: bool) -> Node:
            compiled = way and self._compilable(obj)
            node = nodes[compiled].get(id(obj))
            if node is not None:
                return node
            if len(order) >= limit:
                msg = f"it reaches more than {limit} objects"
                raise _TooMuch(msg)
            refused = self._refused.get((id(obj), compiled)) if self._refused else None
            if refused is not None and refused[0]() is obj and refused[1] == generation:
                raise Unidentifiable(refused[2])
            memo = self._memo_of(obj, compiled=compiled) if use_memos and order else None
            member = known[compiled].get(id(obj)) if order else None
            if member is not None:
                node = Node(obj, "", compiled=compiled)
                _obj, node.digest, node.scope = member
            elif memo is not None and memo.is_of(obj, generation) and holds(memo.scope):
                node = Node(obj, "", compiled=compiled)
                node.digest, node.scope = memo.digest, memo.scope
                for ref, digest in memo.scope.cycle:
                    other = ref()
                    if other is not None:
                        known[compiled][id(other)] = (other, digest, memo.scope)
            else:
                node = self._describe(obj, compiled)
            node.reached_compiled = compiled
            nodes[compiled][id(obj)] = node
            order.append(node)
            return node

        try:
            self._visit_all(roots, visit, known, generation)
        except _TooMuch:
            raise
        except Unidentifiable as exc:
            if len(order) > _LONG_WALK:
                self._refuse(order, generation, str(exc))
            raise
        return order

    def _refuse(self, order: list[Node], generation: object, reason: str) -> None:
        """A long walk came to something that nothing identifies: don't walk there again.

        What it had not finished leads there.
        """
        for node in order:
            if node.digest is None:
                with suppress(TypeError):  # not everything can be referred to weakly
                    self._refused[id(node.obj), node.reached_compiled] = (weakref.ref(node.obj), generation, reason)

    def _visit_all(
        self,
        roots: Sequence[object],
        visit: Callable[[object, bool], Node],
        known: tuple[dict[int, tuple[object, bytes, Scope]], ...],
        generation: object,
    ) -> None:
        for root in roots:
            first = visit(root, True)
            for component in _components(first, visit):
                rest = []
                compiled = component[0].reached_compiled  # all of a cycle are
                for member in component:
                    if id(member.obj) in known[compiled]:
                        _obj, member.digest, member.scope = known[compiled][id(member.obj)]
                    else:
                        rest.append(member)
                if rest:
                    self._finish(rest, generation, compiled=compiled)

    def _finish(self, component: list[Node], generation: object, *, compiled: bool) -> None:
        _digest_component(component)
        scope = Scope(component)
        inside = {id(member) for member in component}
        seen: set[int] = set()
        for member in component:
            for child in member.children:
                if id(child) not in inside and child.scope is not None and id(child.scope) not in seen:
                    seen.add(id(child.scope))
                    scope.children.append(child.scope)
                    scope.hands_on |= child.scope.hands_on
                    scope.volatile |= child.scope.volatile
        for member in component:
            member.scope = scope
            if self._keeps_memo(member.obj):
                scope.keepers.append((weakref.ref(member.obj), member.digest))  # type: ignore[arg-type]
                memo = Memo(member.obj, member.digest, scope, generation)  # type: ignore[arg-type]
                vars(member.obj)[MEMO if compiled else _MEMO_OF_RUN] = memo
            elif len(component) > 1:
                with suppress(TypeError):  # not everything can be referred to weakly
                    scope.cycle.append((weakref.ref(member.obj), member.digest))  # type: ignore[arg-type]

    def _memo_of(self, obj: object, *, compiled: bool) -> Memo | None:
        return vars(obj).get(MEMO if compiled else _MEMO_OF_RUN) if self._keeps_memo(obj) else None


def _pattern(nodes: list[Node]) -> bytes:
    """Which edges lead to one and the same object; *nodes* as a walk without memos visited them."""
    places = {id(node.obj): i for i, node in enumerate(nodes)}
    hasher = hashlib.blake2b(digest_size=32, person=b"nbcache sharing")
    for node in nodes:
        reached = (id(child.obj) for child in node.children)
        held = (id(obj) for _content, obj in node.held)
        for each in itertools.chain([id(node.obj)], reached, held):
            hasher.update(b"%d," % places.setdefault(each, len(places) + len(nodes)))
        hasher.update(b";")
    return hasher.digest()


def _components(first: Node, visit: Callable[[object, bool], Node]) -> Iterator[list[Node]]:
    """Tarjan's algorithm, without recursion: a chain of callees may be longer than Python's stack."""
    counter = itertools.count()
    stack: list[Node] = []
    on_stack: set[int] = set()
    work = [first]
    while work:
        node = work[-1]
        if node.digest is not None:
            work.pop()
            continue
        if node.index < 0:
            node.index = node.lowlink = next(counter)
            stack.append(node)
            on_stack.add(id(node))
        if len(node.children) < len(node.edges):
            position = len(node.children)
            child = visit(node.edges[position][1], node.ways[position])
            if child.index < 0 and child.digest is None:
                work.append(child)
            elif id(child) in on_stack:
                node.lowlink = min(node.lowlink, child.index)
            node.children.append(child)
            continue
        work.pop()
        for child in node.children:
            if id(child) in on_stack:
                node.lowlink = min(node.lowlink, child.lowlink)
        if node.lowlink == node.index:
            component: list[Node] = []
            while not component or component[-1] is not node:
                component.append(stack.pop())
                on_stack.discard(id(component[-1]))
            yield component


def _digest_component(component: list[Node]) -> None:
    """Give every node of one strongly connected component its digest.

    Colours are refined by the colours of the children until no further node can be told apart.
    The last colours alone would only depend on the neighbourhood that few rounds reach, so each
    digest also covers the component's whole transition table: two nodes agree only if following
    any path of labels from them reads the same parts.
    """
    if len(component) == 1:  # one round tells all there is
        (node,) = component
        colours = {id(node): node.local_digest()}
        node.digest = _refined(node, colours, _edge_bytes(node, {id(node)}))
        return
    inside = {id(member) for member in component}
    colours = {id(member): member.local_digest() for member in component}
    edges = {id(member): _edge_bytes(member, inside) for member in component}
    distinct = 0
    while len(set(colours.values())) > distinct:
        distinct = len(set(colours.values()))
        colours = {id(member): _refined(member, colours, edges[id(member)]) for member in component}
    table = hashlib.blake2b(digest_size=32)
    for row in sorted(_refined(member, colours, edges[id(member)]) for member in component):
        table.update(row)
    for member in component:
        member.digest = hashlib.blake2b(colours[id(member)] + table.digest(), digest_size=32).digest()


def _edge_bytes(node: Node, inside: set[int]) -> list[tuple[bytes, Node | None]]:
    """For each edge its label and, unless the child is in the same component, the child's digest."""
    found: list[tuple[bytes, Node | None]] = []
    for (label, _obj), child in zip(node.edges, node.children, strict=True):
        name = label.encode("utf-8", "surrogatepass")
        prefix = b"%d:%s" % (len(name), name)
        found.append((prefix, child) if id(child) in inside else (prefix + child.digest, None))  # type: ignore[operator]
    return found


def _refined(node: Node, colours: dict[int, bytes], edges: list[tuple[bytes, Node | None]]) -> bytes:
    hasher = hashlib.blake2b(colours[id(node)], digest_size=32, person=b"nbcache edge")
    for prefix, child in edges:
        hasher.update(prefix)
        if child is not None:
            hasher.update(colours[id(child)])
    return hasher.digest()


Describer: TypeAlias = "Callable[[Node, Any], None]"
"""Says of a node what an object consists of."""
