"""What changed of all that was read for an identity is said by its name."""

import types

import numba
import pytest

from nbcache.glue.identity.differences import changed, first_change, node_components
from nbcache.glue.keys.key_maker import KeyMaker


class Holder:
    """Somebody's object: what it holds runs while compiling."""

    def __init__(self, function):
        self.function = function


SOURCE = """
import decimal

import numba
import numpy as np

K = 1
TABLE = {"level": 1, "deep": [1, [2]]}
ARRAY = np.arange(3)

class Settings:
    level = 1

SETTINGS = Settings()
SETTINGS.value = 1

def helper(x=1):
    return x

compiled = numba.njit(lambda: 1)

def function():
    return compiled, K, TABLE, ARRAY, SETTINGS, Settings, helper, decimal.Decimal
"""
CHANGES = {
    "K = 2": "users_module.K",
    "TABLE['level'] = 2": "users_module.TABLE",
    "TABLE['deep'][1].append(2)": "users_module.TABLE",
    "ARRAY[1] = 7": "users_module.ARRAY",
    "SETTINGS.value = 2": "users_module.SETTINGS",
    "SETTINGS.more = 2": "users_module.SETTINGS",
    "Settings.level = 2": "users_module.Settings.level",
    "helper.__defaults__ = (2,)": "users_module.helper.__defaults__",
    "decimal.getcontext().prec = 5": "decimal.Decimal",
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changed_is_named(change):
    module = types.ModuleType("users_module")
    exec(SOURCE, vars(module))
    scope = KeyMaker().engine.scoped(Holder(module.function))[1]
    assert first_change(scope) == ""
    with module.decimal.localcontext():
        exec(change, vars(module))
        assert first_change(scope) == CHANGES[change]
        assert changed(scope) == f"what it depends on changed while it was compiled: {CHANGES[change]}"


def test_without_a_name_it_is_only_said():
    assert changed(None) == "what it depends on changed while it was compiled"


def test_what_a_type_is_called_is_said_once_in_part():
    """Awkward's arrays of vectors are called by a table of functions: entries had forty megabytes of words for people."""

    class Long(numba.types.Type):
        def __init__(self):
            super().__init__("Long(" + "x" * 10_000 + ")")
            self.parts = tuple(Holder(i) for i in range(50))

    nodes = KeyMaker().engine.nodes(Long())
    words = node_components(nodes, "argument 0 ")
    assert len(words) > 50
    assert sum(len(label) + len(value) for label, value in words) < 100_000
