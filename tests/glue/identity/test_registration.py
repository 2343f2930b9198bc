"""Of Numba's tables it is noticed when one thing takes another's place, as CPython tells or by looking."""

from types import MappingProxyType

import pytest

from nbcache.glue.identity import dictionary_changes
from nbcache.glue.identity.registration import Tables


class Unique(dict):
    """As some of Numba's tables are of a class of their own."""


@pytest.fixture(params=["as CPython tells", "by looking"])
def told(request, monkeypatch):
    if request.param == "by looking":
        monkeypatch.setattr(dictionary_changes, "_is_reliable", lambda: False)


def swap(table):
    table["a"], table["b"] = table["b"], table["a"]


CHANGES = {
    "another in the place of one": lambda table: table.update(a=2.5),
    "one that equals it": lambda table: table.update(a=1.0),
    "one more": lambda table: table.setdefault("c", 3),
    "one less": lambda table: table.pop("a"),
    "two in each other's place": swap,
    "none": dict.clear,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("kind", [dict, Unique])
@pytest.mark.parametrize("proxied", [False, True], ids=["itself", "behind a proxy"])
def test_what_changes_in_a_table_is_noticed_once(told, change, kind, proxied):
    one, other = kind(a=1, b=2), {"a": 1}
    tables = Tables([MappingProxyType(one) if proxied else one, other])
    assert tables.same() == [False, False]
    assert tables.same() == [True, True]
    change(one)
    assert tables.same() == [False, True]
    assert tables.same() == [True, True]
    other["a"] = 3
    assert tables.same() == [True, False]


def test_a_table_that_is_no_dictionary_is_looked_at():
    class Table:
        def __init__(self):
            self.content = [1]

        def values(self):
            return self.content

    table = Table()
    tables = Tables([table, {"a": 1}])
    assert not tables._can_tell
    assert tables.same() == [False, False]
    table.content.append(2)
    assert tables.same() == [False, True]
    assert tables.same() == [True, True]
