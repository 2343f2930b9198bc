"""SciPy's linear algebra is imported when something calls it, and Numba is none the wiser."""

import os

import pytest
from nbtest import proc

FIRST = """
import sys
import numpy as np
from numba import njit

@njit
def first(x):
    return x + 1

@njit
def product(a, b):
    return np.dot(a, b)

@njit
def inverse(a):
    return np.linalg.inv(a)

first(1)
"""
MODULES = """
from numba.np import arraymath, linalg
asker = sys.modules[arraymath._check_blas.__module__]
print(sorted(name for name in sys.modules if name.partition(".")[0] == "numba"))
print(asker._HAVE_BLAS, asker.ensure_blas is linalg.ensure_blas, linalg.ensure_blas.__module__)
"""
CALLS = """
a = np.eye(2) * 4
print(product(a, a), inverse(a))
"""
LOADED = 'print("scipy.linalg" in sys.modules)\n'


def run(store, code, **extra):
    outcome = proc.run(["-c", code], store, {**proc.SCIPY, **extra})
    assert "internal error" not in outcome.stderr
    return outcome


def test_it_is_imported_by_what_calls_it(tmp_path):
    told = LOADED + CALLS + LOADED
    plain = run(None, FIRST + CALLS).stdout
    assert run(tmp_path, FIRST + told).said == (0, f"False\n{plain}True\n")
    compiled = tmp_path / "compiled"
    assert run(tmp_path, FIRST + told, NBTEST_EVENTS=str(compiled)).said == (0, f"False\n{plain}True\n")
    assert '"functions": []' in compiled.read_text()


def test_numba_has_what_it_has_without_it(tmp_path):
    said = run(tmp_path, FIRST + MODULES)
    assert said.stdout.endswith("True True numba.np.linalg\n")
    assert said.said == run(None, FIRST + MODULES).said


CHOOSER = """
from numba.extending import overload

def size(a):
    return a.size

@overload(size)
def choose(a):
    import scipy.linalg
    size = int(scipy.linalg.__name__ == "scipy.linalg")
    return (lambda a: a.size) if size else None

print(njit(lambda a: size(a))(np.eye(3)))
"""


def test_who_imports_it_while_he_is_asked_finds_it_as_in_plain_numba(tmp_path):
    for number in range(2):
        compiled = tmp_path / f"compiled{number}"
        assert run(tmp_path / "store", FIRST + CHOOSER, NBTEST_EVENTS=str(compiled)).said == (0, "9\n")
    assert '"functions": []' in compiled.read_text()


PLACES = """
import os, posix
def places():
    opened = [os.path.realpath(entry.path) for entry in os.scandir("/proc/self/fd")]
    return os.chroot is posix.chroot, sum("pipe:" in path for path in opened)
before = places()
first(1.0)
print(places() == before)
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs Linux")
def test_once_it_is_there_nothing_stands_in_anybodys_place(tmp_path):
    code = FIRST.removesuffix("first(1)\n") + PLACES + CALLS + "first(1)\nprint(places() == before)\n"
    said = run(tmp_path / "store", code).stdout.splitlines()
    assert (said[0], said[-1]) == ("False", "True")


FINDER = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            raise ImportError("not for you")
sys.meta_path.insert(0, Without())
"""
FUNCTION = """
import builtins
original = builtins.__import__
def without(name, *args, **kwargs):
    if name.startswith({name!r}):
        raise ImportError("not for you")
    return original(name, *args, **kwargs)
builtins.__import__ = without
"""
WAYS = {"finder": FINDER, "table": "import sys\nsys.modules[{name!r}] = None\n", "function": FUNCTION}


@pytest.mark.every(3)
@pytest.mark.parametrize("name", ["scipy", "scipy.linalg", "scipy.linalg.cython_blas"])
@pytest.mark.parametrize("way", WAYS)
def test_who_keeps_it_away_is_heeded(tmp_path, way, name):
    code = WAYS[way].format(name=name) + FIRST
    code += "\ntry:\n    product(np.eye(2), np.eye(2))\nexcept Exception as raised:\n    print(repr(raised))\n"
    plain = run(None, code)
    assert "scipy 0.16+ is required" in plain.stdout
    for _ in range(2):
        assert run(tmp_path, code).said == plain.said


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: gives up other files")
def test_what_a_process_gave_up_after_its_first_compilation_it_needs_no_more(tmp_path):
    """Also where it has been put off once more, by a compilation that followed a hit."""
    (tmp_path / "empty").mkdir()
    giving_up = f"import os\nos.chroot({str(tmp_path / 'empty')!r})\nos.chdir('/')\n"
    plain = run(None, FIRST + CALLS).said
    assert run(tmp_path / "store", FIRST + giving_up + CALLS).said == plain
    after_hit = FIRST + "njit(lambda x: x - 3)(1)\n" + LOADED + giving_up + LOADED + CALLS
    assert run(tmp_path / "store", after_hit).said == (0, f"False\nTrue\n{plain[1]}")


@pytest.mark.parametrize("is_before", [False, True])
def test_who_limits_the_threads_of_libraries_finds_scipys(tmp_path, is_before):
    """As threadpoolctl does, for which a module of that name stands."""
    (tmp_path / "threadpoolctl.py").write_text("")
    paths = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n"
    limiting = "import threadpoolctl\n"
    code = paths + (limiting + FIRST if is_before else FIRST + limiting) + LOADED
    for _ in range(2):
        assert run(tmp_path / "store", code).said == (0, "True\n")


@pytest.mark.parametrize("is_before", [False, True])
@pytest.mark.parametrize("named", ["sys.modules", "'sys.modules'"])
def test_who_puts_modules_back_as_they_were_does_not_lose_it(tmp_path, is_before, named):
    """What is imported while `patch.dict` is in force is forgotten behind it, and can't be imported once more."""
    mock = "from unittest import mock\n"
    code = (mock + FIRST if is_before else FIRST + mock) + (
        "import sys\n"
        f"with mock.patch.dict({named}, {{'stand_in': 1}}):\n"
        "    product = njit(lambda a: np.dot(a, a))(np.eye(2))\n"
        "print(product.sum(), njit(lambda a: np.linalg.solve(a, a))(2 * np.eye(2)).sum())\n"
        "import scipy.linalg\nprint(scipy.linalg.det(np.eye(2)))\n"
    )
    plain = run(None, code).said
    assert plain == (0, "2.0 2.0\n1.0\n")
    for _ in range(2):
        assert run(tmp_path / "store", code).said == plain
