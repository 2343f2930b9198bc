"""Of a class that compiled code has values of counts what Numba reads of them, and of what runs while compiling all of it."""

import collections
import ctypes
import enum
import typing

import pytest

from nbcache.glue.identity.node import Unidentifiable
from nbcache.glue.keys.key_maker import KeyMaker

COLOR = """
class Color(Enum):
    RED = 1
    BLUE = 2
    def frame(self, what=OPAQUE):
        return what, OPAQUE
"""
POINT = """
class Point(NamedTuple):
    x: float
    y: int = 7
    def frame(self, what=OPAQUE):
        return what, OPAQUE
"""
GIVEN = {
    "Enum": enum.Enum,
    "IntEnum": enum.IntEnum,
    "EnumMeta": enum.EnumMeta,
    "NamedTuple": typing.NamedTuple,
    "namedtuple": collections.namedtuple,
    "OPAQUE": (each for each in ()),  # which nobody identifies
}


def made(source):
    names = {"__name__": "users_module", **GIVEN}
    exec(source, names)
    return names["Color" if "class Color" in source else "Point"]


def look(root):
    """The digest of what is compiled, and the scope that it holds in."""
    return KeyMaker().engine.scoped(root)


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        (COLOR, "BLUE = 2", "BLUE = 3"),
        (COLOR, "BLUE", "GREEN"),
        (COLOR, "BLUE = 2", "BLUE = 1"),
        (COLOR, "BLUE = 2", "BLUE = 2\n    NAVY = 2"),
        (COLOR, "BLUE = 2", "BLUE = 2.0"),
        (COLOR, "(Enum)", "(IntEnum)"),
        (COLOR, "class Color(Enum)", "class Meta(EnumMeta):\n    pass\nclass Color(Enum, metaclass=Meta)"),
        (POINT, "= 7", "= 8"),
        (POINT, " = 7", ""),
        (POINT, "x: float", "z: float"),
        (POINT, "class Point(NamedTuple)", "class Base(NamedTuple):\n    x: float\nclass Point(Base)"),
        (
            POINT + "class Point(Point):\n    def __new__(cls, x, y=2):\n        return OPAQUE\n",
            "y=2",
            "y=3",
        ),
    ],
)
def test_what_numba_reads_of_values_counts(source, old, new):
    assert old in source
    assert look(made(source))[0] == look(made(source))[0]
    assert look(made(source))[0] != look(made(source.replace(old, new)))[0]


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        (COLOR, "return what, OPAQUE", "return 5"),
        (COLOR, "what=OPAQUE", "what=1"),
        (
            COLOR,
            "class Color(Enum)",
            "class Mixin:\n    def more(self):\n        return OPAQUE\nclass Color(Mixin, Enum)",
        ),
        (COLOR, "def frame", "def __init__(self, number):\n        self.lock = OPAQUE\n    def frame"),
        (POINT, "return what, OPAQUE", "return 5"),
        (POINT, "x: float", "x: 'OPAQUE'"),
        (POINT, "def frame", "K = OPAQUE\n    def frame"),
    ],
)
def test_methods_annotations_and_what_members_have_besides_do_not(source, old, new):
    assert old in source
    assert look(made(source))[0] == look(made(source.replace(old, new)))[0]


@pytest.mark.parametrize(
    ("source", "runs"),
    [
        (COLOR, "value = property(lambda self: OPAQUE)"),
        (COLOR, "__getattribute__ = lambda self, name: OPAQUE"),
        (POINT, "__iter__ = lambda self: OPAQUE"),
        (POINT, "__getitem__ = lambda self, at: OPAQUE"),
    ],
)
def test_a_class_that_runs_when_its_values_are_read_counts_as_a_whole(source, runs):
    cls = made(source.replace("return what, OPAQUE", "return 5").replace("what=OPAQUE", "what=1"))
    setattr(cls, runs.partition(" =")[0], eval(runs.partition("= ")[2], GIVEN))
    with pytest.raises(Unidentifiable):
        look(cls)


def test_where_it_may_run_all_of_a_class_counts():
    with pytest.raises(Unidentifiable):
        look([made(COLOR)])
    with pytest.raises(Unidentifiable):
        look([made(POINT)(1.0)])


def test_values_lead_to_what_is_read_of_their_classes():
    color, point = made(COLOR), made(POINT)
    assert look((color.RED, point(1.0)))[0] != look((color.BLUE, point(1.0)))[0]
    assert look(point(1.0))[0] != look(point(2.0))[0]
    assert look(point(1.0))[0] != look((1.0, 7))[0]


def test_what_is_set_on_a_class_later_is_noticed_where_numba_reads_it():
    color, point = made(COLOR), made(POINT)
    scopes = look(color)[1], look(point)[1]
    color.frame = point.frame = None
    assert all(scope.unchanged() for scope in scopes)
    color.RED._value_ = 5
    point.__new__.__defaults__ = (9,)
    assert not any(scope.unchanged() for scope in scopes)
    scopes = look(color)[1], look(point)[1]
    color.value = property(lambda self: 3)
    point._fields = ("y", "x")
    assert not any(scope.unchanged() for scope in scopes)


def test_a_member_that_is_an_address_in_a_library_is_found_by_no_other_process():
    """As numba-mpi's operators are."""
    address = ctypes.cast(ctypes.CDLL(None).abs, ctypes.c_void_p).value
    look(enum.IntEnum("Operator", {"SUM": 7 << 40}))
    with pytest.raises(Unidentifiable, match=r"member SUM is the address of something in .*libc"):
        look(enum.IntEnum("Operator", {"SUM": address}))
