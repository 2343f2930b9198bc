"""How a thread computes with floats: found out by a few operations, for each key anew."""

import ctypes
import platform
import shutil
import subprocess
import threading

import pytest
from nbtest import proc, programs

from nbcache import hosts

UPWARD, DOWNWARD, TOWARDS_ZERO = {
    "x86_64": (0x800, 0x400, 0xC00),
    "aarch64": (0x400000, 0x800000, 0xC00000),
}.get(platform.machine(), (0, 0, 0))
"""What fesetround(3) calls these, <bits/fenv.h>."""
CSR = """
#include <xmmintrin.h>
void set(unsigned bits) { _mm_setcsr(0x1f80 | bits); }
"""
needs_known_modes = pytest.mark.skipif(not UPWARD, reason="a processor whose modes these tests don't know")
needs_compiler = pytest.mark.skipif(
    platform.machine() != "x86_64" or shutil.which("gcc") is None, reason="no C compiler for x86"
)


@pytest.fixture(scope="module")
def csr(tmp_path_factory):
    """The library that sets these bits beside those that are usual; a child loads it by its path."""
    place = tmp_path_factory.mktemp("csr")
    (place / "csr.c").write_text(CSR)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", "csr.so", "csr.c"], cwd=place, check=True)
    return place / "csr.so"


@needs_known_modes
def test_rounding():
    known = ctypes.CDLL(None)
    found = []
    for mode in (UPWARD, DOWNWARD, TOWARDS_ZERO, 0):
        assert known.fesetround(mode) == 0
        try:
            found.append(hosts.floating_point())
        finally:
            known.fesetround(0)
    assert found == ["rounds up", "rounds down", "rounds towards zero", ""]


@needs_compiler
def test_what_is_flushed(csr):
    load = ctypes.CDLL(str(csr))
    found = []

    def look():
        for bits in (0x40, 0x8000, 0x8040, 0):
            load.set(bits)
            found.append(hosts.floating_point())

    thread = threading.Thread(target=look)  # it is the thread's, and so gone with it
    thread.start()
    thread.join()
    arguments, results = "subnormal arguments are zero", "subnormal results are zero"
    assert found == [arguments, results, f"{arguments}, {results}", ""]
    assert hosts.floating_point() == ""


MAIN = """
import ctypes, math, sys
from numba import njit
set = ctypes.CDLL(sys.argv[1]).set
@njit
def g():
    return math.sqrt(1e-310), math.log(1e-310), 1e-308 / 3
@njit
def f():
    return g(), math.sqrt(2e-310)
"""
BEGUN = "if len(sys.argv) > 2:\n    forbid()\n"
PROGRAMS = {
    "as usual": "print(f())",
    "flushed": "set(0x8040)\nprint(*map(repr, f()))",
    "flushed for the callee": "set(0x8040)\ng()\nset(0)\nprint(f())",
    "flushed for the caller": "g()\nset(0x8040)\nresult = f()\nset(0)\nprint(result)",
    "flushed and back": "set(0x8040)\nf()\nset(0)\nprint(f())",
}


@pytest.fixture
def run(csr, tmp_path):
    """Runs one of the programs, over a store or without."""

    def run(name, store=None, *more):
        (tmp_path / "main.py").write_text(MAIN + programs.FORBID + BEGUN + PROGRAMS[name])
        said = proc.run([tmp_path / "main.py", csr, *more], store, cwd=tmp_path).said
        assert said[0] == 0
        return said

    return run


@needs_compiler
def test_code_is_for_threads_that_compute_alike(run, tmp_path):
    """A constant is folded by the thread that compiles, and sqrt(1e-310) is 0.0 where subnormals are."""
    flushed, usual = (run(name, tmp_path / "store") for name in ("flushed", "as usual"))
    assert flushed != usual == run("as usual")
    assert run("as usual", tmp_path / "store", "warm") == usual
    assert run("flushed", tmp_path / "store", "warm") == flushed


@needs_compiler
@pytest.mark.long
@pytest.mark.parametrize("turned", [False, True])
def test_a_memo_of_an_earlier_key_stands_for_no_later_one(run, tmp_path, turned):
    plain = {name: run(name) for name in PROGRAMS}
    assert len(set(plain.values())) > 3  # there is something to be mistaken for
    for name in [*PROGRAMS, *PROGRAMS][:: -1 if turned else 1]:
        assert run(name, tmp_path / "store") == plain[name], name
