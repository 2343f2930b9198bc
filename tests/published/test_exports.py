"""What is said of published functions: to people, to type checkers, and to compilers of C."""

import ast
import math
import re
import shutil
import signal
import subprocess
import textwrap
from fractions import Fraction
from pathlib import Path

import pytest
from nbtest import proc
from nbtest.published import accumulator, node

from nbcache.glue.publishing.constants import constant
from nbcache.protocol.manifests import Function
from nbcache.published import introspection

MODULE = """
import ctypes
import math
import numpy as np
from numba import carray, cfunc, guvectorize, njit, vectorize

TABLE = np.arange(100_000.0)

@vectorize(["float64(float64, float64)", "int64(int64, int64)"])
def several(price, discount):
    return price * (1 - discount)

@vectorize(["float64(float64, float64)"])
def revenue(price, discount):
    '''What is paid.'''
    return price * (1 - discount)

@guvectorize(["(float64[:], float64[:])"], "(n)->()")
def total(values, result):
    result[0] = values.sum()

@cfunc("float64(float64, int64)")
def sines(x, n):
    return math.sin(x) + n

@cfunc("float64(CPointer(float64), intp)")
def mean(values, n):
    sum = 0.0
    for value in carray(values, n):
        sum += value
    return sum / n

@njit(["float64[:](float64[::1], int64)", "float64(float64, int64)"])
def scaled(values, n=2):
    return values * n + TABLE[1]

@vectorize(["float64(float64)"])
def allocating(x):
    return np.full(3, x).sum()

erf = ctypes.CDLL("libm.so.6").erf
erf.restype, erf.argtypes = ctypes.c_double, [ctypes.c_double]

@vectorize(["float64(float64)"])
def error(x):
    return erf(x)
"""
PUBLISHED = """
import functions
nbcache.publish("sales.revenue", functions.revenue)
nbcache.publish("c.all", {name: getattr(functions, name) for name in ("several", "total", "sines")})
nbcache.publish("mean", functions.mean)
nbcache.publish("scaled", functions.scaled)
nbcache.publish("allocating", functions.allocating)
nbcache.publish("error", functions.error)
nbcache.publish("c.one", {name: getattr(functions, name) for name in ("allocating", "sines")})
"""
C = r"""
#include "all.h"

int main(void)
{
    double values[] = {1, 2, 3, 4, 5, 6}, sums[2];
    int64_t prices[] = {10, 20}, discount = 3, results[2];
    const char *problem = c_all_open("./all.so");
    if (problem != NULL)
        return puts(problem), 1;
    /* Two rows of three, of which every second element counts: a core dimension with a stride. */
    c_all_total((char *[]){(char *)values, (char *)sums}, (intptr_t[]){2, 2}, (intptr_t[]){24, 8, 16}, NULL);
    c_all_several_1((char *[]){(char *)prices, (char *)&discount, (char *)results}, (intptr_t[]){2},
                    (intptr_t[]){8, 0, 8}, NULL);
    printf("%g %g %ld %ld %.16g\n", sums[0], sums[1], (long)results[0], (long)results[1], c_all_sines(0.5, 2));
    return 0;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    (folder / "functions.py").write_text(textwrap.dedent(MODULE))
    accumulator(folder / "store", PUBLISHED, folder)
    return folder


def export(folder, *argv):
    return proc.run(["-m", "nbcache", "export", *argv], folder / "store", cwd=folder)


def compiled_and_run(folder, name, source):
    (folder / f"{name}.c").write_text(source)
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        pytest.skip("no C compiler here")
    options = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-pedantic"]
    subprocess.run([compiler, *options, "-o", name, f"{name}.c", "-ldl"], cwd=folder, check=True)
    return subprocess.run([f"./{name}"], cwd=folder, check=False, capture_output=True, text=True)


def test_a_program_in_c_calls_them_without_python(folder):
    done = export(folder, "c.all", "--header", "all.h")
    assert done.status == 0, done.stderr
    assert [Path(each).name for each in done.stdout.split()] == ["all.h", "all.so"]
    ran = compiled_and_run(folder, "all", C)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.split() == ["4", "10", "-20", "-40", repr(math.sin(0.5) + 2)]


def test_the_example_of_the_guide_does_what_it_says(folder):
    guide = (proc.ROOT / "docs" / "published.md").read_text()
    example = re.search(r"```c\n(.*?)```", guide, re.DOTALL)[1]
    assert export(folder, "sales.revenue", "--header", "sales.h").status == 0
    assert compiled_and_run(folder, "program", example).stdout == "5 10 15\n"


def test_a_header_is_one_of_c_plus_plus_as_well(folder):
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler here")
    for name in ("c.all", "mean"):
        assert export(folder, name, "--header", "both.h").status == 0
        options = ["-std=c++11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-fsyntax-only", "-x", "c++"]
        subprocess.run([compiler, *options, "both.h"], cwd=folder, check=True)


@pytest.mark.long
def test_one_that_may_raise_an_error_ends_the_process_when_it_does(folder):
    done = export(folder, "mean", "--header", "mean.h")
    assert done.status == 0, done.stderr
    calls = r"""
#include "mean.h"

int main(void)
{
    double values[] = {1, 2, 6};
    if (mean_open("./mean.so") != NULL)
        return 1;
    printf("%g\n", mean(values, 3));
    fflush(stdout);
    printf("%g\n", mean(values, 0));
}
"""
    ran = compiled_and_run(folder, "means", calls)
    assert (ran.returncode, ran.stdout) == (-signal.SIGABRT, "3\n") and "raised an error" in ran.stderr


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("scaled", "can only be called by Python"),
        ("allocating", "it needs NRT_MemInfo"),
        ("c.one", "c.one: allocating needs NRT_MemInfo"),
        ("error", "error: it needs a pointer to erf"),
    ],
)
def test_what_c_can_not_call_is_refused(folder, name, why):
    done = export(folder, name, "--header", "refused.h")
    assert done.status == 1 and why in done.stderr
    assert not (folder / "refused.h").exists()


def test_stubs_say_what_is_taken_and_returned(folder):
    assert export(folder, "scaled", "--stubs", "scaled.pyi").status == 0
    assert export(folder, "c.all", "--stubs", "all.pyi").status == 0
    text = (folder / "scaled.pyi").read_text()
    ast.parse(text)
    array = "npt.NDArray[np.float64]"
    assert f"@overload\ndef scaled(values: {array}, n: int | np.integer[Any] = ...) -> {array}: ..." in text
    assert "def scaled(values: float, n: int | np.integer[Any] = ...) -> float: ..." in text
    assert "several: np.ufunc" in (folder / "all.pyi").read_text()
    assert "sines: Callable[[float, int], float]" in (folder / "all.pyi").read_text()


def test_nothing_is_exported_that_was_not_asked_for(folder):
    done = export(folder, "scaled")
    assert done.status == 2 and "export what?" in done.stderr


def test_show_says_types_results_shapes_and_what_it_was_built_for(folder):
    said = proc.run(["-m", "nbcache", "show", "c.all"], folder / "store", cwd=folder).stdout
    assert "gufunc total: (float64, float64) -> , shapes (n)->()" not in said
    assert "gufunc total: (float64) -> float64, shapes (n)->()" in said
    assert "ufunc several: (float64, float64) -> float64; (int64, int64) -> int64" in said
    assert "cfunc sines(x, n): (float64, int64) -> float64" in said and "built for" in said
    said = proc.run(["-m", "nbcache", "show", "scaled"], folder / "store", cwd=folder).stdout
    assert "njit scaled(values, n=2): (array(float64, 1d, C), int64) -> " in said


def test_parameters_are_said_as_python_writes_them():
    def named(*defaults, star=False, names=("a", "b", "c")):
        function = Function("njit", name="f", module="m", doc=None, parameters=names, defaults=defaults, star=star)
        return introspection.parameters(function)

    assert named() == "(a, b, c)"
    assert named({"json": "x"}, constant((0.5, None), "it")) == "(a, b='x', c=(0.5, None))"
    assert named({"json": None}, star=True) == "(a, b=None, *c)"
    # What has to be imported, which showing it doesn't, and what no node can make.
    assert named(constant(Fraction(1, 2), "it"), None) == "(a, b=..., c=...)"
    assert named(names=()) == ""


def test_a_loaded_function_can_be_asked_about(folder):
    program = """
    import inspect
    scaled, revenue, both = (nbcache.load(name) for name in ("scaled", "sales.revenue", "c.all"))
    about = nbcache.about(scaled)
    assert about.signatures[1] == "(float64, int64) -> float64" and about.publication == "scaled"
    assert "cpython" in about.targets[0]
    assert nbcache.about(revenue).doc == revenue.__doc__.rpartition("\\n")[2] == "What is paid."
    assert [nbcache.about(each).kind for each in vars(both).values()] == ["ufunc", "gufunc", "cfunc"]
    assert inspect.signature(scaled).parameters["n"].default == 2
    sines = both.sines
    assert str(inspect.signature(sines)) == "(x, n, /)" and repr(sines) == "<published C callback 'sines'>"
    try:
        nbcache.about(len)
    except TypeError as error:
        assert "is not what nbcache.load or nbcache.loads returned" in str(error)
    """
    node(folder / "store", program, folder)
