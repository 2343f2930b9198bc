"""What running code finds by names that it computes."""

import inspect
import json  # noqa: F401  it is there
import operator
import sys
from sys import modules as loaded
from types import ModuleType

import pytest
from numba import njit

from nbcache.glue.identity import computed_names
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


def by_constants(m):
    return getattr(m.sub, "K", None), hasattr(m, "L"), operator.attrgetter("a")(m)


def by_a_sum(m, name):
    return getattr(m, "K_" + name)


def by_a_call(m, name):
    return getattr(m, "K_" + name())


def by_a_call_in_attrgetter(m, name):
    return operator.attrgetter("K_" + str(name))(m)


def by_a_choice(m, chosen):
    return getattr(m, "K" if chosen else "L")


def by_another_call(m, name):
    return getattr(getattr(m, "sub"), name)


def by_documentation(m):
    return inspect.getdoc(m)


def by_map(modules, name):
    return map(getattr, modules, name)


@pytest.mark.parametrize(
    ("function", "computes"),
    [
        (by_literals, False),
        (by_getattr, True),
        (by_another_name, True),
        (by_attrgetter, True),
        (by_dictionary, True),
        (by_constants, True),
        (by_a_sum, True),
        (by_a_call, True),
        (by_a_call_in_attrgetter, True),
        (by_a_choice, True),
        (by_another_call, True),
        (by_documentation, True),
        (by_map, True),
    ],
)
def test_who_may_read_anything_off_a_module(function, computes):
    assert computed_names.computes_names(function, plan_of(function.__code__)) is computes


def test_a_module_has_all_names_but_what_python_puts_there():
    module = ModuleType("settings", "What is set.")
    module.LEVEL, module.__version__, module.__file__ = 1, "2", "/settings.py"
    names = computed_names.names_in_order(Node(module, ""), "settings", module)
    assert names == {"LEVEL", "__doc__", "__version__"}


def constant():
    return sys.modules["json"]


def variable():
    return sys.modules[NAME]


def of_something_else(library, name):
    return library.modules[name]


def put_together(name):
    return sys.modules.get("js" + name)


def any_of_them():
    return [each for each in sys.modules if each.startswith("js")]


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


@njit
def compiled(x):
    return x


def compiled_for():
    return len(compiled.signatures)


def compiled_for_as_an_argument(typ):
    return len(typ.dispatcher.signatures)


def signatures_of_something_else(table):
    return table.signatures


@pytest.mark.parametrize("function", [of_something_else, signatures_of_something_else])
def test_the_same_names_of_something_else_are_none(function):
    computed_names.describe_looks_around(Node(function, ""), "f", function, plan_of(function.__code__))


@pytest.mark.parametrize(
    "function",
    [
        constant, variable, put_together, any_of_them, kept, under_another_name, imported_inside,
        of_an_object, compiled_for, compiled_for_as_an_argument,
    ],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_what_cannot_be_followed_is_refused(function):
    with pytest.raises(Unidentifiable, match="runs while compiling and"):
        computed_names.describe_looks_around(Node(function, ""), "f", function, plan_of(function.__code__))
