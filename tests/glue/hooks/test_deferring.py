"""What a hit put off is there in time: nothing that a program does later fails which doesn't in plain Numba."""

import os
import random

import pytest
from nbtest import proc

root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: gives it up")
PROGRAM = """
{before}
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
from numba import njit

@njit
def first(x):
    return x + 1

print(first(1))
loaded = "numba.core.boxing" in sys.modules

{then}

@njit
def second(x):
    return x * {number}

print(second(2) == {number} * 2, second(2.5) == {number} * 2.5, first(2.5), loaded)
sys.stdout.flush()
if os.fork() == 0:
    print(first(2j))
    sys.stdout.flush()
    os._exit(0)
os.wait()
assert all(map(os.fstat, globals().get("kept", ())))
"""
EXHAUSTED = """
held = []
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError as raised:
    assert raised.errno == 24
"""
CLOSED = """
os.closerange(3, 100)
kept = [os.dup2(os.pipe()[0], number) for number in range(50, 60)]
"""
GIVING_UP = {
    "limit": ("", "resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))"),
    "exhausted": ("", EXHAUSTED),
    "closed": ("", CLOSED + EXHAUSTED + "os.close(held.pop())\nos.close(held.pop())"),
    "chroot": ("", "os.mkdir('empty') if not os.path.isdir('empty') else None\nos.chroot('empty')"),
    "user": ("", "os.setgroups([]); os.setgid(65534); os.setuid(65534)"),
    "effective user": ("", "os.seteuid(65534)"),
    "bound": ("from os import chroot", "os.mkdir('empty') if not os.path.isdir('empty') else None\nchroot('empty')"),
}


def run(place, before="", then=""):
    program = PROGRAM.format(before=before, then=then, number=random.randrange(10**6))
    return proc.run(["-c", program], place / "store", cwd=place)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A folder with a store that has what these programs call first."""
    place = tmp_path_factory.mktemp("deferring")
    assert run(place).said == (0, "2\nTrue True 3.5 True\n(1+2j)\n")
    for _ in range(2):  # what is on trial has more modules loaded
        assert proc.run(["-c", BEGIN + STATS], place / "store", cwd=place).status == 0
    return place


BEGIN = "import os, sys, numba\nf = numba.njit(lambda x: x + 1)\nf(1)\n"


NEEDS_ROOT = {"chroot", "user", "effective user", "bound"}


@pytest.mark.every(12)
@pytest.mark.parametrize("how", [pytest.param(how, marks=root if how in NEEDS_ROOT else ()) for how in GIVING_UP])
def test_what_a_process_gave_up_after_its_first_hit_it_needs_no_more(filled, how):
    before, then = GIVING_UP[how]
    outcome = run(filled, before, then)
    # Who has bound the function under another name has all loaded at once.
    assert outcome.said == (0, f"2\nTrue True 3.5 {before != ''}\n(1+2j)\n"), outcome.stderr
    assert "internal error" not in outcome.stderr


def warm(place, code):
    """What a process says that runs *code* after its first hit."""
    outcome = proc.run(["-c", BEGIN + code], place / "store", cwd=place)
    assert (outcome.status, outcome.stderr) == (0, "")
    return outcome.stdout.split()


ATTRIBUTES = """
names = ("np.random", "np.linalg", "core.typing.cffi_utils", "core.boxing", "cpython.hashing", "typed.typedlist",
         "core.typing.arraydecl", "np.unsafe.ndarray", "misc.quicksort", "core.runtime.context")
from numba.np import arrayobj
print("numba.core.boxing" in sys.modules, isinstance(numba.np, type(sys)), "typeof" in vars(numba))
for name in names:
    found = numba
    for part in name.split("."):
        found = getattr(found, part)
    assert found is sys.modules["numba." + name]
print(hasattr(numba.np, "nothing"), hasattr(numba, "cuda"), "hashing" in dir(numba.cpython), type(numba.np) is type(sys))
try:
    numba.np.nothing
except AttributeError as raised:
    print(str(raised).replace(" ", "_"))
"""


def test_modules_that_compiling_would_have_loaded_are_attributes(filled):
    """An import of one of them loads that one alone, as ever."""
    said = warm(filled, ATTRIBUTES)
    assert said == [
        "False",
        "True",
        "True",
        "False",
        "False",
        "True",
        "True",
        "module_'numba.np'_has_no_attribute_'nothing'",
    ]


PARENTS = """
from nbcache.glue.hooks import deferring
before = set(sys.modules)
deferring.load()
parents = {name.rpartition(".")[0] for name in sys.modules.keys() - before if name.startswith("numba.")}
print(parents & before <= set(deferring._PACKAGES), len(parents) > 5)
"""


def test_the_packages_are_those_that_compiling_adds_modules_to(filled):
    assert warm(filled, PARENTS) == ["True", "True"]


def test_listing_a_package_shows_them(filled):
    assert warm(filled, "print('hashing' in dir(numba.cpython))") == ["True"]


STAND_INS = """
import posix
print(os.setgid is posix.setgid, os.setgid.__name__)
os.setgid(os.getgid())
print("numba.core.boxing" in sys.modules, os.setgid is posix.setgid, os.chroot is posix.chroot)
"""


def test_functions_that_give_up_rights_load_the_rest_and_are_pythons_own_again(filled):
    assert warm(filled, STAND_INS) == ["False", "setgid", "True", "True", "True"]


def test_a_program_that_compiles_has_them_as_they_were(filled):
    code = "import posix, random\nexec(f'g = numba.njit(lambda x: x + {random.random()})')\ng(1)\nprint(os.setuid is posix.setuid)"
    assert warm(filled, code) == ["True"]


CHILD = """
import subprocess
def give_up():
    os.setgid(os.getgid())
    os.write(1, b"loaded" if "numba.core.boxing" in sys.modules else b"unloaded")
subprocess.run(["true"], preexec_fn=give_up)
"""


def test_a_child_that_is_about_to_execute_another_program_loads_nothing(filled):
    assert warm(filled, CHILD) == ["unloaded"]


LIMITS = """
import resource
before = "numba.core.boxing" in sys.modules
resource.setrlimit(resource.RLIMIT_CORE, resource.getrlimit(resource.RLIMIT_CORE))
print(before, "numba.core.boxing" in sys.modules)
"""


def test_limits_count_where_their_module_is_imported_later(filled):
    assert warm(filled, LIMITS) == ["False", "True"]


FREED = """
import random, resource
held = []
if {exhausts}:
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
    try:
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    numba.njit(eval(f"lambda x: x + {{random.random()}}"))(1)
while held:
    os.close(held.pop())
g = numba.njit(cache=True)(lambda x: x * 3)
g(1)
print(sum(g.stats.cache_hits.values()))
"""


@pytest.mark.long
def test_who_had_no_descriptors_for_a_while_finds_what_others_compiled(filled):
    for exhausts, hits in ((False, "0\n"), (True, "1\n")):
        outcome = proc.run(["-c", BEGIN + FREED.format(exhausts=exhausts)], filled / "store", cwd=filled)
        assert outcome.said == (0, hits)


STATS = """
c = numba.cfunc("f8(f8)")(lambda x: x)
g = numba.njit(cache=True)(lambda x: x - 1)
g(1)
for each in f, g:
    stats = each.stats
    print(stats.cache_path == os.environ["NBCACHE_DIR"], [*stats.cache_hits.values()], [*stats.cache_misses.values()])
print(type(f._cache).__name__, c.cache_hits, type(c._cache).__name__)
"""


def test_a_function_without_cache_has_no_hits(filled):
    said = warm(filled, STATS)
    assert said == ["False", "[]", "[1]", "True", "[1]", "[]", "NullCache", "0", "NullCache"]


UNJITTED = """
import numpy as np
numba.config.DISABLE_JIT = True
print(f(2.5), type(numba.njit(lambda: 1)).__name__)
numba.config.DISABLE_JIT = False
from numba.typed import List
print(numba.njit(lambda items: items[1])(List([1, 2])))
"""


def test_what_is_loaded_late_is_compiled_as_if_it_had_been_loaded_at_first(filled):
    assert warm(filled, UNJITTED) == ["3.5", "function", "2"]


KEPT = """
import sys, numba
from numba.extending import overload

def thing(x):
    raise NotImplementedError

@overload(thing)
def choose(x):
    return lambda x: x + 1

@numba.njit
def g(x):
    return thing(x) * 2 + len((x, x))

print(g(1))
numba.config.DISABLE_JIT = "unjitted" in sys.argv
g.recompile()
print(g(1), g.signatures, bool(numba.config.DISABLE_JIT))
"""


def test_what_templates_would_have_kept_is_compiled_without_jit_too(tmp_path):
    for argument in ("fills", "unjitted"):
        assert proc.run(["-c", KEPT, argument], tmp_path / "store").said == proc.run(["-c", KEPT, argument]).said
