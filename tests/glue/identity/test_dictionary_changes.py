"""It is told which dictionaries were changed, whoever changes them and however that is found out."""

import sys

import pytest
from nbtest import proc

from nbcache.glue.identity import dictionary_changes
from nbcache.glue.identity.dictionary_changes import Mutations, dictionary_behind


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


class Counter:
    """Counts changes as Python 3.12 and newer let somebody do, from the numbers that older ones give them."""

    def __init__(self):
        self._numbers = dictionary_changes._Numbers()

    def watch(self, tables):
        self._numbers.watch(tables)
        return True

    def state(self):
        return self._numbers.since(None)


@pytest.fixture(params=["as Python tells", "by counting", "by comparing"])
def told(request, monkeypatch):
    """Whoever asks for changes of some tables, which are new."""
    assert dictionary_changes._is_reliable()
    if request.param == "by comparing":
        monkeypatch.setattr(dictionary_changes, "_is_reliable", lambda: False)
    elif request.param == "by counting" and sys.version_info < (3, 12):
        monkeypatch.setattr(dictionary_changes, "_new_way", lambda: dictionary_changes._Members(Counter()))

    def asking(*tables):
        told = Mutations()
        told.watch([*tables])
        return told.asked()

    return asking


@pytest.mark.parametrize("change", [each for each in CHANGES if "equal" not in each])
def test_a_change_is_told_of_once(told, change):
    cls, table = type("Own", (Example,), {"attribute": 1}), {"a": 1}
    members = dictionary_behind(vars(cls))
    asked = told({}, members, {"b": 2}, table)
    assert asked.changed() == []
    CHANGES[change](cls, table)
    assert (asked.changed(), asked.changed()) == ([1] if table == {"a": 1} else [3], [])


def test_several_changes_are_told_of_together(told):
    tables = [{number: number} for number in range(5)]
    asked = told(*tables)
    tables[0][0], tables[3]["more"], tables[4][4] = "other", 1, "another"
    del tables[1][1]
    assert (asked.changed(), asked.changed()) == ([0, 1, 3, 4], [])


def test_each_that_asks_is_told():
    table, told = {}, Mutations()
    told.watch([table])
    one, other = told.asked(), told.asked()
    table["a"] = 1
    assert (one.changed(), other.changed(), one.changed(), other.changed()) == ([0], [0], [], [])
    later = told.asked()
    assert later.changed() == [0]  # since it was watched


def test_what_changed_before_others_were_watched_is_told_of(told):
    table, mutations_ = {"a": 1}, Mutations()
    mutations_.watch([table])
    table["a"] = 2
    mutations_.watch([{}])
    assert mutations_.asked().changed() == [0]


def test_what_is_watched_later_is_told_of_from_then_on(told):
    first, second, mutations_ = {"a": 1}, {"b": 2}, Mutations()
    mutations_.watch([first])
    asked = mutations_.asked()
    assert asked.changed() == []
    second["b"] = 3
    mutations_.watch([second])
    assert asked.changed() == []
    third = {}
    mutations_.watch([third])
    second["b"], third["c"] = 4, 1
    assert (asked.changed(), asked.changed()) == ([1, 2], [])
    first.clear()
    assert asked.changed() == [0]


AT_EXIT = """
import atexit
atexit.register(lambda: [table.update(a=1), print(asked.changed(), asked.changed())])
import nbcache.glue.identity.dictionary_changes as mutations
table = {}
told = mutations.Mutations()
told.watch([table])
asked = told.asked()
print(asked.changed())
"""


def test_after_the_end_nothing_is_told_of_and_nothing_fails(tmp_path):
    done = proc.run(["-c", AT_EXIT], None, cwd=tmp_path)
    assert (done.status, done.stderr) == (0, "")
    assert done.stdout.split() == ["[]", "[0]", "[]"]
