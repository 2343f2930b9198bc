"""What is kept of walks, and when it is looked at again; on the made-up graphs of test_graph."""

import gc
import weakref
from types import ModuleType

import pytest
from test_graph import Engine, Part, Thing, of_things  # noqa: F401  a fixture for all that is here

from nbcache.glue.identity import digests, graph
from nbcache.glue.identity.node import Unidentifiable
from nbcache.glue.identity.watched import MISSING
from nbcache.glue.keys.key_maker import KeyMaker


@pytest.fixture(autouse=True)
def lasting(monkeypatch):
    """Parts last, and are kept."""
    monkeypatch.setattr(graph, "lasts", lambda obj: isinstance(obj, Part) and not obj.name.startswith("for a while"))


class Marking(Engine):
    """Walks that come to what is bad mark a package, and all its parts are something else from then on."""

    def __init__(self, verdicts):
        self.verdicts = verdicts
        super().__init__()

    def describe(self, thing, compiled):
        if thing.name == "bad" and not self.verdicts:
            raise Unidentifiable("it is bad")
        node = super().describe(thing, compiled)
        node.watch_item(self.verdicts, "package", self.verdicts.get("package", MISSING))
        node.part("marked", b"%d" % len(self.verdicts))
        return node


@pytest.mark.parametrize("ask", [Engine.digest, lambda engine, root: engine.scoped_for_good(root)[0]])
def test_what_is_marked_while_nothing_else_changes_is_looked_at_again(monkeypatch, ask):
    verdicts, part = {}, Part("part")

    def mark(_objects):
        new = not verdicts
        verdicts["package"] = "marked"
        return new

    monkeypatch.setattr(graph, "mark", mark)
    engine = Marking(verdicts)
    ask(engine, Part("first", part))
    with engine.steady():
        ask(engine, Part("second", part))
        ask(engine, Part("third", part))
        engine.digest(Thing("a", Part("bad")))
        assert ask(engine, Part("first", part)) == Marking(verdicts).digest(Part("first", part))


@pytest.mark.parametrize("ask", [Engine.digest, lambda engine, root: engine.scoped_for_good(root)[0]])
def test_what_code_asks_that_a_walk_runs_is_looked_at_again(ask):
    """A module that is asked for an attribute may import another, which sets something, and compiles."""

    class Answering(Engine):
        def describe(self, thing, compiled):
            if thing.name == "asks":
                last.name = "later"
                found.append(ask(self, user))
                with self.steady():
                    found.append(ask(self, user))
            return super().describe(thing, compiled)

    engine, found, last = Answering(), [], Part("last")
    user = Part("user", last)
    ask(engine, user)
    with engine.steady():
        for name in ("a", "b"):
            ask(engine, Part(name, user))
        engine.digest(Thing("c", Part("asks")))
    assert found == 2 * [Engine().digest(user)]


def test_what_nobody_leads_to_any_more_is_let_go():
    """A variable of a package may refer to one large thing after another, while its functions stay what they are."""
    engine, before, users = Engine(), [], []
    table = Part("for a while: table")
    for i in range(5):
        table.edges = [Part(f"for a while: {i}")]
        before.append(weakref.ref(table.edges[0]))
        users += [Part(f"user {i}", table), Part(f"other {i}")]
        engine.digest(Thing("a", *users))
    gc.collect()
    assert [each() is not None for each in before] == [False] * 4 + [True]


def test_what_later_walks_came_by_is_kept_where_nothing_else_of_the_first_one_is():
    engine, shared = Engine(), Part("for a while: shared", Part("for a while: last"))
    carrier = Thing("carrier", shared)
    users = [Part(f"user {i}", carrier) for i in range(4)]
    for user in users:
        engine.digest(Thing("a", user))
    users[0].name = "another"
    described = engine.described
    assert engine.digest(Thing("a", *users)) == Engine().digest(Thing("a", *users))
    assert engine.described == described + 1 + 1


@pytest.mark.parametrize("asked_before", [False, True])
def test_members_of_a_cycle_are_the_same_whoever_is_asked_first(asked_before):
    """One of them carries a memo, which stands for the others; a walk that is kept leads to that one alone."""
    engine, carrier, member = Engine(), Thing("carrier"), Part("for a while: member")
    carrier.edges, member.edges = [member], [carrier]
    user = Part("user", carrier)
    if asked_before:
        engine.digest(carrier)
        engine.digest(Thing("a", user))
    apart, member_apart = Thing("carrier"), Part(member.name)
    apart.edges, member_apart.edges = [member_apart], [apart]
    expected = Engine().digest(Thing("a", Part("user", apart), member_apart))
    assert engine.digest(Thing("a", user, member)) == expected


def test_what_is_read_off_modules_that_are_handed_on_is_the_same_whoever_was_asked_first():
    source = """
from numba import njit
def h(x):
    return g(x - 1) if x > 0 else x
@njit
def g(x):
    return h(x)
def f(x):
    return reads(me, x) + g(x)
def reads(module, x):
    return module.h(x)
"""
    found = set()
    for asked in (None, "g", "h"):
        engine, module = KeyMaker().engine, ModuleType("case")
        module.me = module
        exec(compile(source, "case.py", "exec"), vars(module))
        if asked is not None:
            engine.digest([getattr(module, asked)])
        found.add(engine.together(([module.f],)))
    assert len(found) == 1


def test_what_lasts_is_walked_once_with_the_modules_that_it_hands_on_until_one_changes():
    source = """
K = 1
def h(x):
    return x
def f(x):
    return reads(me, x)
def reads(module, x):
    return module.h(x) + module.K
"""
    maker, module = KeyMaker(), ModuleType("case")
    module.me = module
    exec(compile(source, "case.py", "exec"), vars(module))
    engine, root = maker.engine, [module.f]

    def asked(engine):
        nodes = [(node.obj, node.digest) for node in engine.nodes(root, for_good=engine is maker.engine)]
        # What was read off the modules is an object of each walk.
        return [*nodes[:-1], nodes[-1][1]], engine.together((root, int), for_good=engine is maker.engine)

    first = asked(engine)
    assert first == asked(KeyMaker().engine)
    described = []
    describe, engine._describe = engine._describe, lambda *what: described.append(what) or describe(*what)
    assert asked(engine) == first
    assert not described
    module.K = 2
    second = asked(engine)
    assert second == asked(KeyMaker().engine)
    assert second[1] != first[1]
    module.h = lambda x: x + 1
    assert asked(engine) == asked(KeyMaker().engine)
    assert asked(engine)[1] != second[1]


def test_of_modules_that_are_handed_on_no_more_is_kept_than_so_much(monkeypatch):
    monkeypatch.setattr(digests, "MOST_HANDED_ON", 3)
    module = ModuleType("case")
    module.me = module
    source = "def f(x):\n    return reads(me, x)\ndef reads(module, x):\n    return module.K"
    exec(compile(source, "case.py", "exec"), vars(module))
    engine, root = KeyMaker().engine, [module.f]
    kept = []
    for number in range(12):
        asked = engine.together((root, number), for_good=True)
        assert asked == engine.together((root, number))
        kept.append(len(engine._common.handed_on))
    assert max(kept) == 4
    assert kept.count(1) == 3


def test_which_of_two_that_are_alike_is_meant_is_the_same_whatever_of_a_walk_was_kept(monkeypatch):
    """What all walks share, as Numba's and Python's own, was counted again with what was kept of a walk."""
    source = """
from numba import njit
X, Y = [1], [1]
def w(x):
    return len(x), int(x), X
@njit(inline="always")
def z(x):
    return len(x), w(x), Y
@njit
def f(x):
    return len(x), z(x), abs(len(x))
"""
    found = set()
    for kept in ((), ("w",), ("z",), ("w", "z")):
        monkeypatch.setattr(graph, "lasts", lambda obj, kept=kept: getattr(obj, "__name__", "") in kept)
        engine, module = KeyMaker().engine, ModuleType("case")
        exec(compile(source, "case.py", "exec"), vars(module))
        engine.digest(module.f)
        found.add(engine.sharing(module.f))
    assert len(found) == 1 and b"" not in found
