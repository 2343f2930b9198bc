"""The identity engine alone, on made-up graphs."""

import functools
import gc
import sys
import weakref
from types import ModuleType

import pytest
from llvmlite import ir

from nbcache.glue.identity import graph, marked_packages
from nbcache.glue.identity.describe import Describers, is_compilable, keeps_memo
from nbcache.glue.identity.graph import IdentityEngine
from nbcache.glue.identity.node import Node, Scope, Unidentifiable
from nbcache.glue.identity.watched import MISSING, Watched
from nbcache.glue.keys.key_maker import KeyMaker


class Thing:
    """Named parts and edges; keeps its memo in its ``__dict__``."""

    def __init__(self, name, *edges):
        self.name = name
        self.edges = list(edges)


class Engine(IdentityEngine):
    def __init__(self):
        self.described = 0
        super().__init__(self.describe, lambda: 0)

    def describe(self, thing, _compiled):
        self.described += 1
        if thing.name is None:
            raise Unidentifiable("no name")
        node = Node(thing, "thing")
        node.watch_attribute(thing, "name", thing.name)
        node.watch_attribute(thing, "edges", thing.edges)
        node.part("name", thing.name.encode())
        for i, child in enumerate(thing.edges):
            node.edge(str(i), child)
        return node


@pytest.fixture(autouse=True)
def of_things(monkeypatch):
    """Things are compiled, and carry their digests."""
    monkeypatch.setattr(graph, "keeps_memo", lambda cls: cls is Thing or keeps_memo(cls))
    monkeypatch.setattr(graph, "is_compilable", lambda obj: type(obj) is Thing or is_compilable(obj))


@pytest.fixture
def engine():
    return Engine()


def ring(*names):
    things = [Thing(name) for name in names]
    for thing, following in zip(things, things[1:] + things[:1], strict=True):
        thing.edges.append(following)
    return things


def test_equal_graphs_have_equal_digests(engine):
    assert engine.digest(Thing("a", Thing("b"))) == engine.digest(Thing("a", Thing("b")))
    assert engine.digest(Thing("a", Thing("b"))) != engine.digest(Thing("a", Thing("c")))


def test_a_change_anywhere_in_a_cycle_changes_every_digest_in_it(engine):
    before = [engine.digest(thing) for thing in ring(*"abcdefghij")]
    after = [engine.digest(thing) for thing in ring(*"abcdefghiX")]
    assert len(set(before)) == 10
    assert not set(before) & set(after)


def test_a_cycle_has_one_identity_wherever_it_is_entered(engine):
    first, second = ring(*"abc"), ring(*"abc")
    from_a = [engine.digest(thing) for thing in first]
    from_c = [engine.digest(thing) for thing in reversed(second)]
    assert from_a == from_c[::-1]


def test_cycles_of_different_length_differ(engine):
    digests = {engine.digest(ring(*"ab" * n)[0]) for n in (1, 2, 3)}
    # abab... unrolls to the same paths, so these may agree; a cycle with another word in it may not.
    assert engine.digest(ring(*"abac")[0]) not in digests


def test_a_chain_longer_than_the_recursion_limit(engine):
    thing = Thing("end")
    for i in range(5000):
        thing = Thing(str(i), thing)
    assert engine.digest(thing)


def test_asking_again_describes_nothing(engine):
    thing = Thing("end")
    for i in range(300):
        thing = Thing(str(i), thing)
    first = engine.digest(thing)
    engine.described = 0
    assert engine.digest(thing) == first
    assert engine.described == 0


def test_a_change_at_the_end_of_a_chain_is_seen(engine):
    end = Thing("end")
    thing = end
    for i in range(300):
        thing = Thing(str(i), thing)
    first = engine.digest(thing)
    end.name = "changed"
    assert engine.digest(thing) != first
    end.name = "end"
    assert engine.digest(thing) == first


@pytest.mark.parametrize("count", [1, 2, 49, 50, 51, 300])
def test_something_equal_in_the_place_of_what_was_read_is_seen_however_much_is_read(count):
    things = [Thing(f"{number}") for number in range(count)]
    table = {f"{number}": number for number in range(count)}
    for thing in things:
        thing.value = 1
    node = Node(things, "things")
    for thing in things:
        node.watch_attribute(thing, "name", thing.name)
        node.watch_attribute(thing, "value", thing.value)
    for name, value in table.items():
        node.watch_item(table, name, value)
    scope = Scope([node])
    for thing in things[:: max(1, count // 5)]:
        assert scope.unchanged()
        for other in (True, 1.0):
            thing.value = other
            assert not scope.unchanged()
        thing.value = 1
        del thing.value
        assert not scope.unchanged()
        thing.value = 1
    table["0"] = False
    assert not scope.unchanged()
    table["0"] = 0
    assert scope.unchanged()
    del table["0"]
    assert not scope.unchanged()


def test_a_memo_copied_to_another_object_is_not_its_identity(engine):
    first = Thing("a")
    engine.digest(first)
    other = Thing("b")
    vars(other)["_nbcache_identity"] = vars(first)["_nbcache_identity"]
    assert engine.digest(other) == engine.digest(Thing("b"))


def test_a_walk_that_describes_everything_is_the_one_that_is_asked_for(engine):
    leaf = Thing("c")
    root = Thing("a", Thing("b", leaf), leaf)
    walked = []
    _digest, scope = engine.scoped(root, walked=walked)
    assert engine.still(root, scope)
    assert [node.obj for node in walked] == [node.obj for node in engine.nodes(root)]
    assert not engine.still(root, scope)  # it carries what the last walk found

    _digest, scope = engine.scoped(root)
    leaf.name = "d"
    assert not engine.still(root, scope)

    around, walked = Thing("e", root), []
    engine.scoped(root)
    engine.scoped(around, walked=walked)
    assert not walked  # what carries its digest wasn't looked into


def test_what_cannot_be_identified_makes_everything_above_it_unidentifiable(engine):
    bad = Thing(None)
    with pytest.raises(Unidentifiable, match="no name"):
        engine.digest(functools.reduce(lambda below, name: Thing(name, below), "abc", bad))


def test_too_large_a_graph_is_refused(engine, monkeypatch):
    monkeypatch.setattr("nbcache.glue.identity.graph.MAX_NODES", 10)
    with pytest.raises(Unidentifiable, match="more than 10 objects"):
        engine.digest(Thing("top", *(Thing(str(i)) for i in range(10))))


def test_a_cycle_has_the_same_digests_whoever_was_asked_first():
    source = """
from numba import njit
def f(x):
    return g(x - 1) if x > 0 else h(x)
def h(x):
    return f(x)
@njit
def g(x):
    return f(x)
"""
    engine, cold, warm = KeyMaker().engine, ModuleType("case"), ModuleType("case")
    for module in (cold, warm):
        exec(compile(source, "case.py", "exec"), vars(module))
    engine.digest(warm.g)
    assert engine.digest(warm.f) == engine.digest(cold.f)
    assert engine.digest(warm.h) == engine.digest(cold.h)


def names_of(engine, *roots, limit=100, limit_in_all=1000):
    return [node.obj.name for node in engine.nodes_of(roots, limit, limit_in_all)]


def test_what_several_roots_have_in_common_is_described_once(engine):
    common = Thing("c", Thing("d"))
    roots = [Thing("a", common), Thing("b", common)]
    assert names_of(engine, *roots) == ["a", "c", "d", "b"]
    assert names_of(engine, *reversed(roots)) == ["b", "c", "d", "a"]
    assert engine.described == 4
    assert engine.scoped_for_good(roots[0])[0] == Engine().digest(roots[0])
    assert engine.described == 4


def test_what_is_in_common_is_described_again_when_something_of_it_changes(engine):
    last = Thing("d")
    roots = [Thing("a", Thing("c", last)), Thing("b")]
    before = engine.scoped_for_good(roots[0])[0]
    assert names_of(engine, *roots) == ["a", "c", "d", "b"]
    last.name = "e"
    assert names_of(engine, *roots) == ["a", "c", "e", "b"]
    assert engine.scoped_for_good(roots[0])[0] == Engine().digest(roots[0]) != before


def test_what_nothing_tells_to_have_changed_is_not_kept(engine):
    class Silent(Engine):
        def describe(self, thing, compiled):
            node = super().describe(thing, compiled)
            node.attributes.clear()
            node.volatile = thing.name == "silent"
            return node

    engine, silent = Silent(), Thing("silent")
    root = Thing("a", Thing("b", silent), Thing("c"))
    assert names_of(engine, root) == ["a", "b", "silent", "c"]
    silent.edges.append(Thing("d"))
    assert names_of(engine, root) == ["a", "b", "silent", "d", "c"]
    assert engine.described == 4 + 4


class Part(Thing):
    """What isn't compiled, and carries no digest."""


def test_a_cycle_with_a_class_that_is_kept_has_one_digest(engine, monkeypatch):
    """It is met at a class, which another walk has left, or at an instance, which leads there and back."""
    monkeypatch.setattr(graph, "lasts", lambda obj: obj.name == "class")
    cls, instance = Part("class"), Part("instance")
    cls.edges.append(instance)
    instance.edges.append(cls)
    assert engine.digest(Thing("a", instance)) == engine.digest(Thing("a", instance))
    assert engine.digest(Thing("a", cls)) == engine.digest(Thing("a", cls))


def test_roots_that_cannot_be_identified_or_reach_too_much_are_left_out(engine):
    shared = Thing("s")
    bad, deep, good = Thing("bad", shared, Thing(None)), Thing("deep", Thing("e", Thing("f"))), Thing("good", shared)
    assert names_of(engine, bad, deep, good, limit=2) == ["good", "s"]
    assert names_of(engine, good, limit=2) == ["good", "s"]
    assert names_of(Engine(), good, Thing("late"), limit_in_all=2) == ["good", "s"]
    with pytest.raises(Unidentifiable):
        engine.scoped_for_good(bad)


def test_a_walk_that_fails_in_the_middle_or_is_asked_for_in_the_middle_of_another_spoils_nothing():
    class Answering(Engine):
        def describe(self, thing, compiled):
            if thing.name == "asks":
                assert self.scoped_for_good(other)[0] == Engine().digest(other)
            if thing.name == "fails":
                raise KeyboardInterrupt
            return super().describe(thing, compiled)

    engine, last = Answering(), Thing("last")
    other = Thing("other", Thing("below", last))
    asks = Thing("a", Thing("asks"), other)
    fails = Thing("b", last, Thing("fails"))
    with pytest.raises(KeyboardInterrupt):
        engine.scoped_for_good(fails)
    assert engine.scoped_for_good(asks)[0] == Engine().digest(asks)
    fails.edges.pop()
    assert names_of(engine, fails, other) == ["b", "last", "other", "below"]


@pytest.mark.parametrize(
    "make",
    [lambda: ir.IntType(7), lambda: ir.IntType(7).as_pointer(), lambda: ir.LiteralStructType([ir.IntType(7)]),
     lambda: ir.Constant(ir.IntType(7), 1)],
)  # fmt: skip
def test_what_llvmlite_remembers_once_it_was_asked_counts_for_nothing(make):
    ir.IntType._instance_cache.clear()
    before = KeyMaker().engine.digest([make()])
    ir.IntType._instance_cache.clear()
    asked = make()
    assert str(asked)
    assert KeyMaker().engine.digest([asked]) == before


def test_a_key_of_a_dictionary_that_shows_its_address_does_not_count_by_that():
    def described(*keys):
        node = Node(None, "table")
        node.value("table", {key: Thing("value") for key in keys})
        return [label for label, _obj in node.edges]

    assert described(Thing("key")) == described(Thing("key")) == ["table key", "table[0]"]
    assert described("name", ("a", 2)) == ["table['name']", "table[('a', 2)]"]


def test_what_lasts_is_described_once_and_again_when_it_changes(engine, monkeypatch):
    """Tables of packages hold hundreds of functions, and each question leads there."""
    monkeypatch.setattr(graph, "lasts", lambda obj: obj.name.startswith("function"))
    functions = [Part(f"function {number}", Part("global")) for number in range(3)]
    first = engine.digest(Thing("a", *functions))
    assert engine.described == 1 + 2 * 3
    assert engine.digest(Thing("a", *functions)) == first
    assert engine.described == 1 + 2 * 3 + 1
    functions[1].edges[0].name = "another"
    assert engine.digest(Thing("a", *functions)) != first
    assert engine.described == 1 + 2 * 3 + 1 + 1 + 2  # compared as a whole, and one by one where that has changed
    assert engine.digest(Thing("a", *functions)) != first
    assert engine.described == 1 + 2 * 3 + 1 + 1 + 2 + 1


def test_a_list_of_what_lasts_is_walked_once_while_nothing_changes():
    class Listing(Engine):
        def describe(self, thing, compiled):
            if not isinstance(thing, list):
                return super().describe(thing, compiled)
            self.described += 1
            node = Node(thing, "list")
            for i, child in enumerate(thing):
                node.edge(str(i), child)
            return node

    engine, last = Listing(), Part("last")
    things = Part("a", last), Part("b", last)
    first = engine.digest_for_good(things)
    assert engine.digest_for_good(things) == first == Listing().digest([*things])
    assert engine.described == 1 + 2 + 1
    with engine.steady():
        assert engine.digest_for_good(things) == first
        last.name = "later"  # nobody would: no code of the program runs meanwhile
        with engine.steady():
            pass
        assert engine.digest_for_good(things) == first
    assert engine.digest_for_good(things) == Listing().digest([*things]) != first


def test_what_is_kept_of_walks_is_given_up(engine, monkeypatch):
    """As the process ends; who asks after that is told the same."""
    monkeypatch.setattr(graph, "lasts", lambda obj: isinstance(obj, Part))
    part = Part("part", Part("below"))
    first = engine.digest(Thing("a", part))
    assert engine.digest(Thing("a", part)) == first
    assert engine.described == 3 + 1
    engine.forget()
    assert engine.digest(Thing("a", part)) == first
    assert engine.described == 3 + 1 + 3


def test_what_walks_found_falls_with_what_earlier_ones_found_below_it(engine, monkeypatch):
    monkeypatch.setattr(graph, "lasts", lambda obj: isinstance(obj, Part))
    last = Part("last")
    parts = [last, Part("middle", last), Part("first")]
    parts[2].edges = [parts[1]]
    for part in parts:  # each in a walk of its own, which takes what the one before has found
        engine.digest(Thing("a", part))
    before = engine.digest(Thing("a", parts[2]))
    assert engine.described == 3 * 2 + 1
    last.name = "later"
    for part in reversed(parts):
        assert engine.digest(Thing("a", part)) == Engine().digest(Thing("a", part))
    assert engine.digest(Thing("a", parts[2])) != before


@pytest.mark.parametrize("changed", range(6))
def test_what_has_not_changed_of_a_walk_is_kept_and_looked_at_as_one(engine, monkeypatch, changed):
    """Marks of a package change what thousands of its functions are, and nothing that others are."""
    monkeypatch.setattr(graph, "lasts", lambda obj: isinstance(obj, Part))
    parts = [Part(str(i)) for i in range(6)]
    parts[4].edges, parts[3].edges, parts[2].edges = [parts[5]], [parts[4], parts[5]], [parts[4]]
    lead_there = {0: {0}, 1: {1}, 2: {2}, 3: {3}, 4: {4, 3, 2}, 5: {5, 4, 3, 2}}[changed]
    engine.digest(Thing("a", *parts[:3]))
    engine.digest(Thing("a", *parts))
    parts[changed].name = "another"
    described = engine.described
    assert engine.digest(Thing("a", *parts)) == Engine().digest(Thing("a", *parts))
    assert engine.described == described + 1 + len(lead_there)
    looked = []
    monkeypatch.setattr(Scope, "unchanged", looked.append)
    assert engine.digest(Thing("a", *parts)) == Engine().digest(Thing("a", *parts))
    assert engine.described == described + 1 + len(lead_there) + 1
    assert not looked


def test_walks_are_built_upon_one_another_without_end(engine, monkeypatch):
    monkeypatch.setattr(graph, "lasts", lambda obj: isinstance(obj, Part))
    part = Part("last")
    for i in range(sys.getrecursionlimit()):
        part = Part(str(i), part)
        engine.digest(Thing("a", part))
    assert engine.described == 2 * sys.getrecursionlimit() + 1


def test_what_was_there_before_it_changed_is_let_go(engine, monkeypatch):
    monkeypatch.setattr(graph, "lasts", lambda obj: isinstance(obj, Part))

    class Name(str):
        __slots__ = ("__weakref__",)

    table, users, before = Part("table"), [], []
    for i in range(5):
        table.name = Name(i)
        before.append(weakref.ref(table.name))
        users.append(Part(f"user {i}"))
        engine.digest(Thing("a", table, users[-1]))
    gc.collect()
    assert [each() is not None for each in before] == [False] * 4 + [True]


def test_what_is_set_on_a_method_where_walks_end_is_noticed(monkeypatch):
    module = ModuleType("paket")
    monkeypatch.setitem(sys.modules, "paket", module)
    monkeypatch.setitem(marked_packages.verdicts, "paket", marked_packages.MARKED)
    monkeypatch.setattr(marked_packages, "package_of", lambda obj: "paket" if obj.__module__ == "paket" else None)
    exec("class Base:\n    def method(self): ...\n    method.flag = True\n    def plain(self): ...", vars(module))
    engine = IdentityEngine(Describers(lambda _obj: None).describe, lambda: 0)
    with_flag, scope = engine.scoped(module.Base)
    assert scope.ends
    assert scope.unchanged()
    module.Base.method.flag = False
    assert not scope.unchanged()
    without, scope = engine.scoped(module.Base)
    assert without != with_flag
    module.Base.plain.flag = True
    assert not scope.unchanged()
    assert engine.digest(module.Base) not in {with_flag, without}


def test_functions_that_were_made_of_nothing_of_a_program_s_last(monkeypatch):
    monkeypatch.setattr(marked_packages, "is_installed", lambda filename: filename == "paket.py")

    def made(source):
        return eval(compile(source, "paket.py", "eval"), {})

    marked = made("lambda: 1")
    marked.note = "a program's"
    assert marked_packages.lasts(made("lambda: 1"))
    assert not any(map(marked_packages.lasts, (lambda: 1, marked, made("lambda x=[]: x"), made("lambda *, x=[]: x"))))
    assert not marked_packages.lasts(made("(lambda x: lambda: x)([])"))


@pytest.mark.parametrize("taken", [{"a": 1}, {"a": 1, "x": None}, {"c": 1, "b": 2, "y": 3}], ids=str)
def test_a_name_that_was_absent_is_noticed_in_a_dictionary_and_in_a_class(taken):
    """Absent were x and y, each asked for twice."""
    table, cls = {"a": 0}, type("Table", (), {"a": 0})
    for container, change in (
        (table, table.update),
        (vars(cls), lambda new: [setattr(cls, *item) for item in new.items()]),
    ):
        node = Node(Thing("a"), "thing")
        for name in ("x", "y"):
            node.watch_item(container, name, MISSING)
            node.watch_absent(container, frozenset({name, "z"}))
        watched = Watched([node])
        assert watched.unchanged()
        change(taken)
        assert watched.unchanged() == {"x", "y"}.isdisjoint(taken)
