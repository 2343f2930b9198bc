"""Which signature a call takes: what Numba's own dispatcher would choose, or a TypeError where it raises one."""

import itertools

import pytest
from nbtest.published import accumulator, node
from numba import types
from numba.core.registry import cpu_target

from nbcache.protocol.manifests import SCALARS
from nbcache.published import argtypes

SOURCES = (*SCALARS, "float16")
SCALAR_TYPES = {name: getattr(types, "boolean" if name == "bool" else name) for name in SOURCES}

PROGRAM = """
import enum, itertools, json, os
import numpy as np
from collections import namedtuple
from typing import NamedTuple
from numba import njit, types
from numba.core.errors import NumbaError

def echo(a, b):
    return b, a

def alone(a):
    return a

def first(record):
    return record.a

SETS = {sets}
VALUES = [
    True, 1, -1, 2**40, 1.5, 1e300, 2j, None, "text", b"bytes",
    np.int8(3), np.uint8(200), np.int32(7), np.uint64(2**63), np.float32(0.5), np.float64(2.5), np.complex64(1j), np.bool_(False),
    (1, 2.5), (1, 2), (1.5,), (1, (2, 3.5)), (), [1], {{1: 2}},
    np.ones(3), np.ones(3, "f4"), np.ones((2, 2)), np.ones((2, 2), order="F"), np.ones(6)[::2], np.ones(3, ">f8"), np.ones((1, 3)),
    np.arange(3), np.array(1.0), np.array(["a"]), np.ones(3).view(np.recarray), np.ones((2, 4))[:, ::2],
    np.longlong(3), np.ulonglong(2**63), np.str_("text"), np.ones(3, "q"),
    np.datetime64(3, "s"), np.datetime64(3, "ns"), np.timedelta64(3, "s"), object(),
]
class Made(NamedTuple):
    # A member of an enumeration that nobody has seen: what Numba has once converted it converts elsewhere, too.
    bases: tuple
    values: tuple
    def __call__(self):
        return next(iter(type(self.bases[-1])("Made", self.bases, members(self))))

def members(made):
    found = type(made.bases[-1]).__prepare__("Made", made.bases)
    for n, each in enumerate(made.values):
        found[f"V{{n}}"] = each
    return found

class Whatever(int):
    pass

def records(fields, **more):
    return np.zeros(2, np.dtype(fields, **more))[1]

INT = (enum.IntEnum,)
VALUES += [
    Made(INT, (1, 5)), Made(INT, (2**63,)), Made(INT, (1, 2**63)), Made(INT, (-3,)), Made((enum.IntFlag,), (1, 2)), Made((enum.Enum,), (1,)),
    Made((int, enum.Enum), (1,)), Made((float, enum.Enum), (1.5,)), Made((str, enum.Enum), ("one",)), Whatever(3), np.float16(0.5),
    Whatever(2**63 - 1), Whatever(2**63), Whatever(2**64), Whatever(-2**63), Made((int, enum.Enum), (2**63,)), Made(INT, (-2**63,)),
]
NARROW = [("a", "i4"), ("b", "f8")]
VALUES += [
    records(NARROW), records([*NARROW, ("c", "i2")]), records([*NARROW, ("c", "g")]), records([*NARROW, ("c", ">i2")]), records([("a", "i4")]),
    records([*NARROW, ("c", NARROW), ("d", "f4", 2), ("e", "U3"), ("f", "M8[s]")]), records([*NARROW, ("c", "M8[25s]")]), records([("b", "f8"), ("a", "i4")]),
    records(NARROW, align=True), records([("a", "i4"), ("c", "f8"), ("b", "i2")]), records([("a", "i4", 1), ("b", "f8")]), records([(("t", "a"), "i4"), ("b", "f8")]),
    records({{"names": ["b", "a", "c"], "formats": ["f8", "i4", "i1"], "offsets": [4, 0, 12], "itemsize": 24}}),
]
VALUES += [
    np.ones(3, "f2"),
    np.ones(3)[::-1], np.ones((2, 3)).T, np.ones((3, 2, 2))[1], np.ones((3, 4))[:, 1], np.ones((3, 4))[1:, 1:], np.ones(6)[2:5],
    np.broadcast_to(1.0, (3,)), np.ones(0), np.ones((0, 3)), np.ones((2, 3))[:, :0], np.ones(3)[:, None], np.ones(3)[None, :],
]
# Numba takes records for what it has seen of the same places, so these are aligned wherever they are.
PAIR = np.dtype([("a", "f8"), ("b", "f8")], align=True)
VALUES += [np.zeros(3, kind)[::step] for kind in (NARROW, np.dtype(NARROW, align=True), PAIR) for step in (1, 2)]
locked = np.ones(3); locked.flags.writeable = False
VALUES.append(locked)
if {unaligned}:
    # Alone: Numba takes unaligned arrays, but it takes them for what it has seen of swapped bytes, and the other way round.
    unaligned = np.zeros(25, "u1")[1:].view("f8"); unaligned[:] = 1, 2, 3
    VALUES = [1, unaligned, 2, unaligned[::-1], np.zeros(33, "u1")[1:].view("f8").reshape(2, 2).T, unaligned[:, None], 3.5]

def call(function, args):
    try:
        found = function(*args)
    except (TypeError, NumbaError, ValueError, OverflowError, NotImplementedError) as exc:
        if "'Conversion' and 'NoneType'" in str(exc):
            return None  # Numba 0.61 fails while it compares a member of an IntEnum with a type that takes none
        # Numba tells what it can't type by other classes than what it can't match.
        return "refused" if not isinstance(exc, OverflowError) else "overflow"
    return [str(type(x)) + (str(x.dtype) + str(x.flags.c_contiguous) if isinstance(x, np.ndarray) else repr(x)) for x in (found if isinstance(found, tuple) else (found,))]

for n, (which, signatures) in enumerate(SETS):
    function = njit(globals()[which])
    for signature in signatures:
        function.compile(signature)
    function.disable_compile()
    nbcache.publish(f"f{{n}}", function)
    published = nbcache.load(f"f{{n}}")
    calls = [(v,) for v in VALUES] if which != "echo" else list(itertools.product(VALUES[::2], VALUES[1::3]))
    for args in calls:
        args = tuple(each() if isinstance(each, Made) else each for each in args)
        theirs, ours = call(function, args), call(published, args)
        if theirs not in (None, ours):
            print(signatures, args, "Numba:", theirs, "published:", ours)
"""
OF_RECORDS = (
    "(Array(Record([('a', {{'type': {}, 'offset': 0}}), ('b', {{'type': float64, 'offset': {}}})], {}), 1, '{}'),)"
)
SETS = [
    ("alone", [OF_RECORDS.format("int32", 4, "12, False", layout) for layout in "AC"]),
    ("alone", [OF_RECORDS.format("float64", 8, "16, True", layout) for layout in "AC"]),
    ("alone", ["(i8,)"]),
    ("alone", ["(f8,)", "(i8,)"]),
    ("alone", ["(f4,)", "(c16,)"]),
    ("alone", ["(u1,)", "(b1,)"]),
    ("alone", ["(u8,)", "(i8,)"]),
    ("first", ["(Record([('a', {'type': int32, 'offset': 0}), ('b', {'type': float64, 'offset': 4})], 12, False),)"]),
    ("alone", ["(f8[:],)", "(f8[::1],)", "(f8[:,::1],)"]),
    ("alone", ["(Array(float64, 1, 'A', readonly=True),)", "(f8[::1,:],)"]),
    ("alone", ["(optional(f8),)"]),
    ("alone", ["(unicode_type,)", "(none,)"]),
    ("alone", ["(Tuple((i8, f8)),)", "(UniTuple(f8, 2),)"]),
    ("alone", ["(NPDatetime('s'),)", "(NPTimedelta('s'),)"]),
    ("echo", ["(i8, f8)", "(f8, i8)"]),
    ("echo", ["(f8[:], f8)", "(f8, f8[:])", "(i8, i8)"]),
    ("echo", ["(f8[:], optional(i8))", "(c16, none)"]),
]


@pytest.mark.long
@pytest.mark.parametrize("unaligned", [False, True])
def test_calls_are_answered_as_by_a_dispatcher_that_may_not_compile(tmp_path, way, unaligned):
    program = PROGRAM.format(sets=SETS, unaligned=unaligned)
    outcome = accumulator(tmp_path / "store", program, tmp_path, NBCACHE_LOG="ERROR")
    assert outcome.stdout == ""


@pytest.mark.parametrize("pair", list(itertools.product(SOURCES, SCALARS)), ids="-".join)
def test_scalars_convert_as_numba_has_it(pair):
    cpu_target.typing_context.refresh()
    wanted = cpu_target.typing_context.can_convert(*(SCALAR_TYPES[name] for name in pair))
    ranks = {"exact": argtypes.EXACT, "promote": argtypes.PROMOTE, "safe": argtypes.SAFE, "unsafe": argtypes.UNSAFE}
    assert argtypes.conversion(*((name,) for name in pair)) == (None if wanted is None else ranks[wanted.name])


@pytest.mark.every(2)
def test_a_class_whose_fields_have_another_order_by_now_is_another_one(tmp_path, way):
    module = """
from typing import NamedTuple

class Point(NamedTuple):
    FIRST: float
    SECOND: float
"""
    (tmp_path / "points.py").write_text(module.replace("FIRST", "x").replace("SECOND", "y"))
    (tmp_path / "functions.py").write_text("from numba import njit\n\n@njit\ndef x_of(p):\n    return p.x\n")
    publish = """
import functions, points
functions.x_of(points.Point(1.0, 2.0))
nbcache.publish("x_of", functions.x_of)
"""
    accumulator(tmp_path / "store", publish, tmp_path)
    call = """
import points
try:
    print(nbcache.load("x_of")(points.Point(x=1.0, y=2.0)))
except TypeError as exc:
    print(exc)
"""
    assert node(tmp_path / "store", call, tmp_path).stdout == "1.0\n"
    # Longer as well: bytecode is as old as the source to the second, and of its size.
    (tmp_path / "points.py").write_text(module.replace("FIRST", "y").replace("SECOND", "x") + "\n# of today\n")
    said = "x_of was not published for (Point(y: float64, x: float64)): it takes (Point(x: float64, y: float64))\n"
    assert node(tmp_path / "store", call, tmp_path).stdout == said


@pytest.mark.long
def test_a_result_whose_class_has_its_fields_in_another_order_by_now_is_not_made(tmp_path, way):
    """Compiled code fills it by position."""
    module = """
from typing import NamedTuple

class Point(NamedTuple):
    FIRST: float
    SECOND: float
"""
    (tmp_path / "points.py").write_text(module.replace("FIRST", "x").replace("SECOND", "y"))
    functions = "import points\nfrom numba import njit\n\n@njit\ndef point(x):\n    return points.Point(x, 2 * x)\n"
    (tmp_path / "functions.py").write_text(functions)
    publish = 'import functions\nfunctions.point(1.0)\nnbcache.publish("point", functions.point)\n'
    accumulator(tmp_path / "store", publish, tmp_path)
    call = """
from nbcache.errors import PublicationError
try:
    print(nbcache.load("point")(1.0))
except PublicationError as exc:
    print(exc)
"""
    assert node(tmp_path / "store", call, tmp_path).stdout == "Point(x=1.0, y=2.0)\n"
    # Longer as well: bytecode is as old as the source to the second, and of its size.
    (tmp_path / "points.py").write_text(module.replace("FIRST", "y").replace("SECOND", "x") + "\n# of today\n")
    assert (
        "points:Point had the fields (x, y) where it was published, and here (y, x)"
        in node(tmp_path / "store", call, tmp_path).stdout
    )
    (tmp_path / "points.py").write_text("import numba\n" + module.replace("FIRST", "x").replace("SECOND", "y"))
    said = node(tmp_path / "store", call, tmp_path).stdout
    assert "it makes a points:Point, which can't be imported here (" in said
    assert "define it in a module that can be imported without Numba, or return" in said
