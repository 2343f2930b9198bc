"""What others put into Numba's modules and classes is noticed, at a look that costs next to nothing while nothing changed."""

import contextlib
import functools
import importlib.machinery
import sys
from types import ModuleType

import numpy as np
import pytest
from nbtest import proc
from numba import njit, types
from numba.core import cgutils, funcdesc, inline_closurecall, ir_utils, target_extension
from numba.core.base import BaseContext
from numba.core.cpu import CPUContext
from numba.core.registry import cpu_target
from numba.core.rewrites import static_binop
from numba.core.typing import builtins, npydecl
from numba.cpython import hashing, listobj, slicing
from numba.np import arraymath, numpy_support, ufunc_db
from numba.np.math import mathimpl
from numba.parfors import array_analysis, parfor

from nbcache.glue.identity import dictionary_changes, numba_copies, numba_patches
from nbcache.glue.identity.numba_patches import Patches

MEDIAN = "numba.np.arraymath:_median_inner"
CONSTANT = "numba.core.cpu:CPUContext.get_constant_generic"


@pytest.fixture
def just_imported():
    """What Numba's modules hold by now counts as what they held when they were imported, for this test alone."""
    with pytest.MonkeyPatch.context() as until_the_end:
        note_again(until_the_end, whole=True)
        yield


def note_again(monkeypatch, *, whole):
    monkeypatch.setattr(numba_copies, "_known", {})
    monkeypatch.setattr(numba_copies, "noted", numba_copies.Noted())
    numba_copies.note(numba_copies.of_numba(sys.modules), whole=whole)


@pytest.fixture(params=["where Python tells", "where nobody tells"])
def patches(request, monkeypatch, just_imported):
    """What is in Numba by now counts for nothing: other tests may have left something."""
    if request.param == "where nobody tells":
        monkeypatch.setattr(dictionary_changes, "_is_reliable", lambda: False)
    found = Patches()
    before = dict(found.look())

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
    assert Patches().look().get(MEDIAN) is None


@pytest.mark.parametrize("what", PUT_INTO_A_CLASS)
def test_what_is_in_the_place_of_a_method_is_noticed(patches, monkeypatch, what):
    monkeypatch.setattr(CPUContext, "get_constant_generic", PUT_INTO_A_CLASS[what], raising=False)
    assert patches() == {CONSTANT: PUT_INTO_A_CLASS[what]}


def test_what_is_put_into_a_table_of_functions_is_noticed(patches, monkeypatch):
    monkeypatch.setitem(parfor.swap_functions_map, ("sum", "numpy"), helper)
    assert patches() == {"numba.parfors.parfor:swap_functions_map": parfor.swap_functions_map}


@pytest.mark.parametrize("name", ["remove_call_handlers", "is_pure_extensions"])
def test_what_is_put_into_a_list_of_functions_is_noticed_until_it_goes(patches, monkeypatch, name):
    ours = getattr(ir_utils, name)
    assert patches() == {}
    ours.append(helper)
    try:
        assert patches() == {f"numba.core.ir_utils:{name}": ours}
    finally:
        ours.remove(helper)
    assert patches() == {}


def test_what_is_put_into_a_table_that_was_empty_is_noticed(patches, monkeypatch):
    assert patches() == {}
    monkeypatch.setitem(ir_utils.alias_func_extensions, ("dot", "numpy"), helper)
    assert patches() == {"numba.core.ir_utils:alias_func_extensions": ir_utils.alias_func_extensions}


HOLDERS = {
    "a table of functions": lambda: (parfor, "swap_functions_map"),
    "a table of functions by classes": lambda: (ir_utils, "visit_vars_extensions"),
    "a table of data": lambda: (numpy_support, "FROM_DTYPE"),
    "a table in a class": lambda: (npydecl.NumpyRulesUnaryArrayOperator, "_op_map"),
    "a list of functions": lambda: (ir_utils, "remove_call_handlers"),
    "a list of data": lambda: (array_analysis, "random_calls"),
    "a list in a class": lambda: (builtins.BinOpPower, "cases"),
    "a set": lambda: (npydecl, "supported_array_operators"),
    "a set in a class": lambda: (static_binop.DetectStaticBinops, "rhs_operators"),
    "a registry by targets": lambda: (target_extension, "jit_registry"),
    "loops of a ufunc": lambda: (ufunc_db, "_ufunc_db", np.square),
}


def held_by(owner, name, key=None):
    ufunc_db.get_ufuncs()
    module = isinstance(owner, ModuleType)
    called = f"{owner.__name__}:{name}" if module else f"{owner.__module__}:{owner.__qualname__}.{name}"
    container = getattr(owner, name)
    return (container, called) if key is None else (container[key], f"{called}[{key.__name__}]")


@pytest.mark.parametrize("what", HOLDERS)
def test_what_is_taken_out_is_noticed_until_it_is_back(patches, what):
    container, called = held_by(*HOLDERS[what]())
    assert patches() == {}
    before = container.copy()
    if isinstance(container, dict):
        container.popitem()
    else:
        container.pop()
    try:
        assert patches() == {called: container}
    finally:
        restore(container, before)
    assert patches() == {}


@pytest.mark.parametrize("what", HOLDERS)
def test_what_was_taken_out_before_the_first_look_is_noticed(just_imported, what):
    container, called = held_by(*HOLDERS[what]())
    before = container.copy()
    container.clear()
    try:
        assert Patches().look()[called] is container
    finally:
        restore(container, before)


def restore(container, before):
    container.clear()
    if type(container) is list:
        container.extend(before)
    else:
        container.update(before)


def test_one_of_numbas_functions_in_the_place_of_another_in_a_table_is_noticed(patches, monkeypatch):
    assert patches() == {}
    monkeypatch.setitem(parfor.swap_functions_map, ("sum", "numpy"), parfor.swap_functions_map["prod", "numpy"])
    assert [*patches()] == ["numba.parfors.parfor:swap_functions_map"]


@pytest.mark.parametrize("what", [name for name in HOLDERS if "loops" not in name])
def test_what_takes_the_place_of_a_container_is_noticed_until_it_goes(patches, monkeypatch, what):
    owner, name = HOLDERS[what]()
    assert patches() == {}
    monkeypatch.setattr(owner, name, other := getattr(owner, name).copy())
    assert patches() == {held_by(owner, name)[1]: other}
    monkeypatch.undo()
    assert patches() == {}


EXCHANGED = {
    "a type": lambda: (types, "intp", types.int32),
    "a value of LLVM": lambda: (cgutils, "true_bit", cgutils.false_bit),
    "a computed number": lambda: (hashing, "_PyHASH_XXPRIME_1", 5),
    "one closure for another": lambda: (mathimpl, "exp_impl", mathimpl.cos_impl),
    "what a builtin is called": lambda: (arraymath, "len", 5),
    "a module": lambda: (arraymath, "np", ModuleType("np")),
    "data of a class": lambda: (CPUContext, "strict_alignment", True),
    "data that a class inherits": lambda: (CPUContext, "implement_powi_as_math_call", True),
    "data of an object's class": lambda: (cpu_target.target_context, "strict_alignment", True),
}


@pytest.mark.parametrize("what", EXCHANGED)
def test_data_that_takes_the_place_of_numbas_is_noticed_until_it_goes(patches, monkeypatch, what):
    owner, name, value = EXCHANGED[what]()
    assert patches() == {}
    monkeypatch.setattr(owner, name, value, raising=False)
    assert [*patches().values()] == [value]
    monkeypatch.undo()
    assert patches() == {}


@pytest.mark.parametrize("name", ["get_constant_generic", "call_internal"])
def test_a_method_that_somebody_takes_away_is_noticed_until_it_is_back(patches, monkeypatch, name):
    assert patches() == {}
    monkeypatch.delattr(BaseContext, name)
    assert [*patches()] == [f"numba.core.base:BaseContext.{name}"]
    monkeypatch.undo()
    assert patches() == {}


@pytest.mark.parametrize(
    "find",
    [
        lambda: cpu_target.typing_context,
        lambda: cpu_target.typing_context.tm,
        lambda: cpu_target.target_context,
        lambda: cpu_target.target_context.data_model_manager,
        lambda: cpu_target.target_context.codegen(),
    ],
    ids=["typing", "conversions", "target", "data models", "code generator"],
)
def test_what_is_set_on_a_context_or_a_part_of_it_is_noticed_until_it_goes(patches, monkeypatch, find):
    context = find()
    name = f"{type(context).__module__}:{type(context).__qualname__}"
    assert patches() == {}
    monkeypatch.setattr(context, "refresh", helper, raising=False)
    assert patches() == {f"{name}[refresh]": helper}
    monkeypatch.undo()
    assert Patches().look().get(f"{name}[refresh]") is None


def test_what_is_put_into_a_table_of_tables_is_noticed(patches, monkeypatch):
    of_square = ufunc_db.get_ufunc_info(np.square)
    assert patches() == {}
    monkeypatch.setitem(of_square, "d->d", helper)
    assert patches() == {"numba.np.ufunc_db:_ufunc_db[square]": of_square}


def test_what_takes_the_place_of_a_table_in_a_table_is_noticed(patches, monkeypatch):
    ufunc_db.get_ufuncs()
    assert patches() == {}
    monkeypatch.setitem(ufunc_db._ufunc_db, np.square, {"d->d": helper})
    assert patches() == {"numba.np.ufunc_db:_ufunc_db": ufunc_db._ufunc_db}


class Unequal:
    def __eq__(self, other):
        raise AssertionError(other)

    __hash__ = __repr__ = None


ONE_FOR_ANOTHER = {
    "a function": (slicing, "get_slice_length", slicing.fix_slice),
    "a function of another module": (slicing, "get_slice_length", listobj.get_itemsize),
    "a method": (CPUContext, "get_data_type", CPUContext.call_function_pointer),
    "a method of another class": (CPUContext, "get_ufunc_info", BaseContext.get_constant_undef),
    "a static method": (CPUContext, "get_constant_undef", staticmethod(arraymath.np_median)),
    "a method that hides another class's": (CPUContext, "get_constant_undef", BaseContext.get_constant_null),
    "a class": (inline_closurecall, "RewriteArrayOfConsts", parfor.Parfor),
    "what is imported": (slicing, "impl_ret_borrowed", listobj.get_itemsize),
    "what has two names": (cgutils, "is_true", cgutils.is_scalar_zero),
    "a number that is imported": (funcdesc, "_dynamic_modname", "elsewhere"),
    "a number": (inline_closurecall, "enable_inline_arraycall", False),
    "a number that hides another class's": (CPUContext, "strict_alignment", True),
    "a number of a class": (CPUContext, "allow_dynamic_globals", False),
    "a number of NumPy's": (CPUContext, "allow_dynamic_globals", np.int64(0)),
    "a tuple": (inline_closurecall, "enable_inline_arraycall", (Unequal(),)),
    "another kind of number": (CPUContext, "allow_dynamic_globals", 1),
}


@pytest.mark.parametrize("what", ONE_FOR_ANOTHER)
def test_what_is_numbas_in_the_place_of_something_else_is_noticed(patches, monkeypatch, what):
    owner, name, value = ONE_FOR_ANOTHER[what]
    module = isinstance(owner, ModuleType)
    called = f"{owner.__name__}:{name}" if module else f"{owner.__module__}:{owner.__qualname__}.{name}"
    assert patches() == {}
    monkeypatch.setattr(owner, name, value)
    assert patches() == {called: vars(owner)[name]}


def test_what_numba_has_itself_is_not_others(patches, monkeypatch):
    monkeypatch.setattr(arraymath, "made", exec_in_numba("def made(): pass"), raising=False)
    assert patches() == {}


def exec_in_numba(text):
    made = {}
    exec(text, vars(arraymath), made)
    return made["made"]


def test_after_an_exception_all_is_looked_at_again(patches, monkeypatch):
    class Lies:
        @property
        def __class__(self):
            raise RuntimeError("unbound")

    assert patches() == {}
    with monkeypatch.context() as passing:
        passing.setattr(numba_patches, "_counts", lambda *_args: 1 / 0)
        passing.setattr(arraymath, "_median_inner", len)
        with pytest.raises(ZeroDivisionError):
            patches()
        passing.setattr(numba_patches, "_counts", lambda *_args: True)
        assert [*patches()] == [MEDIAN]
    monkeypatch.setattr(arraymath, "proxy", Lies(), raising=False)
    vars(arraymath)[1] = 2
    try:
        monkeypatch.setattr(arraymath, "_median_inner", helper)
        assert patches() == {MEDIAN: helper}
    finally:
        del vars(arraymath)[1]


def test_a_method_that_is_put_back_where_it_was_inherited_is_no_change(patches, monkeypatch):
    assert "unify" not in vars(types.Boolean)
    monkeypatch.setattr(types.Boolean, "unify", types.Boolean.unify, raising=False)
    assert patches() == {}


def test_what_another_thread_imports_is_noted_when_that_is_over(monkeypatch):
    part = ModuleType("numba.core.part")
    part.__spec__ = importlib.machinery.ModuleSpec(part.__name__, None)
    part.__spec__._initializing = True
    monkeypatch.setitem(sys.modules, part.__name__, part)
    found = Patches()
    found.look()
    assert part not in noted_things()
    part.__spec__._initializing = False
    found.look()
    assert part in noted_things()


def noted_things():
    return [each.thing for each in numba_copies.noted.tables if isinstance(each, numba_copies.Owner)]


def test_a_second_thing_in_the_same_place_is_another(patches, monkeypatch):
    def other():
        return 2.0

    monkeypatch.setattr(arraymath, "_median_inner", helper)
    first = patches()
    monkeypatch.setattr(arraymath, "_median_inner", other)
    assert (first, patches()) == ({MEDIAN: helper}, {MEDIAN: other})


def test_members_are_looked_at_where_something_changed(monkeypatch):
    found, looks, usual = Patches(), [], numba_patches._changes_in
    found.look()
    monkeypatch.setattr(numba_patches, "_changes_in", lambda table: [looks.append(table.label), *usual(table)][1:])
    found.look()
    assert looks == []
    monkeypatch.setattr(arraymath, "_median_inner", helper)
    found.look()
    assert looks == ["numba.np.arraymath:"]
    found.look()
    assert looks == ["numba.np.arraymath:"]


def test_what_numba_changes_in_its_caches_is_nobodys(monkeypatch):
    """Who enables nbcache late finds caches that are filled: they go on being filled."""
    note_again(monkeypatch, whole=False)
    names = {each.label for each in numba_copies.noted.tables if isinstance(each, numba_copies.Container)}
    assert "numba.parfors.parfor:swap_functions_map" in names
    assert not names & {"numba.core.errors:loc_info", "numba.core.serialize:_unpickled_memo"}


HARMLESS = {
    "types by another way": "from numba.types import int64",
    "modules below Numba's types": "import numba.types, warnings; warnings.simplefilter('ignore'); warnings.own = len",
    "copies of types": "import copy, pickle; [pickle.dumps(copy.deepcopy(each)) for each in vars(types).values() if isinstance(each, types.Type)]",
    "what is written about them": "import pydoc, llvmlite.ir; pydoc.render_doc(types); pydoc.render_doc(llvmlite.ir.types)",
    "members": "import inspect; [inspect.getmembers(each) for each in vars(types).values()]",
    "llvmlite's tests": "import llvmlite.tests",
    "a mock that is gone": "from unittest.mock import patch\nwith patch('numba.core.ir_utils.mk_unique_var'): pass",
}


@pytest.mark.every(36)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("what", HARMLESS)
def test_what_changes_nothing_is_no_change_by_others(tmp_path, what, when):
    first = LOOK if when == "after" else ""
    code = f"from numba import types, njit\n{first}\n{HARMLESS[what]}\n{LOOK}"
    outcome = proc.run(["-c", code], tmp_path / "store", cwd=tmp_path)
    assert (outcome.status, set(outcome.stdout.split("\n"))) == (0, {"{}", ""}), outcome.stderr


LOOK = """
njit(lambda x: x + 1)(1)
from nbcache.client import activation
print(activation._active.maker.patches.look())
"""
PRISTINE = """
import importlib.util
from nbcache.glue.identity import numba_copies
from nbcache.glue.identity.numba_patches import Patches
cpu_target = __import__("numba.core.registry", fromlist=["x"]).cpu_target
cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
import numba.typed, numba.experimental, numba.stencils, numba.misc.coverage_support
if importlib.util.find_spec("setuptools"):  # Python 3.12 and newer come without
    import numba.pycc
@njit(parallel=True)
def f(a):
    return np.median(a) + np.sort(a)[0]
f(np.arange(9.0))
patches = Patches()
print(sorted(patches.look()), len(numba_copies.noted.tables) > 1000)
"""


@pytest.mark.long
def test_nothing_of_others_is_in_numba(run):
    assert run(PRISTINE)[0] == "[] True\n"


LATE = """
import os, sys
from numba.np import arraymath, ufunc_db
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


@pytest.mark.long
def test_a_callee_from_before_the_patch_is_not_one_from_after_it(run):
    said = [run(LATE, WHEN=when)[0].split()[:2] for when in ("late", "early", "never", "early")]
    assert said == [["5.0", "6.0"], ["1000.0", "1001.0"], ["5.0", "6.0"], ["1000.0", "1001.0"]]


REFUSED = """
import os
from numba import vectorize
from numba.core.cpu import CPUContext
from numba.core.registry import cpu_target
original, null = CPUContext.get_constant_generic, open(os.devnull)
def constant(self, builder, ty, val):
    if not null.closed:
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
from nbcache.glue.identity.numba_patches import Patches

patches = Patches()
print(errors.deinit.__module__, sorted(patches.look()))
errors.deinit = lambda: None
print(sorted(patches.look()))
"""


def test_what_numba_imports_of_others_is_its_own(tmp_path):
    (tmp_path / "colorama.py").write_text(COLORAMA)
    (tmp_path / "main.py").write_text(LOOKS)
    done = proc.run([tmp_path / "main.py"], None, {"PYTHONPATH": str(tmp_path)})
    assert done.stdout.splitlines() == ["colorama []", "['numba.core.errors:deinit']"], done.stderr


ALIASED = """
import sys, warnings
from numba import njit, np
from numba.core import boxing

sys.modules.setdefault("numba.core.boxing.sys", sys)
sys.modules.setdefault("numba.core.boxing.warnings", warnings)
stream = open(__file__)
sys.excepthook = warnings.showwarning = lambda *_: stream

@njit
def f(x):
    return x + 1

print(f(1))
"""


def test_modules_of_python_below_numbas_names_are_not_numbas(run):
    """As Numba 0.61 registers them."""
    run(ALIASED)
    said, complaints = run(ALIASED + "import nbcache\nprint(nbcache.stats()['hit_count'])\n")
    assert (said, complaints) == ("2\n1\n", "")
