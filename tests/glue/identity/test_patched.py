"""What others put into Numba's modules and classes is noticed, at a look that costs no more than reading numbers."""

import contextlib
import functools

import pytest
from nbtest import proc
from numba import njit
from numba.core.base import BaseContext
from numba.core.cpu import CPUContext
from numba.np import arraymath
from numba.parfors import parfor

from nbcache.glue.identity import patched
from nbcache.glue.identity.patched import Patches
from nbcache.glue.identity.told import newest_number

MEDIAN = "numba.np.arraymath:_median_inner"
CONSTANT = "numba.core.cpu:CPUContext.get_constant_generic"


@pytest.fixture(params=["by numbers", "without numbers"])
def patches(request, monkeypatch):
    """What is in Numba by now counts for nothing: other tests may have left something."""
    found = Patches(0)
    found.look()
    if request.param == "without numbers":
        monkeypatch.setattr(patched, "are_numbered", lambda: False)
    before = dict(found.members)

    def look():
        return {name: value for name, value in found.look().items() if before.get(name) is not value}

    return look


def helper(*_args):
    return 1000.0


@contextlib.contextmanager
def manager(*_args):
    yield


class Own:
    def __call__(self):
        return 1


PUT = {
    "a function": helper,
    "a dispatcher": njit(helper),
    "a partial": functools.partial(helper, 1),
    "a cache": functools.cache(helper),
    "a class": Own,
    "an object to call": Own(),
    "what the library made around a function": manager,
    "a method of somebody's": Own().__call__,
}
PUT_INTO_A_CLASS = {
    **PUT,
    "a static method": staticmethod(helper),
    "a class method": classmethod(helper),
    "a property": property(helper),
    "a cached property": functools.cached_property(helper),
}


@pytest.mark.parametrize("what", PUT)
def test_what_is_in_the_place_of_a_function_is_noticed_until_it_goes(patches, monkeypatch, what):
    assert patches() == {}
    monkeypatch.setattr(arraymath, "_median_inner", PUT[what])
    assert patches() == {MEDIAN: PUT[what]}
    monkeypatch.undo()
    assert Patches(0).look().get(MEDIAN) is None


@pytest.mark.parametrize("what", PUT_INTO_A_CLASS)
def test_what_is_in_the_place_of_a_method_is_noticed(patches, monkeypatch, what):
    monkeypatch.setattr(CPUContext, "get_constant_generic", PUT_INTO_A_CLASS[what], raising=False)
    assert patches() == {CONSTANT: PUT_INTO_A_CLASS[what]}


def test_what_is_put_into_a_table_of_functions_is_noticed(patches, monkeypatch):
    monkeypatch.setitem(parfor.swap_functions_map, ("sum", "numpy"), helper)
    assert patches() == {"numba.parfors.parfor:swap_functions_map[(sum, numpy)]": helper}


def test_what_numba_has_itself_is_not_others(patches, monkeypatch):
    monkeypatch.setattr(CPUContext, "get_constant_generic", BaseContext.get_constant_undef)
    monkeypatch.setattr(arraymath, "_median_inner", arraymath.np_median)
    monkeypatch.setattr(arraymath, "made", exec_in_numba("def made(): pass"), raising=False)
    assert patches() == {}


def exec_in_numba(text):
    made = {}
    exec(text, vars(arraymath), made)
    return made["made"]


def test_a_second_thing_in_the_same_place_is_another(patches, monkeypatch):
    def other():
        return 2.0

    monkeypatch.setattr(arraymath, "_median_inner", helper)
    first = patches()
    monkeypatch.setattr(arraymath, "_median_inner", other)
    assert (first, patches()) == ({MEDIAN: helper}, {MEDIAN: other})


def test_members_are_looked_at_where_something_changed(monkeypatch):
    found, looked_at = Patches(newest_number()), []
    found.look()
    monkeypatch.setattr(found, "_look_at", looked_at.append)
    found.look()
    assert looked_at == []
    monkeypatch.setattr(arraymath, "_median_inner", helper)
    found.look()
    assert len(looked_at) == 1
    assert [found._owners[at] for at in looked_at[0]] == [arraymath]
    arraymath._median_inner = helper
    found.skip()
    found.look()
    assert len(looked_at) == 1


PRISTINE = """
from nbcache.glue.identity.patched import Patches
cpu_target = __import__("numba.core.registry", fromlist=["x"]).cpu_target
cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
import numba.typed, numba.experimental, numba.pycc, numba.stencils, numba.misc.coverage_support
@njit(parallel=True)
def f(a):
    return np.median(a) + np.sort(a)[0]
f(np.arange(9.0))
patches = Patches(0)
print(sorted(patches.look()), len(patches._owners) > 1000)
"""


def test_nothing_of_others_is_in_numba(run):
    assert run(PRISTINE)[0] == "[] True\n"


LATE = """
import os, sys
from numba.np import arraymath
from numba.extending import register_jitable

def patch(value):
    # Where it is defined: some releases of Numba only hand it on in arraymath.
    home = sys.modules[arraymath._median_inner.__module__]

    @register_jitable
    def _median_inner(temp_arry, n):
        return value
    home._median_inner = _median_inner

@njit
def inner(a):
    return np.median(a)

@njit
def outer(a):
    return inner(a) + 1

A = np.array([1.0, 5.0, 7.0])
if os.environ["WHEN"] == "early":
    patch(1000.0)
one = inner(A)
if os.environ["WHEN"] == "late":
    patch(1000.0)
print(one, outer(A), len(nbcache.stats()["hits"]))
"""


def test_a_callee_from_before_the_patch_is_not_one_from_after_it(run):
    said = [run(LATE, WHEN=when)[0].split()[:2] for when in ("late", "early", "never", "late", "early", "never")]
    assert said == [["5.0", "6.0"], ["1000.0", "1001.0"], ["5.0", "6.0"]] * 2


REFUSED = """
import threading
from numba import vectorize
from numba.core.cpu import CPUContext
original, lock = CPUContext.get_constant_generic, threading.Lock()
def constant(self, builder, ty, val):
    with lock:
        return original(self, builder, ty, val)
CPUContext.get_constant_generic = constant

@njit
def f(a):
    return a[0] + 2

@vectorize(["float64(float64)"])
def g(x):
    return x + 1

print(f(np.arange(3.0)), g(1.0))
for reason in nbcache.stats()["uncacheable"]:
    print(reason)
"""


def test_what_cannot_be_described_is_no_fault_and_nothing_is_cached(run):
    said, complaints = run(REFUSED)
    assert complaints == ""
    assert said.startswith("2.0 2.0\n")
    assert "CPUContext.get_constant_generic, which somebody put into the place of Numba's own: " in said


OWN = """
import os
import nbcache.client.activation as activation
from nbcache.glue.identity import patched
if "WITHOUT_NUMBERS" in os.environ:
    patched.are_numbered = lambda: False

@njit
def first(x):
    return x + 1

first(1)
patches = activation.session().maker.patches
print(sorted(patches.look()))
{change}
print(sorted(patches.look().items()), patches.look() is patches.look())
{undo}
print(sorted(patches.look()))
"""
CHANGES = {
    "a function": (
        "from numba.np import arraymath as m; old = m.np_median; m.np_median = m.np_percentile",
        "m.np_median = old",
        "numba.np.arraymath:np_median', <function",
    ),
    "a method": (
        "from numba.core.cpu import CPUContext as c; c.get_constant_undef = c.get_constant_null",
        "del c.get_constant_undef",
        "numba.core.cpu:CPUContext.get_constant_undef', <function",
    ),
    "what is removed": (
        "from numba.core.utils import BINOPS_TO_OPERATORS as t; old = t.pop('+')",
        "t['+'] = old",
        "numba.core.utils:BINOPS_TO_OPERATORS', [('+', 'nothing')]",
    ),
    "what is added": (
        "from numba.np.numpy_support import FROM_DTYPE as t; t[1] = 2",
        "del t[1]",
        "numba.np.numpy_support:FROM_DTYPE', [(1, 2)]",
    ),
    "a number": (
        "from numba.core.base import BaseContext as c; c.strict_alignment = 1",
        "c.strict_alignment = False",
        "numba.core.base:BaseContext.strict_alignment', 1)",
    ),
    "an item of a list": (
        "from numba.core.ir_utils import arr_math as t; old, t[0] = t[0], 'other'",
        "t[0] = old",
        "numba.core.ir_utils:arr_math', ['other', 'max'",
    ),
    "a longer list": (
        "from numba.core.ir_utils import arr_math as t; t.append('other')",
        "t.pop()",
        "'other'])]",
    ),
    "a set": (
        "from numba.core.untyped_passes import CanonicalizeLoopEntry as c; t = c._supported_globals; t.remove(zip)",
        "t.add(zip)",
        "numba.core.untyped_passes:CanonicalizeLoopEntry._supported_globals', {",
    ),
    "a table made later": (
        "from numba.np import ufunc_db as m; t = m.get_ufunc_info(np.add); old, t['dd->d'] = t['dd->d'], t['qq->q']",
        "t['dd->d'] = old",
        """_ufunc_db[<ufunc 'add'>]", [('dd->d', <function int_add_impl""",
    ),
    "a module": (
        "from numba.np import arraymath as m; old, m.operator = m.operator, m.math",
        "m.operator = old",
        "numba.np.arraymath:operator', <module 'math'",
    ),
}


@pytest.mark.parametrize("without", [{}, {"WITHOUT_NUMBERS": "1"}])
@pytest.mark.parametrize("what", CHANGES)
def test_what_is_not_what_it_was_counts_until_it_is_again(run, what, without):
    change, undo, named = CHANGES[what]
    before, found, after = run(OWN.format(change=change, undo=undo), **without)[0].splitlines()
    assert (before, after) == ("[]", "[]")
    assert found.startswith("[(")
    assert found.endswith(" True")
    assert named in found


AGAIN = """
import sys
for name in [name for name in sys.modules if name.partition(".")[0] == "numba"]:
    del sys.modules[name]
import numba
print(numba.njit(lambda x: x + 2)(1))
"""


def test_numba_may_be_imported_once_more(run):
    assert run(AGAIN) == ("3\n", "")


FLAGS = """
import nbcache.client.activation as activation
from llvmlite.binding.newpassmanagers import RefPruneSubpasses

@njit
def first(x):
    return x + 1

first(1)
for number in range(16):
    RefPruneSubpasses(number)
RefPruneSubpasses._value2member_map_[99] = 99
print(activation.session().maker.patches.look())
"""


def test_what_python_keeps_of_enumerations_is_no_change(run):
    assert run(FLAGS)[0] == "{}\n"


LATE_IMPORT = """
import sys
from numba.core import cgutils
before, old = [*sys.meta_path], cgutils.pack_array
cgutils.pack_array = cgutils.unpack_tuple
from numba.np import linalg
cgutils.pack_array = old
from nbcache.glue.identity import originals
from nbcache.glue.identity.patched import Patches

def mine(*args): ...
print(before == sys.meta_path, type(linalg.__spec__.loader).__name__, vars(linalg.__loader__).keys())
kept = originals.of("numba.np.linalg", linalg)
print(kept.late, kept.members == dict(vars(linalg)), originals.of("numba", numba).late)
"""


def test_modules_that_are_imported_later_are_copied_when_they_are_whole(run):
    assert run(LATE_IMPORT)[0].splitlines() == [
        "True SourceFileLoader dict_keys(['name', 'path'])",
        "True True False",
    ]


# What Numba takes from colorama; a stream that no process can describe is behind some of it, as there.
COLORAMA = """
import sys

__version__ = "0.4.6"

def init(out=sys.stdout): ...
def deinit(out=sys.stdout): ...
def reinit(out=sys.stdout): ...

class Colours(type):
    def __getattr__(cls, name):
        return ""

class Fore(metaclass=Colours): ...
class Style(metaclass=Colours): ...
"""
LOOKS = """
from numba.core import errors
from nbcache.glue.identity.patched import Patches

patches = Patches(0)
print(errors.deinit.__module__, sorted(patches.look()))
errors.deinit = lambda: None
print(sorted(patches.look()))
"""


def test_what_numba_imports_of_others_is_its_own(tmp_path):
    (tmp_path / "colorama.py").write_text(COLORAMA)
    (tmp_path / "main.py").write_text(LOOKS)
    done = proc.run([tmp_path / "main.py"], None, {"PYTHONPATH": str(tmp_path)})
    assert done.stdout.splitlines() == ["colorama []", "['numba.core.errors:deinit']"], done.stderr
