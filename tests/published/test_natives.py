"""Published functions that call C functions: at a node they are bound in the same build of the library, or refused."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess

import pytest
from nbtest import proc
from nbtest.published import accumulator, node

from nbcache.protocol.rare_parts import Native
from nbcache.published import natives
from nbcache.shared_libraries import build_in

CC, PATH = shutil.which("cc"), os.environ["PATH"]
pytestmark = [
    pytest.mark.usefixtures("way"),
    pytest.mark.every(2),
    pytest.mark.skipif(CC is None, reason="needs a C compiler"),
]
C = """
static double hidden(double x) { return x * %(factor)s; }
double blend(double x) { return x * %(factor)s; }
double blend_at(double *x) { return *x * %(factor)s; }
double (*choose(void))(double) { return hidden; }
"""
HEAD = """
import ctypes, os
import numpy as np
from numba import cfunc, float64, guvectorize, njit, types, vectorize
AS_DOUBLE = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
library = ctypes.CDLL(os.path.abspath("libblend.so.2"))
def declared(function):
    function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double]
    return function
def wrapped(address):
    class Wrapped(types.WrapperAddressProtocol):
        def __wrapper_address__(self):
            return address
        def signature(self):
            return float64(float64)
    return Wrapped()
def called(function):
    return njit("float64(float64)")(lambda x: function(x) + 1)
def vectorized(function):
    return vectorize(["float64(float64)"])(lambda x: function(x) + 1)
def generalised(function):
    def each(x, out):
        for i in range(len(x)):
            out[i] = function(x[i]) + 1
    return guvectorize([(float64[:], float64[:])], "(n)->(n)")(each)
def passed(function):
    return cfunc("float64(float64)")(lambda x: function(x) + 1)
"""
FUNCTIONS = {
    "ctypes": "declared(library.blend)",
    "a prototype": "AS_DOUBLE(('blend', library))",
    "an address": "AS_DOUBLE(ctypes.cast(library.blend, ctypes.c_void_p).value)",
    "a static function": "AS_DOUBLE(ctypes.CFUNCTYPE(ctypes.c_void_p)(('choose', library))())",
    "cffi": "cffi.dlopen(os.path.abspath('libblend.so.2')).blend",
    "cffi, with an array": "through",
    "a symbol": "types.ExternalFunction('blend', float64(float64))",
    "libm": "declared(ctypes.CDLL('libm.so.6').cos)",
    "Cython": "AS_DOUBLE(get_cython_function_address('scipy.special.cython_special', 'j0'))",
    "a library's, wrapped": "wrapped(ctypes.cast(library.blend, ctypes.c_void_p).value)",
    "Cython's, wrapped": "wrapped(get_cython_function_address('scipy.special.cython_special', 'j0'))",
}
BEFORE = {
    "cffi": ("cffi", "from cffi import FFI\ncffi = FFI()\ncffi.cdef('double blend(double);')\n"),
    "Cython": (
        "scipy",
        "import scipy.special.cython_special\nfrom numba.extending import get_cython_function_address\n",
    ),
}
THROUGH = """
from cffi import FFI
ffi = FFI()
ffi.cdef("double blend_at(double *);")
blend_at = ffi.dlopen(os.path.abspath("libblend.so.2")).blend_at
@njit
def through(x):
    return blend_at(ffi.from_buffer(np.full(1, x)))
"""
BEFORE["cffi, with an array"] = ("cffi", THROUGH)
BEFORE["Cython's, wrapped"] = BEFORE["Cython"]
ANSWERS = {"Cython's, wrapped": 1.7651976865579666, "libm": 1.5403023058681398, "Cython": 1.7651976865579666}
DECORATORS = ["called", "vectorized", "generalised", "passed"]


def build(folder, factor=3, *flags):
    (folder / "blend.c").write_text(C % {"factor": factor})
    command = [CC, "-shared", "-fPIC", "-Wl,-soname,libblend.so.2", *flags, "-o", "libblend.so.2", "blend.c"]
    subprocess.run(command, check=True, cwd=folder, env={"PATH": PATH})


def publish(place, what, decorators=DECORATORS, more=""):
    needed, before = BEFORE.get(what, ("", ""))
    if needed and importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} isn't installed")
    if what == "a symbol":
        more = "import llvmlite.binding\nllvmlite.binding.load_library_permanently('./libblend.so.2')\n"
    wanted = "".join(f"nbcache.publish('{each}', {each}({FUNCTIONS[what]}))\n" for each in decorators)
    accumulator(place / "store", HEAD + before + more + wanted, place, **proc.SCIPY)


CALLS = """
import ctypes
print(
    nbcache.load("called")(1.0), nbcache.load("vectorized")(1.0),
    float(nbcache.load("generalised")([1.0])[0]), nbcache.load("passed").ctypes(1.0),
)
"""
FAILS = """
try:
    print(nbcache.load("called")(1.0))
except nbcache.errors.PublicationError as exc:
    print(exc)
"""


@pytest.mark.every(24)
@pytest.mark.parametrize("what", FUNCTIONS)
def test_the_same_functions_are_called_at_a_node(place, what):
    build(place)
    publish(place, what)
    answer = ANSWERS.get(what, 4.0)
    assert node(place / "store", CALLS, place, **proc.SCIPY).stdout.split() == [str(answer)] * 4


@pytest.mark.long
def test_a_library_is_found_by_its_name_where_it_lies_elsewhere(place):
    build(place)
    publish(place, "ctypes", ["called"])
    (place / "moved").mkdir()
    (place / "libblend.so.2").rename(place / "moved/libblend.so.2")
    assert node(place / "store", FAILS, place, LD_LIBRARY_PATH=str(place / "moved")).stdout == "4.0\n"
    gone = node(place / "store", FAILS, place).stdout
    assert f"it calls blend of libblend.so.2, but {place}/libblend.so.2 isn't there; libblend.so.2 can't be" in gone
    assert gone.endswith("install here what it was published with, or publish it with what is here\n")


@pytest.mark.long
def test_a_library_of_a_package_is_found_in_another_environment(place):
    package, moved = place / "one/lib/site-packages/blended", place / "other/lib/site-packages/blended"
    package.mkdir(parents=True)
    build(place)
    (place / "libblend.so.2").rename(package / "libblend.so.2")
    (place / "libblend.so.2").symlink_to(package / "libblend.so.2")
    publish(place, "ctypes", ["called"])
    moved.parent.mkdir(parents=True)
    package.rename(moved)
    found = f"sys.path.append({str(moved.parent)!r})\n{FAILS}"
    assert node(place / "store", found, place).stdout == "4.0\n"
    assert "one/lib/site-packages/blended/libblend.so.2 isn't there" in node(place / "store", FAILS, place).stdout
    (moved / "libblend.so.2").chmod(0o777)
    assert "other/lib/site-packages/blended/libblend.so.2 is writable" in node(place / "store", found, place).stdout


def test_another_build_and_one_without_the_function_are_refused(place):
    build(place)
    publish(place, "ctypes", ["called"])
    build(place, 5)
    assert f"{place}/libblend.so.2 is another build" in node(place / "store", FAILS, place).stdout
    build(place, 3, "-Wl,--build-id=0x1234")
    publish(place, "ctypes", ["called"])
    build(place, 3, "-Wl,--build-id=0x1234", "-Dblend=renamed")
    assert f"{place}/libblend.so.2 has no blend" in node(place / "store", FAILS, place).stdout


@pytest.mark.long
def test_a_library_without_a_build_id_is_told_by_its_content(place):
    build(place, 3, "-Wl,--build-id=none")
    publish(place, "a static function", ["called"])
    assert node(place / "store", FAILS, place).stdout == "4.0\n"
    build(place, 5, "-Wl,--build-id=none")
    assert "is another build" in node(place / "store", FAILS, place).stdout


def test_a_library_that_others_may_write_is_not_loaded(place):
    build(place)
    publish(place, "ctypes", ["called"])
    (place / "libblend.so.2").chmod(0o777)
    assert "libblend.so.2 is writable by others (mode 0777)" in node(place / "store", FAILS, place).stdout


@pytest.mark.long
def test_a_library_that_nothing_has_loaded_is_named(place):
    build(place)
    text = """
symbol = types.ExternalFunction("blend", float64(float64))
call = njit(lambda x: symbol(x) + 1)
nbcache.publish("called", call, ["float64(float64)"], libraries=["./libblend.so.2"])
try:
    nbcache.publish("other", call, ["float64(float64)"], libraries=["./none.so"])
except nbcache.errors.PublicationError as exc:
    print(exc)
"""
    assert "other: the library ./none.so can't be loaded" in accumulator(place / "store", HEAD + text, place).stdout
    assert node(place / "store", FAILS, place).stdout == "4.0\n"


@pytest.mark.long
def test_a_symbol_that_no_library_has_is_named_each_time(place):
    """The second time the function is in the store, which isn't what kept it from being published."""
    build(place)
    text = """
symbol = types.ExternalFunction("blend", float64(float64))
call = njit(lambda x: symbol(x) + 1)
try:
    nbcache.publish("called", call, ["float64(float64)"])
except nbcache.errors.NbcacheError as exc:
    print(exc)
"""
    for _ in range(2):
        said = accumulator(place / "store", HEAD + text, place).stdout
        assert (
            "it calls blend, which no library of this process has: name one that does in publish(…, libraries=[…])"
            in said
        )


def test_a_function_with_all_its_signatures_is_published_with_one_of_them(place):
    """Numba compiles no more of such a function, and said so."""
    build(place)
    text = "f = called(declared(library.blend))\nnbcache.publish('called', f, ['float64(float64)'])\n"
    accumulator(place / "store", HEAD + text, place)
    assert node(place / "store", FAILS, place).stdout == "4.0\n"


def test_a_callback_is_refused(place):
    build(place)
    text = (
        "back = AS_DOUBLE(lambda x: x)\ntry:\n    nbcache.publish('f', called(back))\n"
        "except nbcache.errors.NotPublishableError as exc:\n    print(exc)\n"
    )
    said = accumulator(place / "store", HEAD + text, place).stdout
    assert "built in" in said or "in no library's file" in said


def test_what_a_cython_module_exports_has_to_have_the_same_signature():
    cython_special = pytest.importorskip("scipy.special.cython_special")
    name = cython_special.__name__
    with pytest.raises(LookupError, match=r"j0 of scipy.* as double \(int\), which is double \(double"):
        natives.address(Native("pointer", name, "", "", "j0", 0, "double (int)"))
    with pytest.raises(LookupError, match=r"none_such of .* which the release that is installed hasn't"):
        natives.address(Native("pointer", name, "", "", "none_such", 0, "double (int)"))
    with pytest.raises(LookupError, match="which can't be imported"):
        natives.address(Native("pointer", "no_such_module", "", "", "j0", 0, "double (int)"))


def test_the_build_of_what_is_no_library_is_its_content(tmp_path):
    (tmp_path / "text").write_text("x")
    assert len(build_in(str(tmp_path / "text"))) == 32
    assert build_in(str(tmp_path / "none")) is None
    assert build_in(os.devnull) is not None


@pytest.mark.long
def test_linear_algebra_is_refused_where_scipy_is_not(place):
    """The call ended the process."""
    pytest.importorskip("scipy")
    text = "nbcache.publish('called', njit(lambda a: np.linalg.inv(a)), ['float64[:, ::1](float64[:, ::1])'])\n"
    build(place)
    accumulator(place / "store", HEAD + text, place, **proc.SCIPY)
    fails = FAILS.replace("(1.0)", "(__import__('numpy').eye(2) * 2)")
    assert node(place / "store", fails, place, **proc.SCIPY).stdout.startswith("[[ 0.5")
    said = node(place / "store", fails, place).stdout
    assert "it uses linear algebra, for which Numba calls SciPy's, which isn't here: install scipy" in said
