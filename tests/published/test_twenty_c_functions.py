"""Twenty C functions, declared in five ways, in four decorators: the same in a second process, and at a node."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
from nbtest import hitcheck, proc
from nbtest.published import accumulator, node

CC, INCLUDE, PATH = shutil.which("cc"), sysconfig.get_path("include"), os.environ["PATH"]
pytestmark = [
    pytest.mark.usefixtures("way"),
    pytest.mark.every(2),
    pytest.mark.skipif(CC is None or not Path(INCLUDE, "Python.h").exists(), reason="needs a C compiler and Python.h"),
]
SHAPES = {
    "twice": ("double", "x * 2"),
    "half": ("float", "x / 2"),
    "next": ("int", "x + 1"),
    "cube": ("long", "x * x * x"),
}
IN_C = ["ctypes", "abi", "api", "symbol"]
"""What the names of functions of the library begin with, which count for something in what they compute."""
MODULE = """
import ctypes, sys
import llvmlite.binding
import scipy.special.cython_special
from cffi import FFI
from numba import cfunc, guvectorize, njit, types, vectorize
from numba.core.typing import cffi_utils
from numba.extending import get_cython_function_address
import _twenty

TYPES = {"double": types.float64, "float": types.float32, "int": types.int32, "long": types.int64}
library = ctypes.CDLL(LIBRARY)
llvmlite.binding.load_library_permanently(LIBRARY)
cffi_utils.register_module(_twenty)
ffi = FFI()
ffi.cdef(DECLARED)
opened = ffi.dlopen(LIBRARY)


def declared(function, kind):
    function.restype, function.argtypes = getattr(ctypes, f"c_{kind}"), [getattr(ctypes, f"c_{kind}")]
    return function


def exported(name):
    prototype = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
    return prototype(get_cython_function_address("scipy.special.cython_special", name))


FUNCTIONS = {f"cython_{name}": (exported(name), types.float64) for name in ("j0", "j1", "i0", "k0")}
for name, kind in SHAPES.items():
    typ = TYPES[kind]
    FUNCTIONS[f"ctypes_{name}"] = declared(getattr(library, f"ctypes_{name}"), kind), typ
    FUNCTIONS[f"abi_{name}"] = getattr(opened, f"abi_{name}"), typ
    FUNCTIONS[f"api_{name}"] = getattr(_twenty.lib, f"api_{name}"), typ
    FUNCTIONS[f"symbol_{name}"] = types.ExternalFunction(f"symbol_{name}", typ(typ)), typ


def called(function, typ):
    return njit(typ(typ))(lambda x: function(x) + 1)


def vectorized(function, typ):
    return vectorize([typ(typ)])(lambda x: function(x) + 1)


def generalised(function, typ):
    def each(x, out):
        for i in range(len(x)):
            out[i] = function(x[i]) + 1

    return guvectorize([(typ[:], typ[:])], "(n)->(n)")(each)


def passed(function, typ):
    return cfunc(typ(typ))(lambda x: function(x) + 1)


COMPILED = {
    f"{decorator.__name__}_{name}": decorator(function, typ)
    for name, (function, typ) in FUNCTIONS.items()
    for decorator in (called, vectorized, generalised, passed)
}
"""
ANSWERS = """
import json
import numpy as np

def answers(functions):
    found = {}
    for name in NAMES:
        function, kind = functions[name], getattr(np, KINDS[name])
        if name.startswith("passed"):
            found[name] = [function.ctypes(value) for value in (3, 7)]
        elif name.startswith("called"):
            found[name] = [function(kind(value)) for value in (3, 7)]
        else:
            found[name] = function(np.array([3, 7], kind)).tolist()
    return json.dumps(found)
"""


def kinds():
    """The dtype of each compiled function, by its name."""
    dtypes = {"double": "float64", "float": "float32", "int": "int32", "long": "int64"}
    functions = {f"cython_{name}": "float64" for name in ("j0", "j1", "i0", "k0")}
    functions |= {f"{kind}_{name}": dtypes[typ] for kind in IN_C for name, (typ, _) in SHAPES.items()}
    decorators = ("called", "vectorized", "generalised", "passed")
    return {f"{decorator}_{name}": dtype for name, dtype in functions.items() for decorator in decorators}


def declarations(kind):
    return "".join(f"{typ} {kind}_{name}({typ} x);\n" for name, (typ, _) in SHAPES.items())


def definitions(kind, more):
    return "".join(
        f"{typ} {kind}_{name}({typ} x) {{ return {body} + {more}; }}\n" for name, (typ, body) in SHAPES.items()
    )


def compile_c(folder, source, name, *flags):
    command = [CC, "-shared", "-fPIC", *flags, "-o", name, source]
    subprocess.run(command, check=True, cwd=folder, env={"PATH": PATH})


def build(folder):
    """A library, cffi's module, and a module that compiles all of them in all decorators."""
    cffi = pytest.importorskip("cffi")
    pytest.importorskip("scipy")
    (folder / "twenty.c").write_text("".join(definitions(kind, more) for more, kind in enumerate(IN_C)))
    compile_c(folder, "twenty.c", "libtwenty.so", "-Wl,-soname,libtwenty.so")
    ffi = cffi.FFI()
    ffi.cdef(declarations("api"))
    ffi.set_source("_twenty", definitions("api", 2))
    ffi.emit_c_code(str(folder / "_twenty.c"))
    compile_c(folder, "_twenty.c", "_twenty" + sysconfig.get_config_var("EXT_SUFFIX"), f"-I{INCLUDE}")
    shapes = {name: typ for name, (typ, _) in SHAPES.items()}
    head = f"LIBRARY, DECLARED, SHAPES = {str(folder / 'libtwenty.so')!r}, {declarations('abi')!r}, {shapes!r}\n"
    (folder / "twenty.py").write_text(head + MODULE)
    (folder / "answers.py").write_text(f"KINDS = {kinds()!r}\nNAMES = list(KINDS)\n{ANSWERS}")


COMPILE = """
import answers
from numba.core import event
listener = event.RecordingListener()
event.register("numba:compile", listener)
import twenty
print(answers.answers(twenty.COMPILED))
print(sum(each.is_start for _time, each in listener.buffer))
"""
LOAD = """
import answers
print(answers.answers(vars(nbcache.load("twenty"))))
"""


@pytest.mark.long
def test_twenty_c_functions_of_five_kinds_in_four_decorators(place):
    assert len(kinds()) == 4 * 20
    build(place)
    publish = "nbcache.publish('twenty', twenty.COMPILED)\n"
    first, compiled = accumulator(place / "store", COMPILE + publish, place, **proc.SCIPY).stdout.splitlines()
    assert int(compiled) >= 20  # those of @njit say so
    second, compiled = accumulator(place / "store", COMPILE, place, **proc.SCIPY).stdout.splitlines()
    assert second == first
    assert compiled == "0" or hitcheck.WANTED
    assert node(place / "store", LOAD, place, **proc.SCIPY).stdout.strip() == first
    found = json.loads(first)
    assert [found[f"called_{kind}_cube"][0] for kind in IN_C] == [28, 29, 30, 31]
