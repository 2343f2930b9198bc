"""Compiled code that calls C functions by their addresses hits in each process, and calls the right ones."""

import json
import shutil
import subprocess

import pytest
from nbtest import proc

needs_a_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")

C = """
static double hidden(double x) { return x * %(factor)s; }
static int calls;
double scaled(double x) { return x * %(factor)s; }
double again(double x) { return x * %(factor)s; }
double count(double x) { return x + ++calls; }
double (*choose(void))(double) { return hidden; }
"""
HEAD = """
import ctypes, json, os, sys
import numpy as np
from numba import cfunc, float64, guvectorize, njit, types, vectorize
from numba.core import event

listener = event.RecordingListener()
event.register("numba:compile", listener)
AS_DOUBLE = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)

def declared(function):
    function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double]
    return function

def called(function):
    @njit
    def call(x):
        return function(x) + 1
    return call

def end(*answers):
    print(json.dumps([answers, sum(each.is_start for _time, each in listener.buffer)]))
"""
KINDS = """
def vectorized(function):
    @vectorize
    def each(x):
        return function(x) + 1
    return each

def generalised(function):
    @guvectorize([(float64[:], float64[:])], "(n)->(n)")
    def all_of(x, out):
        for i in range(len(x)):
            out[i] = function(x[i]) + 1
    return lambda x: all_of(np.array([x]))[0]

def passed(function):
    @cfunc("float64(float64)")
    def callback(x):
        return function(x) + 1
    return callback.ctypes
"""
FUNCTIONS = {
    "a function of ctypes": "declared(ctypes.CDLL('libm.so.6').cos)",
    "a prototype of ctypes": "AS_DOUBLE(('cos', ctypes.CDLL('libm.so.6')))",
    "an address": "AS_DOUBLE(ctypes.cast(ctypes.CDLL('libm.so.6').cos, ctypes.c_void_p).value)",
    "a function of cffi": "cffi.dlopen('libm.so.6').cos",
    "a function of Cython": "AS_DOUBLE(get_cython_function_address('scipy.special.cython_special', 'j0'))",
    "a symbol": "types.ExternalFunction('cos', float64(float64))",
}
LIBRARIES = {
    "cffi": "from cffi import FFI\ncffi = FFI()\ncffi.cdef('double cos(double);')\n",
    "get_cython_function_address": "from numba.extending import get_cython_function_address\nimport scipy.special.cython_special\n",
    "ExternalFunction": "import llvmlite.binding\nllvmlite.binding.load_library_permanently('libm.so.6')\n",
}


def answers(tmp_path, text, *args, store="store"):
    """What a program answers, and how much is compiled in it."""
    (tmp_path / "program.py").write_text(HEAD + text)
    outcome = proc.run([tmp_path / "program.py", *args], store and tmp_path / store, proc.scipy_for(text), cwd=tmp_path)
    assert outcome.status == 0, outcome.stderr
    return json.loads(outcome.stdout)


def built(folder, factor, name="libscaled.so", *flags):
    """A library that is made by the C compiler of this host."""
    folder.mkdir(exist_ok=True)
    (folder / "scaled.c").write_text(C % {"factor": factor})
    subprocess.run(["cc", "-shared", "-fPIC", *flags, "-o", folder / name, folder / "scaled.c"], check=True)
    return str(folder / name)


def program_of(functions, ways):
    text = KINDS
    for word, line in LIBRARIES.items():
        if any(word in FUNCTIONS[each] for each in functions):
            pytest.importorskip({"get_cython_function_address": "scipy"}.get(word, "numba"))
            pytest.importorskip("cffi") if word == "cffi" else None
            text += line
    calls = [f"{way}({FUNCTIONS[each]})(0.25)" for each in functions for way in ways]
    return f"{text}end({', '.join(calls)})\n"


@pytest.mark.parametrize(
    ("functions", "ways"),
    [
        (["a function of ctypes"], ["called", "vectorized", "generalised", "passed"]),
        ([each for each in FUNCTIONS if each != "a function of ctypes"], ["called"]),
        pytest.param([*FUNCTIONS], ["called", "vectorized", "generalised", "passed"], marks=pytest.mark.long),
    ],
    ids=["all that calls one", "all that is called", "each that calls each"],
)
def test_nothing_is_compiled_in_a_second_process(tmp_path, functions, ways):
    text = program_of(functions, ways)
    first, compiled = answers(tmp_path, text)
    assert compiled
    assert answers(tmp_path, text) == [first, 0]
    cosine, bessel = 1.9689124217106447, 1.9844359298
    assert all(each == pytest.approx(cosine) or each == pytest.approx(bessel) for each in first)


@pytest.mark.long
def test_closures_of_one_factory_are_found_again(tmp_path):
    text = """
libm = ctypes.CDLL("libm.so.6")
names = ["sin", "cos", "tan", "exp", "exp", "log1p", "cbrt"]
end(*[called(declared(getattr(libm, name)))(0.5) for name in names], called(declared(libm.erf))(0.5))
"""
    plain, _compiled = answers(tmp_path, text, store=None)
    first, compiled = answers(tmp_path, text)
    assert (first, compiled) == (plain, 7)  # exp is there twice
    assert answers(tmp_path, text) == [plain, 0]


@needs_a_compiler
def test_a_function_without_a_name_and_two_at_one_address(tmp_path):
    path = built(tmp_path, 3)
    text = f"""
library = ctypes.CDLL({path!r})
library.choose.restype = ctypes.c_void_p
hidden, one, two = AS_DOUBLE(library.choose()), declared(library.scaled), AS_DOUBLE(("scaled", library))

@njit
def both(x):
    return one(x) + two(x)

end(called(hidden)(2.0), both(2.0))
"""
    assert answers(tmp_path, text)[0] == [7, 12]
    assert answers(tmp_path, text) == [[7, 12], 0]


@pytest.mark.long
@needs_a_compiler
@pytest.mark.parametrize("same", [False, True], ids=["another content", "a copy of the file"])
def test_libraries_of_one_name(tmp_path, same):
    built(tmp_path / "a", 3, "libscaled.so", "-Wl,-soname,libscaled.so")
    if same:
        shutil.copytree(tmp_path / "a", tmp_path / "b")
    else:
        built(tmp_path / "b", 5, "libscaled.so", "-Wl,-soname,libscaled.so")
    text = """
found = []
for folder in sys.argv[1:]:
    library = ctypes.CDLL(os.path.abspath(f"{folder}/libscaled.so"))
    count = called(declared(library.count))
    found += [called(declared(library.scaled))(2.0), count(0.0), count(0.0)]
end(*found)
"""
    a, b = [7, 2, 3], [7 if same else 11, 2, 3]
    assert answers(tmp_path, text, "a", "b")[0] == [*a, *b]
    assert answers(tmp_path, text, "b", "a") == [[*b, *a], 0]
    assert answers(tmp_path, text, "b") == [b, 0]


@pytest.mark.long
@needs_a_compiler
def test_a_library_without_a_build_id_counts_by_its_content(tmp_path):
    path = built(tmp_path, 3, "libscaled.so", "-Wl,--build-id=none")
    text = f"end(called(declared(ctypes.CDLL({path!r}).scaled))(2.0))\n"
    assert answers(tmp_path, text) == [[7], 1]
    assert answers(tmp_path, text) == [[7], 0]
    built(tmp_path, 5, "libscaled.so", "-Wl,--build-id=none")
    assert answers(tmp_path, text) == [[11], 1]


@needs_a_compiler
def test_a_library_that_is_loaded_again(tmp_path):
    path, other = built(tmp_path / "a", 3), built(tmp_path / "b", 5)
    text = f"""
import _ctypes
library = ctypes.CDLL({path!r})
first = called(declared(library.scaled))(2.0)
_ctypes.dlclose(library._handle)
shutil = __import__("shutil")
shutil.copy({other!r}, {str(tmp_path / "c.so")!r})
os.replace({str(tmp_path / "c.so")!r}, {path!r})
end(first, called(declared(ctypes.CDLL({path!r}).scaled))(2.0))
"""
    assert answers(tmp_path, text)[0] == [7, 11]
    built(tmp_path / "a", 3)
    assert answers(tmp_path, text)[0] == [7, 11]


@pytest.mark.long
def test_what_else_is_bound_or_declared(tmp_path):
    text = """
libm = ctypes.CDLL("libm.so.6")
function = declared(libm.cos)

@njit
def f(x):
    return function(x)

found = [f(0.0)]
function = declared(libm.sin)
found += [f(0.0), f(np.float32(0))]
whole = libm.lround
whole.restype, whole.argtypes = (ctypes.c_long if sys.argv[1:] else ctypes.c_int), [ctypes.c_double]
call = called(whole)
end(*found, call(2.5), str(call.nopython_signatures[0].return_type))
"""
    expected = [1, 1, 0, 4, "int64"]
    assert answers(tmp_path, text, store=None)[0] == expected
    assert answers(tmp_path, text)[0] == expected
    assert answers(tmp_path, text)[0] == expected
    assert answers(tmp_path, text, "long")[0] == expected


def test_a_callback_is_bound_to_the_one_of_its_process(tmp_path):
    text = """
number = int(sys.argv[1])

@AS_DOUBLE
def callback(x):
    return x + number

end(called(callback)(1.0))
"""
    assert answers(tmp_path, text, "1") == [[3], 1]
    assert answers(tmp_path, text, "2") == [[4], 0]


FROM_BUFFER = """
import sys
from cffi import FFI
from _cffi_backend import FFI as CompiledFFI  # that of a module which cffi compiled
from numba.core.typing import cffi_utils
ffi, compiled = FFI(), CompiledFFI()
ffi.cdef("double modf(double, double *);")
modf = ffi.dlopen("libm.so.6").modf
if "registered" in sys.argv:
    cffi_utils._ffi_instances.add(compiled)  # register_module does it
@njit
def parts(x):
    whole = np.empty(1)
    return modf(x, ffi.from_buffer(whole)) + 10 * whole[0]
@guvectorize([(float64[:], float64[::1])], "(n)->(n)")
def wholes(x, out):
    for i in range(len(x)):
        modf(x[i], compiled.from_buffer(out[i:i + 1]))
end(parts(2.25), wholes(np.array([3.5, 4.5])).tolist())
"""


def test_arrays_are_passed_to_functions_of_cffi(tmp_path):
    pytest.importorskip("cffi")
    first, compiled = answers(tmp_path, FROM_BUFFER, "registered")
    assert compiled and first == [20.25, [3.0, 4.0]]
    assert answers(tmp_path, FROM_BUFFER, "registered") == [first, 0]
    # What Numba can't compile here is no hit either.
    (tmp_path / "program.py").write_text(HEAD + FROM_BUFFER)
    outcome = proc.run([tmp_path / "program.py"], tmp_path / "store", cwd=tmp_path)
    assert outcome.status and "TypingError" in outcome.stderr
