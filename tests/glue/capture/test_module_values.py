"""What is in a module that was imported while something was compiled."""

from types import ModuleType

import numpy as np
import pytest

from nbcache.glue.capture import module_values
from nbcache.glue.identity.node import Unidentifiable

TEXT = """
class Held:
    {inside}

    def __init__(self, value):
        self.value = value

def function(x=5):
    return x

{text}
"""


def values_of(text, inside="level = 1"):
    module = ModuleType("late")
    exec(TEXT.format(text=text, inside=inside), vars(module))
    return module_values.values_in(module)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("K = 1", "K = 2"),
        ("K = 1", "K = True"),
        ("K = [1, {'a': (2,)}]", "K = [1, {'a': (3,)}]"),
        ("K = {1: 2}", "K = {2: 1}"),
        ("K = {'a', 'b'}", "K = {'a', 'c'}"),
        ("K = Held(1)", "K = Held(2)"),
        ("K = Held([1])", "K = Held([2])"),
        ("import numpy; K = numpy.arange(3)", "import numpy; K = numpy.arange(1, 4)"),
        ("def g(x=1): pass", "def g(x=2): pass"),
        ("def made(n):\n    return lambda: n\ng = made(1)", "def made(n):\n    return lambda: n\ng = made(2)"),
    ],
)
def test_another_value_is_seen(one, other):
    assert values_of(one) == values_of(one)
    assert values_of(one) != values_of(other)


def test_a_member_of_its_class_is_seen():
    assert values_of("", "level = 1") != values_of("", "level = 2")


def test_what_refers_to_itself_ends():
    assert values_of("K = []; K.append(K)") == values_of("K = []; K.append(K)")


def test_what_differs_from_process_to_process_is_not_compared():
    module = ModuleType("late")
    before = module_values.values_in(module)
    module.__file__, module.lock, module.array = "elsewhere", object(), np.zeros(0, object)
    module.below = ModuleType("late.below")
    other = ModuleType("late")
    other.__file__, other.lock, other.array = "here", object(), np.zeros(0, object)
    assert module_values.values_in(module) == module_values.values_in(other) != before


def test_too_much_is_refused(monkeypatch):
    monkeypatch.setattr(module_values, "MOST_VALUES", 10)
    with pytest.raises(Unidentifiable, match="more than 10 values"):
        values_of("K = list(range(1000, 1100))")
