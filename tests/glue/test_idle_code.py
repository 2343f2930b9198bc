"""What an installed package's code could do while something compiles counts where it does it, and nowhere else."""

import sys

import pytest
from nbtest import proc
from nbtest.records import row

HELPERS = """
from numba import njit
from paket import settings

streams = (number for number in range(3))  # nothing can identify a generator

def mode():
    return settings.MODE

def compiled(x):
    return x + 1000 * settings.MODE

def _jitted(x):
    return x + 1000 * settings.MODE

jitted = njit(_jitted)

def width():
    return settings.WIDTH

def name():
    return settings.NAME
"""
TYPES = """
from numba import types
from numba.core.imputils import lower_getattr
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import NativeValue, intrinsic, models, overload, register_model, typeof_impl, unbox
from numba.core import cgutils

from paket import helpers


class Point:
    def __init__(self, x):
        self.x = x

    def streams(self):
        return helpers.streams, self.more

    @property
    def more(self):
        return helpers.streams


class PointType(types.Type):
    instance_class = Point

    def __init__(self):
        super().__init__(name="Point")
        self.known = {}

    def streams(self):
        return helpers.streams

    @property
    def code(self):
        return helpers.mode()


point_type = PointType()


@typeof_impl.register(Point)
def typeof_point(value, c):
    return point_type


@register_model(PointType)
class PointModel(models.StructModel):
    def __init__(self, dmm, fe_type):
        models.StructModel.__init__(self, dmm, fe_type, [("x", types.int64), *wider()])


def wider():
    return [(f"more{number}", types.int64) for number in range(helpers.width())]


@unbox(PointType)
def unbox_point(typ, obj, c):
    proxy = cgutils.create_struct_proxy(typ)(c.context, c.builder)
    value = c.pyapi.object_getattr_string(obj, "x")
    proxy.x = c.pyapi.long_as_longlong(value)
    c.pyapi.decref(value)
    return NativeValue(proxy._getvalue(), is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))


@infer_getattr
class PointAttributes(AttributeTemplate):
    key = PointType

    def generic_resolve(self, typ, attribute):
        return types.int64 if attribute in {"x", "mode", "size", "inner", "called"} else None


@lower_getattr(PointType, "x")
def lower_x(context, builder, typ, value):
    return cgutils.create_struct_proxy(typ)(context, builder, value=value).x


@lower_getattr(PointType, "mode")
def lower_mode(context, builder, typ, value):
    def read(x):
        return x + 1
    x = context.compile_internal(builder, read, types.int64(types.int64), (lower_x(context, builder, typ, value),))
    return builder.add(x, context.get_constant(types.int64, 1000 * typ.code))


@lower_getattr(PointType, "inner")
def lower_inner(context, builder, typ, value):
    x = lower_x(context, builder, typ, value)
    return context.compile_internal(builder, helpers.compiled, types.int64(types.int64), (x,))


@lower_getattr(PointType, "called")
def lower_called(context, builder, typ, value):
    jitted = helpers.jitted
    def call(x):
        return jitted(x)
    x = lower_x(context, builder, typ, value)
    return context.compile_internal(builder, call, types.int64(types.int64), (x,))


@lower_getattr(PointType, "size")
def lower_size(context, builder, typ, value):
    return context.get_constant(types.int64, context.get_abi_sizeof(context.get_data_type(typ)))


@intrinsic
def _point(typingctx, x):
    def make(context, builder, signature, args):
        proxy = cgutils.create_struct_proxy(point_type)(context, builder)
        proxy.x, = args
        return proxy._getvalue()
    return point_type(types.int64), make


def point(x):
    return Point(x)


@overload(point)
def point_in_compiled_code(x):
    def make(x):
        return _point(x)
    return make
"""
PROGRAM = """
import os, sys
import nbcache
from numba import njit
from paket import settings, types
BEFORE
@njit
def first(point):
    return point.x
@njit
def second(point):
    return point.READ
x = first(types.Point(5))
BETWEEN
print(x, second(types.Point(5)))
SAY"""
SAY = """
stats = nbcache.stats()
print(stats["builds_count"], sorted(stats["uncacheable"]), file=sys.stderr)
"""
MET_INSIDE = """
import sys
import nbcache
from numba import njit
from paket import types
@njit
def one(x):
    return types.point(x).mode
@njit
def two(x):
    return types.point(x + 1).inner
@njit
def three(x):
    return types.point(x + 2).called
print(one(5), two(5), three(5))
SAY"""
MANY = """
import sys
import nbcache
from numba import njit
from paket import types
found = []
for number in range(8):
    @njit
    def read(point):
        return point.mode + number
    found.append(read(types.Point(5)))
print(*found)
SAY"""


BESIDE = """
import sys
import nbcache
from numba import njit
from paket import types
for number in range(3):
    @njit
    def read(point):
        return point.mode + number
    read(types.Point(5))
@njit
def plain(x):
    return x + 1
before = nbcache.stats()["builds_count"]
print(plain(5), nbcache.stats()["builds_count"] - before)
SAY"""


@pytest.fixture
def town(tmp_path, request):
    site = tmp_path / "site"
    (site / "paket").mkdir(parents=True)
    (site / "paket-1.0.dist-info").mkdir()
    modules = {
        "__init__": "",
        "settings": "MODE, WIDTH = 1, 0\n",
        "helpers": getattr(request, "param", HELPERS),
        "types": TYPES,
    }
    rows = ["paket-1.0.dist-info/RECORD,,"]
    for name, text in modules.items():
        (site / "paket" / f"{name}.py").write_text(text)
        rows.append(row(f"paket/{name}.py", text.encode()))
    (site / "paket-1.0.dist-info" / "RECORD").write_text("\n".join([*rows, ""]))

    def said(before="", read="mode", store=tmp_path / "store", wrapped=(), between="", program=PROGRAM):
        """What the program prints, how much it compiled, and why something was not cached."""
        main = tmp_path / "main.py"
        text = program.replace("SAY", SAY).replace("BEFORE", before).replace("READ", read)
        main.write_text(text.replace("BETWEEN", between))
        outcome = proc.run([*wrapped, main], store, {"PYTHONPATH": str(site)})
        assert outcome.status == 0, outcome.stderr
        compiled, _, reasons = outcome.stderr.splitlines()[-1].partition(" ")
        return outcome.stdout.splitlines()[0], int(compiled), reasons

    return said


def test_what_does_not_run_leads_nowhere(town):
    printed, compiled, reasons = town()
    assert (printed, reasons) == ("5 1006", "[]")
    assert compiled >= 2
    assert town() == ("5 1006", 0, "[]")


HANDED_ON = HELPERS.replace("return settings.MODE", "return settings.MODE + 0 * int(root(numpy))").replace(
    "streams = (number for number in range(3))  # nothing can identify a generator",
    """import numpy

def root(library):
    return library.sqrt(4.0)

def streams(library):
    return library.array_str(library.zeros(3))
""",
)
"""The way in which packages write for several libraries of arrays. NumPy's function depends on the print options."""
ABSTRACT = (
    HELPERS
    + """
import abc

class Base(abc.ABC):
    @abc.abstractmethod
    def more(self):
        return streams

    @property
    @abc.abstractmethod
    def streams(self):
        return streams
"""
)


@pytest.mark.parametrize("town", [HANDED_ON], indirect=True)
def test_what_could_be_read_off_a_module_by_what_does_not_run_is_not_read(town):
    printed, _compiled, reasons = town()
    assert (printed, reasons) == ("5 1006", "[]")
    assert town() == ("5 1006", 0, "[]")


@pytest.mark.parametrize("town", [ABSTRACT], indirect=True)
def test_abstract_methods_lead_nowhere_either(town):
    before = "types.Point.base = types.helpers.Base"
    assert town(before)[::2] == ("5 1006", "[]")
    assert town(before) == ("5 1006", 0, "[]")


NAMED_BY_FUNCTIONS = """
import sys
import nbcache
from numba import njit, types as numba_types
from numba.core import cgutils
from numba.extending import intrinsic
from paket import helpers, types
table = {("width", helpers.width): [helpers.mode], "compiled": helpers.compiled, "own": lambda: 3}
def make(self):
    numba_types.Type.__init__(self, name=f"Point({table})")
    self.known = table
types.PointType.__init__ = make
@intrinsic
def point(context, x):
    def make(context, builder, signature, args):
        proxy = cgutils.create_struct_proxy(signature.return_type)(context, builder)
        proxy.x, = args
        return proxy._getvalue()
    return types.PointType()(numba_types.int64), make
@njit
def inner(point):
    return point.x
@njit
def outer(x):
    return inner(point(x))
print(outer(5))
SAY"""


def test_a_type_that_is_named_by_functions_is_found_by_those_of_the_next_process(town):
    """As Awkward's arrays are by their behavior: what Python writes for a function is an address."""
    printed, compiled, reasons = town(program=NAMED_BY_FUNCTIONS)
    assert (printed, reasons) == ("5", "[]")
    assert compiled >= 2
    assert town(program=NAMED_BY_FUNCTIONS) == ("5", 0, "[]")


CALLED = """
import sys
import nbcache
from numba import njit
from paket import helpers, types
@njit
def one(point):
    return point.mode
@njit
def two(point):
    return point.mode + 1
print(helpers.call(one, types.Point(5)), helpers.call(two, types.Point(5)))
SAY"""
CALLS = (
    HELPERS.replace("return settings.MODE", "return settings.MODE or call")
    + """
def call(function, point):
    return function(point) if streams else None
"""
)


@pytest.mark.parametrize("town", [CALLS], indirect=True)
def test_who_calls_a_compilation_does_not_run_while_it_goes_on(town):
    assert town(program=CALLED)[::2] == ("1006 1007", "[]")
    assert town(program=CALLED) == ("1006 1007", 0, "[]")


@pytest.mark.every(4)
@pytest.mark.parametrize(
    ("before", "read"),
    [
        ("settings.MODE = 2", "mode"),
        ("settings.WIDTH = 3", "size"),
        ("settings.MODE = 2", "inner"),
        ("settings.MODE = 2", "called"),
    ],
    ids=[
        "read by a method of the type",
        "read for the model, which Numba keeps",
        "read by what is compiled for it",
        "read by a dispatcher that this calls",
    ],
)
def test_what_runs_counts_by_what_it_reads(town, before, read):
    right = [town(each, read, store=None)[0] for each in ("", before)]
    assert right[0] != right[1]
    for _ in range(2):
        assert [town(each, read)[0] for each in ("", before)] == right
    assert [town(each, read)[1] for each in ("", before)] == [0, 0]


KNOWN = HELPERS.replace("(number for number in range(3))  # nothing can identify a generator", "3")


@pytest.mark.long
@pytest.mark.parametrize("town", [HELPERS, KNOWN], ids=["marked", "known"], indirect=True)
def test_a_model_that_was_made_under_another_setting_is_nobody_elses(town):
    """Numba keeps it, so a program that changes the setting later compiles what no other process would."""
    right = town("settings.WIDTH = 3", "size", store=None)[0]
    assert town(between="settings.WIDTH = 3", read="size")[0] == town(store=None, read="size")[0] != right
    for _ in range(2):
        assert town("settings.WIDTH = 3", "size")[0] == right
    assert town("settings.WIDTH = 3", "size")[1] == 0


@pytest.mark.long
def test_a_package_that_is_met_inside_a_compilation_costs_the_next_process_one_more(town):
    """The function that led there was identified before; all others are found."""
    printed, compiled, _reasons = town(program=MET_INSIDE)
    assert printed == town(store=None, program=MET_INSIDE)[0]
    assert compiled >= 4
    again = town(program=MET_INSIDE)
    assert (again[0], again[2]) == (printed, "[]")
    assert again[1] <= 1
    assert town(program=MET_INSIDE) == (printed, 0, "[]")


FILLS_IN = HELPERS.replace(
    "return settings.MODE",
    "from paket import types; known = types.point_type.known; known[len(known)] = 1; return settings.MODE",
)
"""As geometric algebras do, whose types keep what was computed from them."""


@pytest.mark.long
@pytest.mark.parametrize("town", [FILLS_IN], indirect=True)
def test_what_is_marked_in_vain_is_opaque_from_then_on(town):
    """Each compilation changes what the next one depends on: to follow it costs time and comes to nothing."""
    printed = town(store=None, program=MANY)[0]
    first, second, third = (town(program=MANY) for _ in range(3))
    assert [each[0] for each in (first, second, third)] == [printed] * 3
    assert "changed since" in first[2]
    assert "generator" in first[2], "not given up in the process that finds out"
    assert second[1:] == third[1:]
    assert "changed" not in second[2]
    assert "generator" in second[2]


@pytest.mark.long
@pytest.mark.parametrize("town", [FILLS_IN], indirect=True)
def test_what_has_nothing_to_do_with_a_package_that_changes_is_found(town):
    printed, _compiled, reasons = town(program=BESIDE)
    assert printed == "6 1"
    assert "changed since" in reasons
    assert town(program=BESIDE)[0] == "6 0"


@pytest.mark.long
def test_where_nobody_can_note_what_runs_nothing_is_stored(town):
    watched = ["-m", "cProfile"] if sys.version_info < (3, 12) else ["-c", TOOLS]
    printed, compiled, reasons = town(wrapped=watched)
    assert printed == "5 1006"
    assert compiled >= 2
    assert "of which nobody could note whether it runs" in reasons
    assert town()[1] >= 2
    assert town() == ("5 1006", 0, "[]")


@pytest.mark.long
def test_a_profiler_in_c_goes_on(town):
    """That of nbcache takes the place of one that `sys.getprofile` doesn't tell of, as yappi's."""
    assert town(wrapped=["-c", PROFILER])[0] == "profiled"


PROFILER = """
import ctypes, runpy, sys, threading
seen = []
kind = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.py_object, ctypes.c_int, ctypes.c_void_p)
@kind
def profile(_, frame, what, arg):
    seen.append(frame.f_code.co_name)
    return 0
def after():
    pass
class Output(list):
    def write(self, text): self.append(text)
    def flush(self): pass
sys.argv = sys.argv[1:]
printed, sys.stdout = sys.stdout, Output()
set_profile = ctypes.pythonapi.PyEval_SetProfile
set_profile.argtypes = kind, ctypes.c_void_p
threading.setprofile(lambda *_: None)
set_profile(profile, None)
runpy.run_path(sys.argv[0], run_name="__main__")
after()
set_profile(kind(), None)
print("profiled" if "after" in seen else "lost", file=printed, flush=True)
"""


TOOLS = """
import runpy, sys
for tool in (3, 4):
    sys.monitoring.use_tool_id(tool, "mine")
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
