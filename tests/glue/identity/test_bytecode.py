"""What code reads off its variables: bytecode that names none isn't looked through."""

import argparse
import inspect
import statistics
import textwrap

import pytest
from numba.np import arraymath

from nbcache.glue.identity import bytecode
from nbcache.glue.identity.bytecode import nested_codes


def codes_in(module):
    functions = [each for each in vars(module).values() if inspect.isfunction(each)]
    methods = [each for cls in vars(module).values() if inspect.isclass(cls) for each in vars(cls).values()]
    for function in (*functions, *filter(inspect.isfunction, methods)):
        yield from nested_codes(function.__code__)


@pytest.mark.parametrize("module", [argparse, inspect, statistics, textwrap, arraymath], ids=lambda it: it.__name__)
def test_what_is_not_looked_through_would_have_shown_nothing(module, monkeypatch):
    quick = [bytecode._reads(code, code.co_code) for code in codes_in(module)]
    assert {} in quick
    monkeypatch.setattr(bytecode, "_NAMING", frozenset(range(256)))
    assert [bytecode._reads(code, code.co_code) for code in codes_in(module)] == quick
