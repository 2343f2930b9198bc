"""Compiling goes as in plain Numba where the session has nothing to add."""

import re

from nbtest import proc

NESTED = """
import sys
import numba
from numba.extending import overload

depths = []


def innermost(x):
    return x


@overload(innermost)
def choose(x):
    frame = sys._getframe()
    depths.append(0)
    while frame is not None:
        depths[-1] += 1
        frame = frame.f_back
    return lambda x: x + 1


def chain(length):
    called = innermost
    for _ in range(length):
        called = caller_of(called)
    return called


def caller_of(called):
    @numba.njit
    def caller(x):
        return called(x)

    return caller


for length, value in ((2, 1), (5, 1.0)):
    chain(length)(value)
short, *_, long = depths
print(long - short)
"""
FAILING = """
import numba


@numba.njit
def broken(x):
    return x.no_such_attribute


@numba.njit
def caller(x):
    return broken(x)


seen = []
for function in (broken, broken, caller, caller):
    try:
        function(1)
    except numba.TypingError as error:
        seen.append(str(error))
    print(seen[-1], len(broken._compiler._failed_cache), len(caller._compiler._failed_cache))
"""


def run(tmp_path, code, store):
    outcome = proc.run(["-c", code], store, cwd=tmp_path)
    assert (outcome.status, outcome.stderr) == (0, "")
    return re.sub("0x[0-9a-f]+", "0x", outcome.stdout)


def test_compilations_inside_others_go_as_deep_as_in_plain_numba(tmp_path):
    assert run(tmp_path, NESTED, tmp_path / "store") == run(tmp_path, NESTED, None)


def test_what_could_not_be_compiled_fails_as_in_plain_numba(tmp_path):
    plain = run(tmp_path, FAILING, None)
    assert plain.count("no_such_attribute") >= 4
    for _ in ("cold", "again"):
        assert run(tmp_path, FAILING, tmp_path / "store") == plain
