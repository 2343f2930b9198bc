"""What running code finds by names that it computes."""

import importlib
import inspect
import operator
import sys
from sys import modules as loaded

import pytest

from nbcache.glue.identity import looking
from nbcache.glue.identity.bytecode import plan_of
from nbcache.glue.identity.node import Node, Unidentifiable

NAME = "json"
reads = getattr
module_of = inspect.getmodule


def by_literals(m):
    return m.K + m.sub.K


def by_getattr(m, name):
    return getattr(m, name)


def by_another_name(m, name):
    return reads(m, name)


def by_attrgetter(m, name):
    return operator.attrgetter(name)(m)


def by_dictionary(m, name):
    return m.__dict__[name]


@pytest.mark.parametrize(
    ("function", "computes"),
    [
        (by_literals, False),
        (by_getattr, True),
        (by_another_name, True),
        (by_attrgetter, True),
        (by_dictionary, True),
    ],
)
def test_who_may_read_anything_off_a_module(function, computes):
    assert looking.computes_names(function, plan_of(function.__code__)) is computes


def constant():
    return sys.modules["json"]


def variable():
    return sys.modules[NAME]


def asked_with_another_answer():
    return sys.modules.get("json", None)


def in_it():
    return "json" in sys.modules


def of_something_else(library, name):
    return library.modules[name]


def argument(name):
    return sys.modules[name]


def attribute(cls):
    return sys.modules[cls.__module__]


def put_together(name):
    return sys.modules.get("js" + name)


def any_of_them():
    return [each for each in sys.modules if each.startswith("js")]


def argument_in_it(name):
    return name in sys.modules


def kept(name):
    modules = sys.modules
    return modules[name]


def under_another_name(name):
    return loaded[name]


def imported_inside(name):
    import sys

    return sys.modules[name]


def of_an_object(obj):
    return module_of(obj)


def compiled_for(f):
    return len(f.signatures)


@pytest.mark.parametrize(
    "function", [constant, variable, asked_with_another_answer, in_it, of_something_else], ids=lambda f: f.__name__
)
def test_modules_that_code_spells_are_looked_at(function):
    node = Node(function, "")
    looking.describe_looks_around(node, "f", function, plan_of(function.__code__))
    spelt = [content for label, content, _words in node.parts if label == "loaded json"]
    assert spelt == ([b"yes"] if function is not of_something_else else [])
    assert importlib.import_module("json") is sys.modules["json"]


@pytest.mark.parametrize(
    "function",
    [
        argument, attribute, put_together, any_of_them, argument_in_it, kept, under_another_name, imported_inside,
        of_an_object, compiled_for,
    ],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_what_cannot_be_followed_is_refused(function):
    with pytest.raises(Unidentifiable, match="runs while compiling and"):
        looking.describe_looks_around(Node(function, ""), "f", function, plan_of(function.__code__))
