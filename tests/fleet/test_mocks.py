"""Programs that put something else in the place of the system's calls, clocks and imports while they call functions.

Each name is replaced in a forked child of its own, so a mock can do no harm to the next one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from nbtest import denials, proc

PROGRAM = """
import os
import sys
import time
from unittest import mock

from numba import njit

SOURCE = '''
@njit
def f(x):
    return x + {{0}}

@njit
def g(x):
    return f(x) * {{0}}
'''
{before}
write, leave = os.write, os._exit
for number, name in enumerate({names}):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            made = {{"njit": njit}}
            exec(SOURCE.format(number), made)
            with mock.patch(name) as mocked:
                result = made["g"](1)
            asked = 0 if name in {shared} else mocked.call_count
            open_now = sorted(int(fd) for fd in os.listdir("/proc/self/fd") if int(fd) < 40)
            write(1, f"{{name}} {{result}} {{made['g'](2.5)}} {{asked}} {{open_now}}\\n".encode())
            status = 0
        finally:
            leave(status)
    print(name, os.waitpid(child, 0)[1], flush=True)
"""
WAKE = "njit(lambda x: x - 1)(1)"
CALLS = (
    "builtins.open", "os.open", "os.close", "os.read", "os.fstat", "os.urandom", "os.unlink", "os.link", "os.getpid",
    "os.utime", "os.listdir", "os.mkdir", "time.time", "time.monotonic", "time.sleep",
)  # fmt: skip
SHARED = {"os.close", "os.fstat", "os.listdir", "time.time", "time.monotonic"}
"""What Numba and Python's library ask for as well, more often when they compile."""
REFUSING = """
import builtins
import numpy as np
from numba import njit, stencil, vectorize
imports = builtins.__import__

@njit
def before(x):
    return x

def refusing(name, *rest, **named):
    if name.partition(".")[0] == "nbcache":
        raise ImportError(f"{name} is refused")
    return imports(name, *rest, **named)

before(1)
builtins.__import__ = refusing

@njit
def f(x):
    return x + 1

@njit
def g(x):
    return f(x).sum()

@vectorize
def v(x):
    return x * 2

@stencil
def s(a):
    return a[0] + a[1]

print(f(1), g(np.ones(3)), v(np.ones(3)), s(np.ones(3)))
"""


def run_thrice(main: Path, store: Path, python: str = sys.executable) -> list[proc.Outcome]:
    """Run plain, cold and warm; what is said has to be the same."""
    outcomes = [proc.run([main], place, python=python) for place in (None, store, store)]
    assert outcomes[0].status == 0, outcomes[0].stderr
    for outcome in outcomes[1:]:
        assert outcome.said == outcomes[0].said, outcome.stderr
    return outcomes


@pytest.mark.long
@pytest.mark.parametrize("before", ["", WAKE], ids=["waking", "awake"])
def test_what_a_program_puts_in_their_place_is_none_of_ours(tmp_path: Path, before: str) -> None:
    """Neither is a descriptor of the program's closed, nor does it see an exception, a word, or a call of its mock."""
    main = tmp_path / "main.py"
    main.write_text(PROGRAM.format(before=before, names=CALLS, shared=SHARED))
    plain, *cached = run_thrice(main, tmp_path / "store")
    assert plain.stdout.count(" 0\n") == len(CALLS)
    assert [outcome.stderr for outcome in cached] == [plain.stderr] * 2


@pytest.mark.every(2)
@pytest.mark.parametrize("name", ["os.lstat", "os.readlink"])
def test_what_can_not_be_noted_keeps_nothing_from_compiling(tmp_path: Path, name: str) -> None:
    """Python's library asks for these where nbcache asks whose a definition is."""
    main = tmp_path / "main.py"
    main.write_text(PROGRAM.format(before="", names=(name,), shared={name}))
    run_thrice(main, tmp_path / "store")


def test_where_packages_lie_behind_a_link_nobody_asks_a_mock_where_it_leads(tmp_path: Path) -> None:
    main = tmp_path / "main.py"
    main.write_text(PROGRAM.format(before="", names=("os.readlink",), shared=set()))
    run_thrice(main, tmp_path / "store", denials.linked_environment(tmp_path / "environment"))


@pytest.mark.long
def test_a_program_that_refuses_imports_compiles(tmp_path: Path) -> None:
    main = tmp_path / "main.py"
    main.write_text(REFUSING)
    run_thrice(main, tmp_path / "store")
