"""Compiling goes as in plain Numba where the session has nothing to add."""

import re

import pytest
from nbtest import proc

KEPT = """
import sys
from pathlib import Path
import nbcache
from numba import njit
from numba.core.caching import CacheImpl, _CacheLocator

class Locator(_CacheLocator):
    def __init__(self, function):
        self.name = function.__name__
    def ensure_cache_path(self):
        Path(self.get_cache_path()).mkdir(exist_ok=True)
    def get_cache_path(self):
        return sys.argv[1]
    def get_source_stamp(self):
        return 0
    def get_disambiguator(self):
        return self.name
    @classmethod
    def from_function(cls, function, file):
        return cls(function)

CacheImpl._locator_classes.insert(0, Locator)

@njit(cache=True)
def kept(x):
    return x + 1
CacheImpl._locator_classes.remove(Locator)

@njit
def caller(x):
    return kept(x) * 2

@njit(cache=True)
def other(x):
    return x + 3

print(CALLS, sum(kept.stats.cache_hits.values()))
print(nbcache.stats()["builds_count"], [*nbcache.stats()["uncacheable"]])
"""


def test_what_a_package_keeps_by_keys_of_its_own_is_left_to_it(tmp_path):
    def said(calls, store=tmp_path / "store"):
        (tmp_path / "main.py").write_text(KEPT.replace("CALLS", calls))
        outcome = proc.run([tmp_path / "main.py", tmp_path / "kept"], store)
        assert outcome.stderr == ""
        return outcome.stdout.splitlines()

    assert said("kept(1), other(1)")[0] == "2 4 0"
    assert said("kept(1), other(1)") == ["2 4 1", "0 []"]
    for _ in range(2):
        uses = "['it uses a function that a package keeps in a cache of its own']"
        assert said("caller(1)") == ["4 1", f"1 {uses}"]
    assert said("other(1), caller(1)", store=None)[0] == "4 4 1"


RAISING = KEPT.replace(
    """
@njit(cache=True)
def kept(x):
    return x + 1
""",
    """
@njit
def helper(x):
    if x > 5:
        raise IndexError("too much")
    return x + 1

@njit(cache=True)
def kept(x):
    if x < 0:
        raise ValueError("too little")
    return helper(x)
""",
).replace(
    "print(CALLS",
    """
def failing(function, value):
    try:
        function(value)
    except Exception as raised:
        return f"{type(raised).__name__} {raised}"

print(CALLS""",
)
FAILURES = "IndexError too much ValueError too little"


@pytest.mark.parametrize("first", ["", "helper(1), "], ids=["with it", "before it"])
def test_what_a_package_keeps_has_nothing_in_it_that_only_entries_explain(tmp_path, first):
    # What a function calls is linked with it.
    def said(calls, store=tmp_path / "store"):
        (tmp_path / "main.py").write_text(RAISING.replace("CALLS", calls))
        outcome = proc.run([tmp_path / "main.py", tmp_path / "kept"], store)
        assert outcome.stderr == ""
        return outcome.stdout.splitlines()[0]

    calls = "kept(1), failing(kept, 6), failing(kept, -1)"
    kept = 0 if first else 1
    assert said(first + calls) == f"{'2 ' if first else ''}2 {FAILURES} 0"
    assert said(calls) == f"2 {FAILURES} {kept}"
    assert said(calls, store=None) == f"2 {FAILURES} 1"


@pytest.mark.parametrize("first", ["", "helper(1), "], ids=["with it", "before it"])
def test_what_a_package_keeps_while_a_caller_is_compiled_has_nothing_of_that(tmp_path, first):
    def said(calls, store=tmp_path / "store"):
        (tmp_path / "main.py").write_text(RAISING.replace("CALLS", calls))
        outcome = proc.run([tmp_path / "main.py", tmp_path / "kept"], store)
        assert outcome.stderr == ""
        return outcome.stdout.splitlines()[0]

    calls = "caller(1), failing(caller, 6), failing(caller, -1)"
    for _ in range(2):
        assert said(first + calls).startswith(f"{'2 ' if first else ''}4 {FAILURES}")
    assert said(calls.replace("caller", "kept"), store=None).startswith(f"2 {FAILURES}")


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
THRESHOLDS = """
import gc
import numba
from numba.extending import overload

meanwhile = []


def noting(x):
    return x


@overload(noting)
def note(x):
    meanwhile.append(gc.get_threshold())
    return (lambda x: x + 1) if x is not numba.complex128 else None


@numba.njit
def function(x):
    return noting(x)


usual = gc.get_threshold()
print(function(1), gc.get_threshold() == usual)
try:
    function(1j)
except numba.TypingError:
    print("raised", gc.get_threshold() == usual)
print({each[0] > usual[0] for each in meanwhile})
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


AT_ONCE = """
import threading
import time

import numba
from numba.core import compiler_lock, registry

lock = compiler_lock.global_compiler_lock._lock
begun = threading.Event()


def is_free():
    free = lock.acquire(blocking=False)
    if free:
        lock.release()
    return free


class Slow:
    def __enter__(self):
        # Within the lock of the target's context, which is about to take the compiler's.
        if threading.current_thread() is other:
            begun.set()
            until = time.monotonic() + 2
            while is_free() and time.monotonic() < until:
                time.sleep(0.01)

    def __exit__(self, *raised):
        pass


vars(registry.CPUTarget)["_toplevel_typing_context"]._lock = Slow()
other = threading.Thread(target=lambda: registry.cpu_target.target_context)
other.start()
begun.wait()
print(numba.vectorize(["f8(f8)"], target="parallel")(lambda x: x * 2)(4.0))
other.join()
"""


def test_the_collector_looks_seldom_while_something_is_compiled_and_as_ever_behind_it(tmp_path):
    assert run(tmp_path, THRESHOLDS, tmp_path / "store") == "2 True\nraised True\n{True}\n"


@pytest.mark.long
def test_who_makes_the_target_and_who_compiles_do_not_wait_for_each_other(tmp_path):
    (tmp_path / "program.py").write_text(AT_ONCE)
    for store in (None, tmp_path / "store"):
        outcome = proc.run([tmp_path / "program.py"], store, timeout=100)
        assert (outcome.status, outcome.stdout) == (0, "8.0\n"), outcome.stderr


WITHOUT_DESCRIPTORS = """
import resource

import numba
from numba.core import registry


@numba.njit
def first(x):
    return x + 1


@numba.njit
def second(x):
    return first(x) + 1


first(1)
registry.cpu_target.typing_context.refresh()  # what Numba itself imports late
registry.cpu_target.target_context.refresh()
resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))
print(second(1), second(1.5))
"""
KINDS_WITHOUT_DESCRIPTORS = """
import resource
import sys

import numba.core.boxing
import numba.core.runtime.context
import numpy as np
from numba.core import registry
from numba.extending import intrinsic, overload


def chosen(x):
    raise NotImplementedError


overload(chosen)(lambda x: lambda x: x + 1)


def inlined(x):
    raise NotImplementedError


overload(inlined, inline="always")(lambda x: lambda x: x + 2)


@intrinsic
def doubled(context, x):
    return x(x), lambda context, builder, sig, args: builder.add(args[0], args[0])


@numba.njit
def closes(x):
    def inner(y):
        if y > 2:
            raise ValueError("large", y)
        return y + x

    return inner(2)


@numba.guvectorize("(n)->()")
def summed(x, result):
    result[0] = x[0] + x[1]


@numba.stencil
def around(a):
    return a[-1] + a[1]


calls = {
    "chosen": lambda: numba.njit(lambda x: chosen(x))(1),
    "inlined": lambda: numba.njit(lambda x: inlined(x))(1),
    "intrinsic": lambda: numba.njit(lambda x: doubled(x))(1),
    "closure": lambda: closes(1),
    "ufunc": lambda: numba.vectorize(lambda x: x + 3)(np.arange(3)).tolist(),
    "gufunc": lambda: summed(np.arange(3.0), np.zeros(())).tolist(),
    "stencil": lambda: around(np.arange(5.0)).tolist(),
}
registry.cpu_target.typing_context.refresh()  # what Numba itself imports late
registry.cpu_target.target_context.refresh()
resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))
print(calls[sys.argv[1]]())
"""
DENIED = """
import sys

import numba
from numba.core import registry


class Denied(Exception):
    pass


@numba.njit
def function(x):
    return x + 1


function(1j)
registry.cpu_target.typing_context.refresh()  # what Numba itself imports late
registry.cpu_target.target_context.refresh()
refused = []


def audit(name, arguments):
    if name in ("open", "os.listdir", "os.mkdir", "fcntl.flock", "fcntl.lockf", "fcntl.fcntl"):
        refused.append(name)
        raise Denied(name)


sys.addaudithook(audit)
print(function(1), function(1.5))
assert REFUSED(refused)
"""


@pytest.mark.long
def test_a_program_that_has_no_descriptor_left_compiles(tmp_path):
    for _ in ("cold", "warm"):
        outcome = proc.run(["-c", WITHOUT_DESCRIPTORS], tmp_path / "store", cwd=tmp_path)
        assert (outcome.status, outcome.stdout) == (0, "3 3.5\n"), outcome.stderr
        assert "Traceback" not in outcome.stderr


@pytest.mark.long
@pytest.mark.parametrize("kind", ["chosen", "inlined", "intrinsic", "closure", "ufunc", "gufunc", "stencil"])
def test_no_kind_of_function_needs_a_descriptor_to_be_compiled_for_the_first_time(tmp_path, kind):
    (tmp_path / "program.py").write_text(KINDS_WITHOUT_DESCRIPTORS)
    plain, cached = (proc.run([tmp_path / "program.py", kind], store) for store in (None, tmp_path / "store"))
    assert plain.status == 0, plain.stderr
    assert (cached.status, cached.stdout) == (0, plain.stdout), cached.stderr


@pytest.mark.long
def test_a_program_that_denies_its_files_to_others_compiles_and_ends_as_ever(tmp_path):
    assert run(tmp_path, DENIED.replace("REFUSED", "not "), None) == "2 2.5\n"
    outcome = proc.run(["-c", DENIED.replace("REFUSED", "bool")], tmp_path / "store", cwd=tmp_path)
    assert (outcome.status, outcome.stdout) == (0, "2 2.5\n"), outcome.stderr
    assert [line.partition(" while")[0] for line in outcome.stderr.splitlines()] == ["internal error"]
