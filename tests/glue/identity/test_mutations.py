"""A change of a dictionary is told of whoever makes it; where nothing tells, everything may have changed."""

import sys

import pytest
from nbtest import proc

from nbcache.glue.identity import mutations
from nbcache.glue.identity.mutations import Mutations, dictionary_behind


class Example:
    attribute = 1


def inherited():
    class Inheriting(Example):
        pass

    return Inheriting


CHANGES = {
    "an attribute is set": lambda cls, _table: setattr(cls, "attribute", 2),
    "an attribute is added": lambda cls, _table: setattr(cls, "other", 2),
    "an equal value is put there": lambda cls, _table: setattr(cls, "attribute", True),
    "an item is set": lambda _cls, table: table.__setitem__("a", 2),
    "an item is taken out": lambda _cls, table: table.pop("a"),
    "it is updated": lambda _cls, table: table.update(b=2),
    "it is emptied": lambda _cls, table: table.clear(),
    "code assigns to a global": lambda _cls, table: exec("global a\na = 7", table),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_told_of_once(change):
    cls, table, told = type("Own", (Example,), {"attribute": 1}), {"a": 1}, Mutations()
    told.watch([dictionary_behind(vars(cls)), table])
    assert mutations._is_reliable()
    assert not told.happened()
    CHANGES[change](cls, table)
    assert (told.happened(), told.happened()) == (True, False)


def test_each_that_asks_is_told():
    table = {}
    one, other = Mutations(), Mutations()
    one.watch([table])
    other.watch([table])
    table["a"] = 1
    assert (one.happened(), other.happened(), one.happened(), other.happened()) == (True, True, False, False)


def test_where_nothing_tells_everything_may_have_changed(monkeypatch):
    monkeypatch.setattr(mutations, "_is_reliable", lambda: False)
    told = Mutations()
    told.watch([{}])
    assert (told.happened(), told.happened()) == (True, True)


AT_EXIT = """
import atexit
atexit.register(lambda: print(told.happened(), told.happened()))
import nbcache.glue.identity.mutations as mutations
table = {}
told = mutations.Mutations()
told.watch([table, globals()])
print(told.happened())
"""


def test_after_the_end_nothing_is_told_of_and_nothing_fails(tmp_path):
    done = proc.run(["-c", AT_EXIT], None, cwd=tmp_path)
    over = sys.version_info >= (3, 12)
    assert (done.status, done.stderr) == (0, "")
    assert done.stdout.split() == ["False", *(["True", "True"] if over else ["False", "False"])]
