"""What code reads off its variables: bytecode that names none isn't looked through."""

import argparse
import dis
import inspect
import statistics
import textwrap

import pytest
from numba.np import arraymath

from nbcache.glue.identity import bytecode, function_imports
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


def code_of(body):
    scope = {}
    exec(compile(f"def f(x, y=None):\n{textwrap.indent(body, '    ')}", "", "exec"), scope)
    return scope["f"].__code__


@pytest.mark.parametrize(
    ("body", "variable", "read"),
    [
        ("return cfg.K", ("global", "cfg"), (("K",), True)),
        ("return cfg.K.w()", ("global", "cfg"), (("K", "w"), True)),
        ("c = cfg\nreturn c.K", ("global", "cfg"), (("K",), True)),
        ("c = cfg; d = c\nreturn x, d.K", ("global", "cfg"), (("K",), True)),
        ("c = cfg\nreturn x + c.K, y + c.L", ("global", "cfg"), (("L",), True)),
        ("c = cfg\nif x: c = y\nreturn (c, x)", ("global", "cfg"), ((), True)),
        ("import a.b\nreturn a.b.K", ("import", "a"), (("b", "K"), True)),
        ("import a.b as c\nreturn c.K", ("import", "a"), (("b", "K"), True)),
        ("from a.b import c\nreturn c.K", ("import", "a.b"), (("c", "K"), True)),
        ("from .a import c\nreturn c.K", ("import", "a"), (("c", "K"), True)),
        (f"q = ({', '.join(f'g.n{i}' for i in range(300))})\nfrom a.b import c\nreturn c.K", ("import", "a.b"), (("c", "K"), True)),
        (f"q = ({', '.join(f'g.n{i}' for i in range(300))})\nreturn cfg.K", ("global", "cfg"), (("K",), True)),
        ("def g(): return cfg.K\nreturn g", ("global", "cfg"), (("K",), True)),
    ],
    ids=lambda it: it[:40] if isinstance(it, str) else "",
)  # fmt: skip
def test_what_is_read_off_a_variable_is_found_whatever_a_python_has_instructions_for(body, variable, read):
    assert read in bytecode.plan_of(code_of(body)).reads[variable]


def test_each_instruction_that_loads_or_stores_local_variables_is_known():
    """By names that a release may add to: what isn't known would end what is read off a variable."""
    local = {name for name in dis.opmap if "_FAST" in name and not name.startswith(("DELETE_", "INSTRUMENTED_"))}
    known = {dis.opname[op] for op in bytecode._KINDS_WITH_LOCALS if op < 256}
    assert {name for name in local if dis.opmap[name] < 256} <= known


@pytest.mark.parametrize(
    ("body", "level", "names"),
    [("import a.b", 0, ()), ("from a.b import c, d", 0, ("c", "d")), ("from ..a.b import c", 2, ("c",)), ("z = 7, 8\nfrom .a.b import c", 1, ("c",))],
)  # fmt: skip
def test_imports_are_found_by_level_and_names(body, level, names):
    assert function_imports._statements_in(code_of(body)) == [(level, "a.b", names)]


def test_the_order_of_a_set_counts_where_somebody_goes_through_it():
    """With a seed that is given, sets of texts have an order, and another one with another seed."""
    one, other = frozenset([0, 8]), frozenset([8, 0])
    assert list(one) != list(other)

    def digests(source):
        code = compile(source, "", "exec")
        with_other = tuple(other if const == one else const for const in code.co_consts)
        assert one in code.co_consts
        return {
            bytecode.plan_of(code.replace(co_consts=consts)).digest
            for consts in (tuple(one if const == one else const for const in code.co_consts), with_other)
        }

    assert len(digests("x in {0, 8}")) == 1
    assert len(digests("x not in {0, 8} or y in {0, 8}")) == 1
    assert len(digests("for y in {0, 8}: z = x in {0, 8}")) == 2
