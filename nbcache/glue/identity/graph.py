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

import sys
import weakref
from contextlib import nullcontext, suppress
from itertools import chain
from typing import TYPE_CHECKING

from nbcache.glue import own_attributes
from nbcache.glue.identity.bytecode import names_in
from nbcache.glue.identity.describe import is_compilable, keeps_memo
from nbcache.glue.identity.digests import (
    Common,
    Kept,
    Looking,
    Members,
    Refused,
    components,
    digest_component,
    know_members,
    leaf,
    led_astray,
    on_the_way,
    preorder,
    sharing_pattern,
    take,
)
from nbcache.glue.identity.marked_packages import lasts, mark
from nbcache.glue.identity.node import (
    Bound,
    HandedOn,
    MarkedError,
    Memo,
    Node,
    Scope,
    TooMuchError,
    Unidentifiable,
)
from nbcache.process import collected_later

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

MAX_NODES = 20_000

_LONG_WALK = 1_000
"""From how many objects on it is worth remembering where a walk ended."""


class IdentityEngine:
    """Computes digests with a given table of describers.

    ``describe(obj, compiled)`` returns the Node of an object that is no atom, or raises Unidentifiable.
    ``generation()`` returns a value that changes whenever descriptions may change for reasons
    that no watch sees (a new registration with Numba).
    """

    def __init__(self, describe: Callable[[object, bool], Node], generation: Callable[[], object]) -> None:
        self._describe = describe
        self._generation = generation
        self._refused = Refused()
        self._common = Common()
        self._kept = Kept()
        self._marked_in_vain: set[tuple[object, ...]] = set()
        self._looking = Looking()
        self.aside: Callable[[], AbstractContextManager[None]] = nullcontext
        """Entered where nbcache's own code runs for long: it is no part of what the program does."""

    def scoped(self, root: object, limit: int | None = None, walked: list[Node] | None = None) -> tuple[bytes, Scope]:
        """The digest of *root*, and the scope it holds in.  Raises Unidentifiable beyond *limit* objects.

        *walked* is given what `nodes` returns, if it takes a walk that describes all of it to know the digest.
        """
        generation = self._generation()
        memo = _memo_of(root)
        if memo is None or limit is not None or not memo.holds(root, generation):
            nodes = self._walk([root], generation, use_memos=True, limit=limit)
            digest, scope = nodes[0].digest, nodes[0].scope
            if walked is not None and not scope.hands_on and "" not in [node.title for node in nodes]:  # type: ignore[union-attr]
                walked += nodes
        else:
            digest, scope = memo.digest, memo.scope
        if not scope.hands_on:  # type: ignore[union-attr]
            return digest, scope  # type: ignore[return-value]
        memo = _memo_of(root)  # a walk makes new ones
        if memo is not None and memo.whole is not None and memo.whole[1].unchanged():
            return memo.whole
        node = self._handed_on((root,), limit, scope)
        memo = _memo_of(root)
        if memo is not None:
            memo.whole = node.digest, node.scope  # type: ignore[assignment]
            memo.sharing = None
        return node.digest, node.scope  # type: ignore[return-value]

    def digest(self, root: object) -> bytes:
        """32 bytes that identify *root* and all it reaches, but for twins.  Raises Unidentifiable."""
        return self.scoped(root)[0]

    def carries(self, root: object, digest: bytes) -> bool:
        """Whether *root*, as what is compiled, carries this *digest*; it need not be up to date."""
        memo = _memo_of(root)
        return memo is not None and memo.digest == digest

    def together(self, roots: tuple[object, ...], *, for_good: bool = False) -> bytes:
        """The digest of several objects, of which one may hand modules on to another.

        *for_good*: all of them live as long as the process.
        """
        return (self._for_good(roots) if for_good else self._handed_on(roots)).digest  # type: ignore[return-value]

    def bound(self, root: object) -> Bound:
        """The objects that code for *root* is bound to, whatever they hold; *root* carries its digest."""
        memo = _memo_of(root)
        return () if memo is None else memo.scope.bound()

    def is_parallel(self, root: object) -> bool:
        """Whether *root*, which carries its digest, reaches anything whose loops may be compiled to run in parallel."""
        memo = _memo_of(root)
        return memo is not None and memo.scope.parallel

    def sharing(self, root: object, others: Sequence[tuple[object, Scope]] = ()) -> bytes:
        """What digests don't tell: b"" if nothing has a twin, else which of the two is referred to from where.

        *root* carries its digest, which is up to date; *others* are reached beside it, with their scopes.
        """
        memo = _memo_of(root)
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
            found = sharing_pattern(self._nodes((root, *(obj for obj, _scope in others))))
            memo = _memo_of(root)  # a walk makes new ones
        if memo is not None and not others:
            memo.sharing = found
        return found

    def keeper(self, root: object, digest: bytes) -> object | None:
        """The one object reached from *root* that has this *digest*, among those that carry theirs.

        *root* carries its own, which is up to date.
        """
        memo = _memo_of(root)
        return memo.scope.keeper(digest) if memo is not None else None

    def nodes(self, root: object, *, for_good: bool = False) -> list[Node]:
        """Every node reached from *root*, the root first, in a stable order; *for_good* as in `together`."""
        if not for_good:
            return self._nodes((root,))
        first, *others = preorder(self._for_good((root,)), set())
        return [*others, first] if isinstance(first.obj, HandedOn) else [first, *others]

    def still(self, root: object, scope: Scope) -> bool:
        """Whether *scope* is the one that *root* carries, and all that was read for it is what it was."""
        memo = _memo_of(root)
        return memo is not None and memo.scope is scope and memo.holds(root, self._generation())

    def nodes_of(self, roots: Iterable[object], limit: int, limit_in_all: int) -> Iterator[Node]:
        """Every node reached from *roots*, root by root, in a stable order.

        For graphs that are large and have most in common: an object is described once, however often and from how
        many roots it is asked for, until something changes. Left out are roots that can't be identified or reach more
        than *limit* objects that were not described before, all new ones when *limit_in_all* were described since the
        process began, and what is only read off modules that are handed on, which may be all of several packages.
        """
        common, seen = self._in_common(), set[Node]()
        for root in roots:
            node = common.nodes[is_compilable(root)].get(id(root))
            if node is None and id(root) not in common.refused and common.count < limit_in_all:
                with suppress(Unidentifiable), common.growing(counted=True):
                    node = self._walk((root,), common.generation, use_memos=False, limit=limit, nodes=common.nodes)[0]
            if node is None:
                common.refused[id(root)] = root
            else:
                yield from preorder(node, seen)

    def scoped_for_good(self, root: object) -> tuple[bytes, Scope]:
        """As `scoped`, for something that lives as long as the process; what it reaches is shared with `nodes_of`."""
        node = self._for_good((root,))
        return node.digest, node.scope  # type: ignore[return-value]

    def _for_good(self, roots: tuple[object, ...]) -> Node:
        """The node of one that lives as long as the process, or of the modules that this one or several hand on."""
        key = tuple(map(id, roots))
        while True:
            common = self._in_common()
            node = common.handed_on.get(key)
            with suppress(MarkedError), common.growing(), collected_later():
                if node is None and len(roots) == 1:
                    self._walk(roots, common.generation, use_memos=False, nodes=common.nodes)
                    node = common.nodes[is_compilable(roots[0])][id(roots[0])]
                if node is None or (node.scope.hands_on and key not in common.handed_on):  # type: ignore[union-attr]
                    node = self._handed_on(roots, scope=None if node is None else node.scope, nodes=common.nodes)
                    common.handed_on[key] = node
                return node
            self._common = Common(self._generation(), common.count)

    def digest_for_good(self, objects: tuple[object, ...]) -> bytes:
        """The digest of a list of these, all of which live as long as the process."""
        digest = self._in_common().lists.get(objects)
        if digest is None:
            root = [*objects]
            digest, scope = self.scoped_for_good(root)
            if not scope.volatile and id(root) in self._common.nodes[False]:  # not while another walk is under way
                self._common.lists[objects] = digest
        return digest

    def forget(self) -> None:
        """Keep no walks any more: Python, where it ends, looks three times at each object that is left."""
        self._common, self._kept = Common(), Kept()

    def steady(self) -> AbstractContextManager[None]:
        """While this is entered no code of the program runs: what is kept of walks is looked at once, if at all."""
        return self._looking.steady()

    def _in_common(self) -> Common:
        generation, holding = self._generation(), self._looking.holding()
        if self._common.busy:  # a module that is asked for an attribute may compile something
            return Common(generation, self._common.count)
        if self._common not in holding or self._common.generation != generation:
            with self.aside():
                holds = self._common.holds(generation)
            if not holds:
                self._common = Common(generation, self._common.count)
            holding[self._common] = True
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
        handed, node, generation = HandedOn(roots), None, self._generation()
        found = ({}, {}) if nodes is None else nodes
        while True:
            if scope is None:
                try:
                    node = self._walk([handed], generation, use_memos=nodes is None, limit=limit, nodes=found)[0]
                except MarkedError:
                    if nodes is not None:
                        raise
                    return self._handed_on(roots, limit)
                scope = node.scope
            scopes = scope.all()  # type: ignore[union-attr]
            strings = {text for scope in scopes for text in scope.strings}
            named = {names for scope in scopes for names in scope.names}
            names = frozenset(chain(*named, *map(names_in, strings)))
            modules = frozenset(each for scope in scopes for each in scope.handed_on)
            if node is not None and names == handed.names and modules == frozenset(handed.modules):
                return node
            handed, scope = HandedOn(roots, tuple(modules), names), None

    def _walk(
        self,
        roots: Sequence[object],
        generation: object,
        *,
        use_memos: bool,
        limit: int | None = None,
        nodes: tuple[dict[int, Node], dict[int, Node]] | None = None,
    ) -> list[Node]:
        """The nodes that weren't among *nodes*, where all are left.

        Where it comes to what nobody can identify, it begins anew, unless there is no other way
        (:mod:`nbcache.glue.identity.marked_packages`). Raises MarkedError where *nodes* have to be walked anew as well.
        """
        while True:
            order: list[Node] = []
            try:
                found = ({}, {}) if nodes is None else nodes
                with self.aside():
                    self._walk_once(roots, generation, order, found, use_memos=use_memos, limit=limit or MAX_NODES)
            except Unidentifiable as exc:
                marked = limit is None and (
                    mark(on_the_way(roots, order)) or (not order and self._mark_readers(roots, generation, str(exc)))
                )
                if not marked:
                    led = "" if isinstance(exc, TooMuchError) else led_astray(order)
                    exc.args = (f"{exc}, to which {led} leads" if led else str(exc),)
                    raise
                self._refused.found.clear()
                self._looking.again()  # what is kept of these packages ends elsewhere now
                if nodes is not None:
                    raise MarkedError(*exc.args) from exc
            else:
                return order

    def _mark_readers(self, roots: Sequence[object], generation: object, ended_at: str) -> bool:
        """Mark who reads something off modules that are handed on, and could read what nobody can identify.

        Where a walk *ended at* something for which nobody could be marked, nobody is looked for again.
        """
        question = ended_at, generation, len(sys.modules)
        if question in self._marked_in_vain:
            return False
        below, order = [each for root in roots if isinstance(root, HandedOn) for each in root.roots], list[Node]()
        with suppress(Unidentifiable):
            self._walk_once(below, generation, order, ({}, {}), use_memos=False, limit=MAX_NODES)
        marked = mark(node.obj for node in order if node.names and not node.reached_compiled)
        if not marked:
            self._marked_in_vain.add(question)
        return marked

    def _walk_once(
        self,
        roots: Sequence[object],
        generation: object,
        order: list[Node],
        nodes: tuple[dict[int, Node], dict[int, Node]],
        *,
        use_memos: bool,
        limit: int,
    ) -> None:
        known: Members = ({}, {})
        know_members(chain(*map(dict.values, nodes)) if use_memos else (), known)
        holding, taken, members = self._looking.holding(), set[Node](), known if use_memos else None
        kept = self._kept.nodes(generation)

        def visit(obj: object, way: bool) -> Node:
            compiled = way and is_compilable(obj)
            node = nodes[compiled].get(id(obj))
            if node is not None:
                return node
            if len(order) >= limit:
                msg = f"it reaches more than {limit} objects"
                raise TooMuchError(msg)
            if self._refused.found:
                self._refused.again(obj, generation, compiled=compiled)
            node = kept.get(id(obj)) if not compiled else None
            if node is not None and holding.keeps(node) and take(node, order, nodes, taken, members):
                return node
            memo = _memo_of(obj, compiled=compiled) if use_memos and order else None
            member = known[compiled].get(id(obj)) if order else None
            if member is not None:
                node = leaf(obj, *member[1:], compiled=compiled)
            elif memo is not None and memo.is_of(obj, generation) and holding[memo.scope]:
                node = leaf(obj, memo.digest, memo.scope, compiled=compiled)
                know_members((node,), known)
            else:
                node = self._describe(obj, compiled)
            node.reached_compiled = compiled
            nodes[compiled][id(obj)] = node
            order.append(node)
            return node

        try:
            self._visit_all(roots, visit, known, generation)
        except Unidentifiable as exc:
            if len(order) > _LONG_WALK and not isinstance(exc, TooMuchError):
                self._refused.add(order, generation, str(exc))
            raise
        finally:
            self._kept.add(order, generation, lasts)

    def _visit_all(
        self,
        roots: Sequence[object],
        visit: Callable[[object, bool], Node],
        known: Members,
        generation: object,
    ) -> None:
        with self._looking.walking():
            for component in chain.from_iterable(components(visit(root, True), visit) for root in roots):
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
        digest_component(component)
        scope = Scope(component)
        inside, seen = set(component), set[Scope]()
        for member in component:
            for child in member.children:
                if child not in inside and child.scope is not None and child.scope not in seen:
                    seen.add(child.scope)
                    scope.children.append(child.scope)
                    scope.hands_on |= child.scope.hands_on
                    scope.ends |= child.scope.ends
                    scope.may_run |= child.scope.may_run
                    scope.parallel |= child.scope.parallel
                    scope.volatile |= child.scope.volatile
        for member in component:
            member.scope = scope
            if keeps_memo(type(member.obj)):  # type: ignore[arg-type]
                scope.keepers.append((weakref.ref(member.obj), member.digest))  # type: ignore[arg-type]
                memo = Memo(member.obj, member.digest, scope, generation)  # type: ignore[arg-type]
                vars(member.obj)[own_attributes.IDENTITY if compiled else own_attributes.IDENTITY_OF_RUN] = memo
            elif len(component) > 1:
                with suppress(TypeError):  # not everything can be referred to weakly
                    scope.cycle.append((weakref.ref(member.obj), member.digest))  # type: ignore[arg-type]


def _memo_of(obj: object, *, compiled: bool = True) -> Memo | None:
    """What *obj* carries; all that carry one are compiled where nobody says otherwise, as roots are."""
    if not keeps_memo(type(obj)):  # type: ignore[arg-type]
        return None
    return vars(obj).get(own_attributes.IDENTITY if compiled else own_attributes.IDENTITY_OF_RUN)
