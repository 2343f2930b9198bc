"""Digests of graphs: equal ones mean that they are alike, cycles and shared parts included; and nodes in common."""

from __future__ import annotations

import hashlib
import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

from nbcache.glue.identity.node import HandedOn, Node, Scope, Unidentifiable, Walked
from nbcache.glue.identity.watched import MISSING, Watched


def sharing_pattern(nodes: list[Node]) -> bytes:
    """Which edges lead to one and the same object; *nodes* as a walk without memos visited them."""
    places = {id(node.obj): i for i, node in enumerate(nodes)}
    hasher = hashlib.blake2b(digest_size=32, person=b"nbcache sharing")
    for node in nodes:
        children = sorted(node.children, key=_digest_of) if node.unordered else node.children
        reached = (id(child.obj) for child in children)
        held = (id(obj) for _content, obj in node.held)
        for each in itertools.chain([id(node.obj)], reached, held):
            hasher.update(b"%d," % places.setdefault(each, len(places) + len(nodes)))
        hasher.update(b";")
    return hasher.digest()


def _digest_of(node: Node) -> bytes:
    return node.digest or b""


def components(first: Node, visit: Callable[[object, bool], Node]) -> Iterator[list[Node]]:
    """Tarjan's algorithm, without recursion: a chain of callees may be longer than Python's stack."""
    counter = itertools.count()
    stack: list[Node] = []
    on_stack: set[Node] = set()
    work = [first]
    while work:
        node = work[-1]
        if node.digest is not None:
            work.pop()
            continue
        if node.index < 0:
            node.index = node.lowlink = next(counter)
            stack.append(node)
            on_stack.add(node)
        if len(node.children) < len(node.edges):
            position = len(node.children)
            child = visit(node.edges[position][1], node.ways[position])
            if child.index < 0 and child.digest is None:
                work.append(child)
            elif child in on_stack:
                node.lowlink = min(node.lowlink, child.index)
            node.children.append(child)
            continue
        work.pop()
        for child in node.children:
            if child in on_stack:
                node.lowlink = min(node.lowlink, child.lowlink)
        if node.lowlink == node.index:
            component: list[Node] = []
            while not component or component[-1] is not node:
                component.append(stack.pop())
                on_stack.discard(component[-1])
            yield component


def led_astray(order: list[Node]) -> str:
    """Which variable of a function led a walk to what nobody could describe, in words; "" if none did.

    *order* are the nodes of the walk that was given up. Of compiled code, which a user wrote, it is the last variable:
    beyond it only values are looked into. Else it is the first.
    """
    way = [node for node in order if node.digest is None][:1]
    while way and way[-1].children and way[-1].children[-1].index > way[-1].index:
        way.append(way[-1].children[-1])
    while way and len(way[-1].children) == len(way[-1].edges):  # done: where the walk ended, an edge was left
        way.pop()
    edges = [(node, node.edges[len(node.children) - (node is not way[-1])][0]) for node in way]
    of_compiled = [label for node, label in reversed(edges) if node.reached_compiled]
    for label in [*of_compiled, *(label for _node, label in edges)]:
        kind, _, rest = label.partition(" ")
        function, colon, variable = rest.partition(": ")
        if kind in {"global", "closure"} and colon:
            return f"{kind} `{variable}` of {function}"
    return ""


def on_the_way(roots: Sequence[object], order: list[Node]) -> list[object]:
    """What may have led a walk to where it ended: all that it had not finished."""
    handed = [module for root in roots if isinstance(root, HandedOn) for module, _compiled in root.modules]
    return [*handed, *(node.obj for node in order if node.digest is None and not node.reached_compiled)]


def digest_component(component: list[Node]) -> None:
    """Give every node of one strongly connected component its digest.

    Colours are refined by the colours of the children until no further node can be told apart.
    The last colours alone would only depend on the neighbourhood that few rounds reach, so each
    digest also covers the component's whole transition table: two nodes agree only if following
    any path of labels from them reads the same parts.
    """
    if len(component) == 1:  # one round tells all there is
        (node,) = component
        colours = {node: node.local_digest()}
        node.digest = _refined(node, colours, _edge_bytes(node, {node}))
        return
    inside = set(component)
    colours = {member: member.local_digest() for member in component}
    edges = {member: _edge_bytes(member, inside) for member in component}
    distinct = 0
    while len(set(colours.values())) > distinct:
        distinct = len(set(colours.values()))
        colours = {member: _refined(member, colours, edges[member]) for member in component}
    table = hashlib.blake2b(digest_size=32)
    for row in sorted(_refined(member, colours, edges[member]) for member in component):
        table.update(row)
    for member in component:
        member.digest = hashlib.blake2b(colours[member] + table.digest(), digest_size=32).digest()


def _edge_bytes(node: Node, inside: set[Node]) -> list[tuple[bytes, Node | None]]:
    """For each edge its label and, unless the child is in the same component, the child's digest."""
    found: list[tuple[bytes, Node | None]] = []
    for (label, _obj), child in zip(node.edges, node.children, strict=True):
        name = label.encode("utf-8", "surrogatepass")
        prefix = b"%d:%s" % (len(name), name)
        found.append((prefix, child) if child in inside else (prefix + child.digest, None))  # type: ignore[operator]
    return found


def _refined(node: Node, colours: dict[Node, bytes], edges: list[tuple[bytes, Node | None]]) -> bytes:
    pieces = [prefix if child is None else prefix + colours[child] for prefix, child in edges]
    if node.unordered:
        pieces.sort()
    return hashlib.blake2b(b"".join((colours[node], *pieces)), digest_size=32, person=b"nbcache edge").digest()


MOST_HANDED_ON = 256
"""For how many roots it is kept what is read off modules: that may be thousands of names, and types are without end."""


class Common:
    """What walks from many roots have in common, kept while nothing of it changes."""

    def __init__(self, generation: object = MISSING, count: int = 0) -> None:
        self.generation = generation
        self.count = count
        """How many objects were described for `nodes_of`, in earlier ones of these as well."""
        self.busy = False
        """Whether a walk is adding to this one right now."""
        self.nodes: tuple[dict[int, Node], dict[int, Node]] = ({}, {})
        """By id and by whether they are reached as what is compiled; a node keeps its object alive."""
        self.refused: dict[int, object] = {}
        """Roots that can't be identified, by id."""
        self.handed_on: dict[tuple[int, ...], Node] = {}
        """The nodes of modules that are handed on, by the ids of the roots, which they keep alive."""
        self.lists: dict[tuple[object, ...], bytes] = {}
        """The digests of lists, by what is in them."""
        self._scopes: set[Scope] = set()
        self._watched: list[Watched] = []
        """What was read for `_scopes`, in the order in which it came."""
        self._grown = False

    def holds(self, generation: object) -> bool:
        """Whether all that is kept is what it was.  That of which nothing tells is dropped."""
        if generation != self.generation or len(self.handed_on) > MOST_HANDED_ON:
            return False
        if self._grown:
            fresh = {node.scope for part in self.nodes for node in part.values()} - self._scopes
            if any(scope.volatile for scope in fresh):  # type: ignore[union-attr]
                self._drop(lambda node: node.scope.volatile)  # type: ignore[union-attr]
                fresh = {scope for scope in fresh if not scope.volatile}  # type: ignore[union-attr]
            self._scopes |= fresh  # type: ignore[arg-type]
            self._watched.append(Watched(list(fresh)))  # type: ignore[arg-type]
            self._grown = False
        return all(each.unchanged() for each in self._watched)

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
            self.busy, more = False, self._size() - size
            self._grown |= more > 0
            self.count += counted * more

    def _size(self) -> int:
        return sum(map(len, self.nodes))

    def _drop(self, unwanted: Callable[[Node], bool]) -> None:
        parts: list[dict[Any, Node]] = [*self.nodes, self.handed_on]
        for part in parts:
            for key in [key for key, node in part.items() if unwanted(node)]:
                del part[key]


def preorder(first: Node, seen: set[Node]) -> Iterator[Node]:
    """The nodes below one in the order in which a walk came to them, but for those in *seen*, which grows."""
    work = [iter((first,))]
    while work:
        node = next(work[-1], None)
        if node is None:
            work.pop()
        elif node not in seen:
            seen.add(node)
            yield node
            work.append(iter(node.children))


_MOST_KEPT = 20_000
"""How many nodes are kept: a package may make functions without end."""


class Kept:
    """The nodes of what lives as long as the process, each with the walk that found it."""

    def __init__(self) -> None:
        self._generation: object = None
        self._nodes: dict[int, Node] = {}

    def nodes(self, generation: object) -> dict[int, Node]:
        """Those of a *generation*, by the ids of what they are of."""
        if self._generation != generation or len(self._nodes) > _MOST_KEPT:
            self._generation, self._nodes = generation, {}
        return self._nodes

    def add(self, order: list[Node], generation: object, lasts: Callable[[object], bool]) -> None:
        """Keep those that a walk has found, in this *order*, of what *lasts*."""
        found = [
            (node, scope)
            for node in order
            if (scope := node.scope) is not None and not node.reached_compiled
            if scope.walked is None or not scope.walked.holds
            if not scope.volatile and lasts(node.obj)
        ]
        Walked([scope for _node, scope in found])
        self.nodes(generation).update((id(node.obj), node) for node, _scope in found)


class Refused:
    """What nothing identifies, and what leads there: a long walk came to it, and another one needn't."""

    def __init__(self) -> None:
        self.found: dict[tuple[int, bool], tuple[weakref.ref[object], object, str]] = {}

    def again(self, obj: object, generation: object, *, compiled: bool) -> None:
        """Raises Unidentifiable where it is known of *obj*."""
        refused = self.found.get((id(obj), compiled))
        if refused is not None and refused[0]() is obj and refused[1] == generation:
            raise Unidentifiable(refused[2])

    def add(self, order: list[Node], generation: object, reason: str) -> None:
        """A walk in this *order* was given up for a *reason*: what it had not finished leads there."""
        for node in order:
            if node.digest is None:
                with suppress(TypeError):  # not everything can be referred to weakly
                    self.found[id(node.obj), node.reached_compiled] = (weakref.ref(node.obj), generation, reason)


class Holding(dict[Scope | Walked | Common, bool]):
    """What is unchanged. All members of a cycle have one scope, and are looked at one after the other."""

    def keeps(self, node: Node) -> bool:
        """Whether a node that was kept is what it was, with all below it."""
        scope: Scope = node.scope  # type: ignore[assignment]
        walked = scope.walked
        return self[walked] or (scope.walked is not walked and self[scope.walked])  # type: ignore[index]

    def __missing__(self, read: Scope | Walked) -> bool:
        if isinstance(read, Scope):
            holds = self[read] = read.unchanged()
            return holds
        work = [read]  # there may be more of them below each other than calls may be
        while work:
            earlier = [each for each in work[-1].earlier if each not in self]
            if not earlier:
                walked = work.pop()
                self[walked] = walked.unchanged(all(self[each] for each in walked.earlier))
            work += earlier
        return self[read]


class Looking:
    """What is kept is looked at once per walk; while nothing changes, once for all walks."""

    def __init__(self) -> None:
        self._holding = Holding()
        self._is_steady = self._is_walking = False

    def holding(self) -> Holding:
        """Where it is said of what was looked at whether it is unchanged."""
        return self._holding if self._is_steady and not self._is_walking else Holding()

    def again(self) -> None:
        """Something has changed."""
        self._holding = Holding()

    @contextmanager
    def steady(self) -> Iterator[None]:
        """While this is entered nothing changes, but for what a walk may run: see `walking`."""
        before, self._is_steady = self._is_steady, True
        try:
            yield
        finally:
            self._is_steady = before
            if not before:
                self.again()

    @contextmanager
    def walking(self) -> Iterator[None]:
        """Whoever asks while this is entered is code of the program, as of a module that is asked for an attribute.

        That may have changed anything.
        """
        before, self._is_walking = self._is_walking, True
        try:
            yield
        finally:
            self._is_walking = before


Members: TypeAlias = "tuple[dict[int, tuple[object, bytes, Scope]], ...]"
"""Of cycles that a leaf stands for: those that carry no memo, by id, with what the cycle gave them; by how they are
reached. Without these they would get other digests: what a leaf stands for leads nowhere, and so they to no cycle."""


def know_members(nodes: Iterable[Node], known: Members) -> None:
    """The other members of the cycles that leaves among *nodes* stand for are *known* from now on."""
    for node in nodes:
        if not node.title:
            for ref, digest in node.scope.cycle:  # type: ignore[union-attr]
                other = ref()
                if other is not None:
                    known[node.reached_compiled][id(other)] = (other, digest, node.scope)  # type: ignore[assignment]


def leaf(obj: object, digest: bytes, scope: Scope, *, compiled: bool) -> Node:
    """A node of which no more is known than what the walk that described it came to."""
    node = Node(obj, "", compiled=compiled)
    node.digest, node.scope, node.reached_compiled = digest, scope, compiled
    return node


def take(
    first: Node,
    order: list[Node],
    nodes: tuple[dict[int, Node], dict[int, Node]],
    taken: set[Node],
    known: Members | None,
) -> bool:
    """Add what was described for another walk; False if it isn't the whole of it, and has to be: nothing is *known*.

    Nor where it leads back to what is being described here: both are of one cycle, which has to be seen as one.
    *taken* is what this walk has taken so before, with all below it.
    """
    below = list(preorder(first, taken))
    here = (nodes[each.reached_compiled].get(id(each.obj), each) for each in below)
    if (known is None and not all(each.title for each in below)) or any(each.digest is None for each in here):
        taken.difference_update(below)
        return False
    if known is not None:
        know_members(below, known)
    for each in below:
        described = nodes[each.reached_compiled]
        if id(each.obj) not in described:
            described[id(each.obj)] = each
            order.append(each)
    return True
