"""Modules of nbcache that can't be opened any more, as for a program that has used up its descriptors."""

import pytest
from nbtest import proc

PROGRAM = """\
import errno
import os
import sys

LAST, ONE = int(os.environ["LAST"]), os.environ["ONE"] == "1"
asked = []


class Failing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "nbcache":
            asked.append(name)
            if len(asked) == LAST + 1 if ONE else len(asked) > LAST:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), name)


sys.meta_path.insert(0, Failing())

import numpy as np
from numba import njit, vectorize


@njit
def inner(x):
    return x * 2


@njit
def outer(x):
    return inner(x) + 1


@njit
def raising(x):
    raise ValueError("no")


@vectorize(["f8(f8)"])
def ufunc(x):
    return x + 1


print(outer(1), outer(1.5), outer(np.arange(3)), ufunc(np.ones(2)))
try:
    raising(1)
except ValueError as raised:
    print(raised)
print(len(asked), file=sys.stderr)
"""
SAID = "3 4.0 [1 3 5] [2. 2.]\nno\n"
STORES = ("empty", "full", "refused")
FURTHER = 200
"""More modules than a program asks for."""


@pytest.fixture
def program(place):
    """It takes nbcache from beside it, compiled: it is started some hundred times."""
    path = proc.installed(place / "site") / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def prepared(place, program, kind):
    """A new store in that state."""
    store = place / f"store-{len([*place.iterdir()])}"
    if kind == "full":
        assert run(program, store, FURTHER)[1] == SAID
    elif kind == "refused":
        store.mkdir()
        store.chmod(0o777)
    return store


def run(program, store, last, one=False, **extra):
    """Run it where all modules after the *last* fail, or *one*: status, output, lines of the log, modules asked for."""
    extra |= {"LAST": str(last), "ONE": str(int(one)), "PYTHONPATH": proc.search_path(program.parent)}
    outcome = proc.run([program], store, extra)
    *lines, asked = outcome.stderr.splitlines() or [""]
    return outcome.status, outcome.stdout, lines, asked


def look_at(place, program, kind, one, step):
    """Have every *step*-th of them be the last that can be opened."""
    last, store = 0, prepared(place, program, kind)
    while last < FURTHER:
        if kind == "empty":
            store = prepared(place, program, kind)
        status, said, lines, asked = run(program, store, last, one)
        assert (status, said) == (0, SAID), (last, lines)
        assert len(lines) <= 1, (last, lines)
        if int(asked) <= last:
            return
        last += step
    raise AssertionError(f"{asked} modules were asked for")


@pytest.mark.every(3)
@pytest.mark.parametrize("kind", STORES)
def test_a_program_goes_on_where_no_further_module_can_be_opened(place, program, kind):
    look_at(place, program, kind, one=False, step=61)


@pytest.mark.long
@pytest.mark.parametrize("one", [False, True], ids=["none", "all but one"])
@pytest.mark.parametrize("kind", STORES)
def test_a_program_goes_on_wherever_modules_can_no_longer_be_opened(place, program, kind, one):
    look_at(place, program, kind, one, step=1)


@pytest.mark.long
@pytest.mark.parametrize("step", [19, 1])
def test_what_can_be_said_is_said_in_one_line(place, program, step):
    """The log itself needs modules: what makes a line printable, what opens the file."""
    store = prepared(place, program, "refused")
    _status, _said, lines, asked = run(program, store, FURTHER)
    assert len(lines) == 1
    for last in range(0, int(asked), step):
        log = place / f"{last}.log"
        status, said, lines, _asked = run(program, store, last, NBCACHE_LOG_FILE=str(log))
        assert (status, said) == (0, SAID), lines
        logged = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        assert len([line for line in lines + logged if "stays off" in line]) == 1, (last, lines, logged)
