"""Every kind of object that compile-time Python can reach: what changes is seen, or the object is refused."""

import abc
import array
import collections
import contextvars
import ctypes
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import functools
import inspect
import io
import itertools
import logging
import operator
import pathlib
import random
import re
import sys
import threading
import types
import typing
import uuid
import weakref

import numpy as np
import pytest
from numba import njit
from numba.core import types as nbtypes

from nbcache.glue.identity.dictionary_changes import Mutations
from nbcache.glue.identity.node import Unidentifiable
from nbcache.glue.keys.key_maker import KeyMaker


class Holder:
    """What a chooser's global could be: an instance that holds something."""

    def __init__(self, value):
        self.value = value


def look(value):
    """Digest, sharing and scope of *value* as an engine without memories sees it; None if it is refused."""
    engine, holder = KeyMaker().engine, Holder(value)
    try:
        digest, scope = engine.scoped(holder)
        return digest, engine.sharing(holder), scope
    except Unidentifiable:
        return None


def namespace(source, **names):
    """Execute *source* as a module of a user's own."""
    names |= {"__name__": "users_module"}
    exec(source, names)
    return names


def user(source, name="C", **names):
    return namespace(source, **names)[name]


class Lied(dict):
    """A mapping that hides what it holds from whoever asks politely."""

    def items(self):
        return []

    def keys(self):
        return []

    def values(self):
        return []

    def __iter__(self):
        return iter(())

    def __len__(self):
        return 0

    def __reduce__(self):
        return Lied, ()

    def __getstate__(self):
        return None


class Number(int):
    def __new__(cls, value, extra):
        self = super().__new__(cls, value)
        self.extra = extra
        return self

    def __int__(self):
        return 0

    def __reduce__(self):
        return int, (0,)


class Text(str):  # noqa: SLOT000  what is set on it counts
    def __str__(self):
        return "other"

    def __reduce__(self):
        return str, ("same",)


class Slotted:
    __slots__ = ("a", "b")

    def __reduce__(self):
        return Slotted, ()


class SlottedList(list):
    __slots__ = ("extra",)

    def __iter__(self):
        return iter(())


class Named(typing.NamedTuple):
    x: int
    y: object


class Sub(tuple):  # noqa: SLOT001  what is set on it counts
    def __iter__(self):
        return iter(())


class Dropping:
    def __init__(self, shown, hidden):
        self.shown, self.hidden = shown, hidden

    def __getstate__(self):
        return {"shown": self.shown}


class Masked:
    """Calls something else its __dict__."""

    def __init__(self, value):
        object.__setattr__(self, "value", value)

    @property
    def __dict__(self):
        return {}


class Meta(type):
    @property
    def level(cls):
        return cls._level


class Leveled(metaclass=Meta):
    _level = 1


class Abstract(abc.ABC):
    pass


class Listed(collections.UserList):
    pass


class FancyPartial(functools.partial):
    pass


class FancyProperty(property):
    pass


class FancyArray(np.ndarray):
    pass


class FancyFloat(np.float64):
    pass


class FancyDate(dt.date):
    pass


class FancyDeque(collections.deque):
    def __iter__(self):
        return iter(())

    def __reduce__(self):
        return FancyDeque, ()


class FancyDecimal(decimal.Decimal):
    pass


class FancyPath(type(pathlib.Path())):
    pass


class FancyOrder(collections.OrderedDict):
    def __iter__(self):
        return iter(())


def matrix(rows):
    return np.array(rows).view(np.matrix)


class Structure(ctypes.Structure):
    _fields_ = [("x", ctypes.c_int)]


@dataclasses.dataclass
class Plain:
    x: int = 1


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: object


@dataclasses.dataclass(slots=True)
class WithSlots:
    x: int = 1


def plain_function(a, b=1):
    return a + b


def annotated(a: int) -> float:
    return a


def set_item(key, value):
    return lambda obj: obj.__setitem__(key, value)


def set_attribute(name, value):
    return lambda obj: setattr(obj, name, value)


def base_set_item(base, key, value):
    return lambda obj: base.__setitem__(obj, key, value)


def record():
    return np.array([(1, 2.0)], dtype=[("a", "i8"), ("b", "f8")])[0]


def with_attribute(obj, **attributes):
    for name, value in attributes.items():
        setattr(obj, name, value)
    return obj


def closure(value):
    def inner():
        return value

    return inner


def change_cell(function):
    function.__closure__[0].cell_contents = 2


def alone():
    """A logger that nobody else can see."""
    return logging.Logger("a")  # noqa: LOG001


def unwritable():
    found = np.arange(3.0)
    found.flags.writeable = False
    return found


MUTATIONS = {
    "list": (lambda: [1, 2], set_item(0, True)),
    "list of many": (lambda: list(range(5000)), set_item(4999, 0.0)),
    "list of many to other": (lambda: list(range(5000)), set_item(4999, object)),
    "dict of many": (lambda: dict.fromkeys(range(5000), 1), set_item(7, True)),
    "list in a list": (lambda: [[1], [2]], lambda obj: obj[1].append(3)),
    "dict": (lambda: {"a": 1}, set_item("a", 1.0)),
    "dict order": (lambda: {"a": 1, "b": 2}, lambda obj: obj.update(a=obj.pop("a"))),
    "dict in a tuple": (lambda: ({"a": 1},), lambda obj: obj[0].update(a=2)),
    "set": (lambda: {1, 2}, lambda obj: obj.add(3)),
    "bytearray": (lambda: bytearray(b"abc"), set_item(0, 0)),
    "dict subclass that hides": (lambda: Lied(a=1), base_set_item(dict, "a", 2)),
    "dict subclass grows": (lambda: Lied(a=1), base_set_item(dict, "b", 2)),
    "dict subclass with state": (lambda: Lied(a=1), set_attribute("extra", 2)),
    "list subclass that hides": (lambda: SlottedList([1]), base_set_item(list, 0, 2)),
    "list subclass with a slot": (lambda: SlottedList([1]), set_attribute("extra", 2)),
    "int subclass": (lambda: Number(1, 1), set_attribute("extra", 2)),
    "str subclass": (lambda: Text("a"), set_attribute("extra", 2)),
    "tuple subclass": (lambda: Sub([[1]]), lambda obj: tuple.__getitem__(obj, 0).append(2)),
    "tuple subclass with state": (lambda: Sub([1]), set_attribute("extra", 2)),
    "named tuple": (lambda: Named(1, [1]), lambda obj: obj.y.append(2)),
    "slots that lie": (lambda: with_attribute(Slotted(), a=1), set_attribute("a", 2)),
    "slot that was empty": (lambda: with_attribute(Slotted(), a=1), set_attribute("b", 2)),
    "state that is dropped": (lambda: Dropping(1, 1), set_attribute("hidden", 2)),
    "another __dict__": (lambda: Masked(1), lambda obj: object.__setattr__(obj, "value", 2)),
    "class attribute": (lambda: Leveled, set_attribute("_level", 2)),
    "class attribute, new": (lambda: Plain, set_attribute("another", 2)),
    "class of an instance": (Leveled, lambda obj: setattr(type(obj), "_level", 4)),
    "another class": (lambda: Dropping(1, 1), set_attribute("__class__", Holder)),
    "bases": (lambda: user("class A: pass\nclass B: pass\nclass C(A): pass"), lambda obj: setattr(
        obj, "__bases__", (user("class A: x = 1\nclass C(A): pass").__bases__[0],))),
    "metaclass": (lambda: user("class M(type): x = 1\nclass C(metaclass=M): pass"),
                  lambda obj: setattr(type(obj), "x", 2)),
    "abstract": (lambda: user("import abc\nclass C(abc.ABC): pass"), lambda obj: obj.register(int)),
    "alias": (lambda: typing.List[user("class C: pass")], set_attribute("__args__", (float,))),  # noqa: UP006
    "alias's origin": (lambda: typing.List[user("class C: pass")], set_attribute("__origin__", set)),  # noqa: UP006
    "alias grows": (lambda: typing.List[user("class C: pass")], set_attribute("__extra__", 2)),  # noqa: UP006
    "class annotations": (lambda: user("class C:\n    x: int"), lambda obj: obj.__annotations__.update(x=float)),
    "dataclass": (Plain, set_attribute("x", 2)),
    "dataclass fields": (lambda: user("import dataclasses\n@dataclasses.dataclass\nclass C:\n    x: int = 1"),
                         lambda obj: setattr(obj.__dataclass_fields__["x"], "default", 2)),
    "dataclass field metadata": (
        lambda: user("import dataclasses\nD = {'k': 1}\n@dataclasses.dataclass\n"
                     "class C:\n    x: int = dataclasses.field(metadata=D)"),
        lambda obj: setattr(obj.__dataclass_fields__["x"], "metadata", types.MappingProxyType({"k": 2}))),
    "dataclass, frozen": (lambda: Frozen([1]), lambda obj: obj.x.append(2)),
    "dataclass with slots": (WithSlots, set_attribute("x", 2)),
    "enum member's value": (lambda: user("import enum\nclass C(enum.Enum):\n    A = 1").A,
                            set_attribute("_value_", 2)),
    "enum member's state": (lambda: user("import enum\nclass C(enum.Enum):\n    A = 1").A, set_attribute("mass", 2)),
    "enum method": (lambda: user("import enum\nclass C(enum.Enum):\n    A = 1\n    def f(self): return 1"),
                    lambda obj: type.__setattr__(obj, "f", plain_function)),
    "namespace": (lambda: types.SimpleNamespace(a=1), set_attribute("a", True)),
    "mapping proxy": (lambda: types.MappingProxyType(Holder.shared), lambda _obj: Holder.shared.update(a=2)),
    "mapping proxy of a liar": (lambda: types.MappingProxyType(Holder.liar),
                                lambda _obj: dict.__setitem__(Holder.liar, "a", 2)),
    "partial": (lambda: functools.partial(max, [1]), lambda obj: obj.args[0].append(2)),
    "partial's keywords": (lambda: functools.partial(max, key=1), lambda obj: obj.keywords.update(key=2)),
    "partial's attributes": (lambda: functools.partial(max), set_attribute("flag", 2)),
    "partial subclass": (lambda: FancyPartial(max), set_attribute("flag", 2)),
    "lru_cache": (lambda: functools.lru_cache(closure(1)), lambda obj: change_cell(obj.__wrapped__)),
    "lru_cache's attributes": (lambda: functools.lru_cache(plain_function), set_attribute("flag", 2)),
    "cached property": (lambda: functools.cached_property(closure(1)), lambda obj: change_cell(obj.func)),
    "property": (lambda: property(closure(1)), lambda obj: change_cell(obj.fget)),
    "property subclass": (lambda: FancyProperty(plain_function), set_attribute("flag", 2)),
    "static method": (lambda: staticmethod(closure(1)), lambda obj: change_cell(obj.__func__)),
    "static method's attributes": (lambda: staticmethod(closure(1)), set_attribute("flag", 2)),
    "class method": (lambda: classmethod(closure(1)), lambda obj: change_cell(obj.__func__)),
    "single dispatch": (lambda: functools.singledispatch(user("def C(x): pass")),
                        lambda obj: obj.register(int, plain_function)),
    "bound method": (lambda: Dropping(1, 1).__getstate__, lambda obj: setattr(obj.__self__, "hidden", 2)),
    "bound builtin method": (lambda: {"a": 1}.get, lambda obj: obj.__self__.update(a=2)),
    "bound method of a subclass": (lambda: Lied(a=1).get, lambda obj: dict.__setitem__(obj.__self__, "a", 2)),
    "method wrapper": (lambda: [1].__len__, lambda obj: obj.__self__.append(2)),
    "function": (lambda: closure(1), change_cell),
    "function attribute": (lambda: closure(1), set_attribute("flag", 2)),
    "function attribute, changed": (lambda: with_attribute(closure(1), flag=1), set_attribute("flag", 2)),
    "function annotation": (lambda: user("def C(x: int): pass"), lambda obj: obj.__annotations__.update(x=float)),
    "function annotation, new": (lambda: user("def C(x): pass"), set_attribute("__annotations__", {"x": int})),
    "function defaults": (lambda: user("def C(x=1): pass"), set_attribute("__defaults__", (2,))),
    "function keyword defaults": (lambda: user("def C(*, x=1): pass"), set_attribute("__kwdefaults__", {"x": 2})),
    "function code": (lambda: user("def C(x=1): pass"), set_attribute("__code__", user("def C(x): return 1").__code__)),
    "dispatcher attribute": (lambda: njit(user("def C(x): pass")), set_attribute("flag", 2)),
    "dispatcher attribute, changed": (lambda: with_attribute(njit(user("def C(x): pass")), flag=1),
                                      set_attribute("flag", 2)),
    "dispatcher's function's attribute": (lambda: njit(user("def C(x): pass")),
                                          lambda obj: setattr(obj.py_func, "flag", 2)),
    "dispatcher's annotations": (lambda: njit(user("def C(x: int): pass")),
                                 lambda obj: obj.py_func.__annotations__.update(x=float)),
    "dispatcher's defaults": (lambda: njit(user("def C(x=1): pass")),
                              lambda obj: setattr(obj.py_func, "__defaults__", (2,))),
    "ordered dict": (lambda: collections.OrderedDict(a=1, b=2), lambda obj: obj.move_to_end("a")),
    "ordered dict that hides": (lambda: FancyOrder(a=1, b=2), lambda obj: collections.OrderedDict.move_to_end(obj, "a")),
    "default dict": (lambda: collections.defaultdict(int, a=1), set_attribute("default_factory", float)),
    "default dict's items": (lambda: collections.defaultdict(int, a=1), set_item("a", 2)),
    "counter": (lambda: collections.Counter("ab"), lambda obj: obj.update("a")),
    "deque": (lambda: collections.deque([1]), lambda obj: obj.append(2)),
    "deque that hides": (lambda: FancyDeque([1]), lambda obj: collections.deque.append(obj, 2)),
    "chain map": (lambda: collections.ChainMap({"a": 1}), lambda obj: obj.maps.append({})),
    "user list": (lambda: Listed([1]), lambda obj: obj.data.append(2)),
    "iterator": (lambda: iter([1, 2, 3]), next),
    "count": (itertools.count, next),
    "generator": (lambda: (x for x in [1, 2]), next),
    "random": (lambda: random.Random(1), lambda obj: obj.random()),
    "array.array": (lambda: array.array("i", [1]), set_item(0, 2)),
    "memoryview": (lambda: memoryview(bytearray(b"ab")), set_item(0, 0)),
    "ctypes structure": (lambda: Structure(1), set_attribute("x", 2)),
    "ctypes array": (lambda: (ctypes.c_int * 2)(1, 2), set_item(0, 2)),
    "ctypes number": (lambda: ctypes.c_int(1), set_attribute("value", 2)),
    "logger": (lambda: alone(), lambda obj: obj.setLevel(10)),
    "logger's parent": (lambda: logging.getLogger("nbcache_test.a.b"),
                        lambda _obj: logging.getLogger("nbcache_test").setLevel(10)),
    "logger's filter": (lambda: alone(), lambda obj: obj.addFilter(plain_function)),
    "logger's handler": (lambda: alone(), lambda obj: obj.addHandler(logging.NullHandler())),
    "logging": (lambda: logging.getLogger("nbcache_test.c"), lambda _obj: logging.disable(5)),
    "text io": (lambda: io.StringIO("abc"), lambda obj: obj.read(1)),
    "thread local": (threading.local, set_attribute("x", 1)),
    "context variable": (lambda: contextvars.ContextVar("v", default=1), lambda obj: obj.set(2)),
    "weak reference": (lambda: weakref.ref(Holder), lambda _obj: setattr(Holder, "new", 1)),
    "weak proxy": (lambda: weakref.proxy(Plain), lambda _obj: setattr(Plain, "new", 1)),
    "date subclass": (lambda: FancyDate(2000, 1, 1), set_attribute("flag", 1)),
    "decimal subclass": (lambda: FancyDecimal(1), set_attribute("flag", 1)),
    "path subclass": (lambda: FancyPath("a"), set_attribute("flag", 1)),
    "numpy array": (lambda: np.arange(3.0), set_item(0, 7.0)),
    "numpy array in place": (lambda: np.arange(4.0), set_attribute("shape", (2, 2))),
    "numpy array's dtype": (lambda: np.arange(4.0), set_attribute("dtype", np.int64)),
    "numpy array's flag": (unwritable, lambda obj: obj.setflags(write=True)),
    "numpy array, strided": (lambda: np.arange(100.0)[::3], set_item(1, 7.0)),
    "numpy array of dates": (lambda: np.array(["2000-01-01"], "M8[D]"), set_item(0, np.datetime64("2001-01-01"))),
    "numpy array of text": (lambda: np.array(["ab"]), set_item(0, "cd")),
    "numpy array subclass": (lambda: np.arange(3.0).view(FancyArray), set_attribute("unit", "m")),
    "numpy matrix": (lambda: matrix([[1, 2]]), set_item((0, 0), 7)),
    "numpy masked array": (lambda: np.ma.masked_array([1, 2], [0, 0]), lambda obj: obj.__setitem__(0, np.ma.masked)),
    "numpy masked array's filling": (lambda: np.ma.masked_array([1, 2], [0, 0], fill_value=1),
                                     set_attribute("fill_value", 2)),
    "numpy record": (record, set_item("a", 2)),
    "numpy record in a list": (lambda: [record()], lambda obj: obj[0].__setitem__("a", 2)),
    "numpy recarray's record": (lambda: np.rec.array([(1, 2.0)], names="a,b")[0], set_attribute("a", 2)),
    "numpy scalar subclass": (lambda: FancyFloat(1.0), set_attribute("flag", 2)),
    "numpy polynomial": (lambda: np.poly1d([1, 2]), set_item(0, 7)),
    "numpy generator": (lambda: np.random.default_rng(1), lambda obj: obj.random()),
    "numpy random state": (lambda: np.random.RandomState(1), lambda obj: obj.random()),
    "numpy random state's method": (lambda: np.random.RandomState(1).random, lambda obj: obj()),
    "numba type": (lambda: user("from numba import types\nclass C(types.Type): pass")("c"), set_attribute("scale", 2)),
    "numba type, changed": (
        lambda: with_attribute(user("from numba import types\nclass C(types.Type): pass")("d"), scale=1),
        set_attribute("scale", 2)),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _unchanged_classes():
    before = {cls: dict(vars(cls)) for cls in (Holder, Plain, Leveled)}
    Holder.shared, Holder.liar = {"a": 1}, Lied(a=1)
    yield
    logging.disable(logging.NOTSET)
    logging.getLogger("nbcache_test").setLevel(logging.NOTSET)
    for cls, members in before.items():
        for name in set(vars(cls)) - members.keys():
            delattr(cls, name)
        for name, value in members.items():
            if vars(cls)[name] is not value:
                setattr(cls, name, value)


@pytest.mark.filterwarnings(
    "ignore:Setting the (shape|dtype|strides) on a NumPy array:DeprecationWarning"
)  # since NumPy 2.5
@pytest.mark.parametrize(("make", "change"), MUTATIONS.values(), ids=MUTATIONS)
def test_what_changes_is_seen_or_refused(make, change):
    value = make()
    before = look(value)
    if before is None:
        return
    assert look(value)[:2] == before[:2], "it isn't the same twice"
    if not any(scope.volatile for scope in before[2].all()):
        assert before[2].unchanged()
    change(value)
    assert not before[2].unchanged(), "who remembers doesn't notice"
    after = look(value)
    assert after is None or after[0] != before[0]


@pytest.mark.parametrize(
    "alias",
    [list[int], int | None, typing.List[int], typing.Optional[Number], typing.Literal[1], typing.Tuple[Number, ...]],  # noqa: UP006, UP045
    ids=str,
)
def test_what_stands_for_a_type_needn_t_be_walked_anew_each_time(alias):
    assert look(alias)[2].unchanged()


@pytest.mark.parametrize(
    ("value", "slot"),
    [
        (inspect.signature(lambda a, *, b=2: a), "_return_annotation"),
        (pathlib.Path("/a/b"), None),
        (fractions.Fraction(1, 2), "_numerator"),
        (uuid.uuid4(), None),
        (dt.timedelta(1), None),
        (decimal.Decimal("1.5"), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_nor_what_tells_its_hash_by_what_it_holds(value, slot):
    scope = look(value)[2]
    assert scope.unchanged()
    if slot is not None:
        setattr(value, slot, 7)
        assert not scope.unchanged()


def test_what_tells_no_hash_is_walked_anew_each_time():
    assert not look(np.random.default_rng(1))[2].unchanged()


def aliases(flag):
    return user("import enum\nclass C(enum.Enum):\n    A = 1\n    B = 2\n    X = " + flag)


class Alike(list):
    def __repr__(self):
        return "alike"


PAIRS = {
    "int subclass": lambda: (Number(1, 1), Number(2, 1)),
    "int and its subclass": lambda: (1, Number(1, 1)),
    "str subclass": lambda: (Text("a"), Text("b")),
    "tuple subclass": lambda: (Sub([1]), Sub([2])),
    "bytes subclass": lambda: [user("class C(bytes): pass")(text) for text in (b"a", b"b")],
    "float subclass": lambda: [user("class C(float): pass")(number) for number in (0.0, -0.0)],
    "complex subclass": lambda: [user("class C(complex): pass")(number) for number in (0.0, complex(0.0, -0.0))],
    "frozenset subclass": lambda: [user("class C(frozenset): pass")(items) for items in ([1], [2])],
    "slice": lambda: (slice(0, 1.0), slice(0, True)),
    "slice of objects": lambda: (slice(Alike([1])), slice(Alike([2]))),
    "attrgetter": lambda: (operator.attrgetter("a"), operator.attrgetter("b")),
    "itemgetter": lambda: (operator.itemgetter(1), operator.itemgetter(True)),
    "methodcaller": lambda: (operator.methodcaller("a", 1), operator.methodcaller("a", 2)),
    "bound method of a pattern": lambda: (re.compile("a").match, re.compile("b").match),
    "pattern": lambda: (re.compile("a"), re.compile("a", re.IGNORECASE)),
    "unbound method": lambda: (str.upper, str.lower),
    "method of two classes": lambda: (dict.fromkeys, collections.OrderedDict.fromkeys),
    "class method of a class": lambda: (int.from_bytes, user("class C(int): pass").from_bytes),
    "date": lambda: (dt.date(2000, 1, 1), dt.date(2000, 1, 2)),
    "time": lambda: [dt.datetime(2000, 1, 1, fold=fold, tzinfo=dt.timezone.utc) for fold in (0, 1)],
    "delta": lambda: (dt.timedelta(1), dt.timedelta(2)),
    "zone": lambda: (dt.timezone.utc, dt.timezone(dt.timedelta(0, 60))),
    "decimal": lambda: (decimal.Decimal("1.0"), decimal.Decimal("1.00")),
    "fraction": lambda: (fractions.Fraction(1, 2), fractions.Fraction(1, 3)),
    "path": lambda: (pathlib.Path("a"), pathlib.Path("b")),
    "uuid": lambda: (uuid.UUID(int=1), uuid.UUID(int=2)),
    "deque's length": lambda: (collections.deque([1], 2), collections.deque([1], 3)),
    "enum alias": lambda: (aliases("1"), aliases("2")),
    "enum alias by name": lambda: (aliases("1\n    Y = 1"), aliases("1\n    Z = 1")),
    "flag that is composite": lambda: [
        user(f"import enum\nclass C(enum.Flag):\n    A = 1\n    B = 2\n    AB = {value}") for value in (3, 0)
    ],
    "flag that isn't listed": lambda: [user("import enum\nclass C(enum.IntFlag):\n    A = 1\n    B = 2")(i) for i in (1, 3)],
    "flag's boundary": lambda: [
        user(f"import enum\nclass C(enum.Flag, boundary=enum.{kind}):\n    A = 1") for kind in ("STRICT", "CONFORM")
    ] if hasattr(enum, "STRICT") else (1, 2),
    "enum's base": lambda: [user(f"import enum\nclass C(enum.{kind}):\n    A = 1") for kind in ("Enum", "IntEnum")],
    "enum with methods": lambda: [
        user(f"import enum\nclass C(enum.Enum):\n    A = 1\n    def f(self): return {i}") for i in (1, 2)
    ],
    "enum with more than a value": lambda: [
        user("import enum\nclass C(enum.Enum):\n    A = 1\n    def __init__(self, x): self.y = K", K=k) for k in (1, 2)
    ],
    "named tuple's defaults": lambda: [collections.namedtuple("P", "x y", defaults=(i,)) for i in (1, 2)],
    "named tuple's methods": lambda: [
        user(f"import typing\nclass C(typing.NamedTuple):\n    x: int\n    def f(self): return {i}") for i in (1, 2)
    ],
    "named tuple's subclass": lambda: [
        user(f"import collections\nclass C(collections.namedtuple('P', 'x')):\n    y = {i}") for i in (1, 2)
    ],
    "hash": lambda: [user(f"class C:\n    __hash__ = {kind}") for kind in ("None", "object.__hash__")],
    "match args": lambda: [user(f"class C:\n    __match_args__ = ('{name}',)") for name in "ab"],
    "slots": lambda: [user(f"class C:\n    __slots__ = ('{name}',)") for name in "ab"],
    "exception's base": lambda: [user(f"class C({base}): pass") for base in ("ValueError", "KeyError")],
    "generic alias": lambda: (list[int], list[float]),
    "typing list": lambda: (list[int] | None, list[float] | None),
    "union": lambda: (int | None, float | None),
    "literal": lambda: (typing.Literal[1], typing.Literal[True]),
    "type variable": lambda: (typing.TypeVar("T", bound=int), typing.TypeVar("T", bound=float)),
    "type variable's attribute": lambda: [type_variable(weight) for weight in (1, 2)],
    "type variable's default": lambda: newer(13, "class C[T = {}]: pass"),
    "parameters of a type": lambda: [typing.ParamSpec("P", bound=bound) for bound in (int, float)],
    "alias of a type": lambda: newer(12, "type C = list[{}]"),
    "new type": lambda: (typing.NewType("T", int), typing.NewType("T", float)),
    "ctypes structure": lambda: [
        user(f"import ctypes\nclass C(ctypes.Structure):\n    _fields_ = [('x', ctypes.c_{kind})]") for kind in ("int", "long")
    ],
    "array.array": lambda: (array.array("i", [1]), array.array("l", [1])),
    "lru_cache": lambda: [functools.lru_cache(maxsize=size)(plain_function) for size in (1, 2)],
    "cached property": lambda: [functools.cached_property(closure(i)) for i in (1, 2)],
    "numpy strides of one row": lambda: [np.ndarray((1, 4), strides=strides) for strides in ((32, 8), (80, 8))],
    "numpy strides of one column": lambda: [zeros(shape)[:1] for shape in ((1, 4), (3, 4))],
    "numpy dtype's metadata": lambda: [np.dtype("f8", metadata={"unit": unit}) for unit in "ab"],
    "numpy field's metadata": lambda: [
        np.dtype([("a", np.dtype("f8", metadata={"unit": unit}))]) for unit in "ab"
    ],
    "numpy array's metadata": lambda: [np.zeros(2, np.dtype("f8", metadata={"unit": unit})) for unit in "ab"],
    "numpy order": lambda: [np.arange(6.0).reshape(2, 3).copy(order) for order in "CF"],
    "numpy record's type": lambda: (record(), np.rec.array([(1, 2.0)], names="a,b")[0]),
    "numpy scalar subclass": lambda: (FancyFloat(0.0), FancyFloat(-0.0)),
    "numpy scalar and subclass": lambda: (np.float64(1.0), FancyFloat(1.0)),
    "type with a colour": lambda: [
        user("from numba import types\nclass C(types.Type): pass")(f"colour(#{colour})") for colour in ("ff0000", "00ff00")
    ],
    "type with a number": lambda: [
        user("from numba import types\nclass C(types.Type): pass")(f"flags(0x{flags})") for flags in ("1000", "2000")
    ],
}  # fmt: skip


def zeros(shape):
    """Rows of a base of *shape*, transposed: with one of them, both orders are contiguous."""
    return np.zeros(shape).T


def type_variable(weight):
    """One on which somebody set an attribute: from Python 3.12 on, its dictionary has no name."""
    T = typing.TypeVar("T")
    T.weight = weight
    return T


def newer(minor, text):
    """For two types, what *text* defines, in the grammar of a Python that may be newer than this one."""
    if sys.version_info < (3, minor):
        pytest.skip(f"needs Python 3.{minor}")
    return [user(text.format(kind)) for kind in ("int", "float")]


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_what_differs_is_seen_or_refused(pair):
    first, second = map(look, pair())
    assert first is None or second is None or first[0] != second[0]


def cython_function():
    """The class of functions in modules that Cython made: of no module with a file, and it has no documentation."""
    pytest.importorskip("scipy.special")
    module = next((name for name in sys.modules if name.startswith("_cython_")), None)
    return sys.modules[module].cython_function_or_method if module else pytest.skip("SciPy isn't made by Cython")


COMMON = {
    "partial": lambda: functools.partial(plain_function, 1),
    "attrgetter": lambda: operator.attrgetter("a"),
    "bound method of a dict": lambda: {"a": 1}.get,
    "ordered dict": lambda: collections.OrderedDict(a=1),
    "default dict": lambda: collections.defaultdict(list, a=[1]),
    "counter": lambda: collections.Counter("ab"),
    "deque": lambda: collections.deque([1, 2]),
    "dict subclass": lambda: Lied(a=1),
    "dataclass": Plain,
    "dataclass itself": lambda: Plain,
    "dataclass with slots": WithSlots,
    "class whose instances say what they are for": lambda: user("class C: __slots__ = ('__doc__',)"),
    "class of Cython's functions": cython_function,
    "enum": lambda: aliases("1"),
    "named tuple": lambda: Named(1, 2),
    "typed named tuple": lambda: Named,
    "abstract class": lambda: Abstract,
    "namespace": lambda: types.SimpleNamespace(a=1),
    "mapping proxy": lambda: types.MappingProxyType({"a": 1}),
    "logger": lambda: logging.getLogger("nbcache_test.d"),
    "root logger": logging.getLogger,
    "path": lambda: pathlib.Path("a"),
    "date": lambda: dt.datetime(2000, 1, 1, tzinfo=dt.timezone.utc),
    "decimal": lambda: decimal.Decimal(1),
    "annotated": lambda: annotated,
    "pattern": lambda: re.compile("a"),
    "numpy functions": lambda: (np.random.random, np.sum, np.add),
    "numpy record": record,
    "numba type": lambda: nbtypes.float64[:],
    "single dispatch": lambda: functools.singledispatch(user("def C(x): pass")),
    "type variable": lambda: type_variable(1),
    "alias of a type for checkers alone": lambda: newer(12, "type C = {} | Undefined")[0],
    "generic class": lambda: user("import typing\nclass C(typing.Generic[typing.TypeVar('T')]): pass"),
    "optional": lambda: typing.Optional[int],  # noqa: UP045  as it is written
    "callable": lambda: typing.Callable[[int], float],
}


@pytest.mark.parametrize("make", COMMON.values(), ids=COMMON)
def test_what_is_common_is_not_refused(make):
    first, second = look(make()), look(make())
    assert first is not None
    assert first[:2] == second[:2]


def test_an_empty_name_a_lost_owner_or_an_edge_to_itself_is_no_description():
    for make, _change in MUTATIONS.values():
        engine, value = KeyMaker().engine, make()
        try:
            nodes = engine.nodes(value)
        except Unidentifiable:
            continue
        for node in nodes:
            assert node.title
            assert node.parts or node.edges or node.title.startswith("toolchain ") or " " in node.title
            assert any(child is not node for child in node.children) or not node.edges or len(node.parts) > 1, (
                node.title
            )


def test_nothing_looks_into_what_nbcache_keeps_of_a_process():
    """Some of it is an array over all of its memory."""
    assert look(Mutations()) is None


ASKED = """
asked = []


class C({base}):
    {slots}

    def __getattribute__(self, name):
        asked.append(name)
        return {base}.__getattribute__(self, name)


held = C()
held.K = 3
"""


@pytest.mark.parametrize(
    ("base", "slots"),
    [("object", ""), ("dict", ""), ("int", ""), ("object", '__slots__ = ("K",)'), ("list", '__slots__ = ("K",)')],
)
def test_an_object_is_not_asked_what_it_is(base, slots):
    """Proxies load what they stand for when they are asked for their class, and deprecated ones warn."""
    names = namespace(ASKED.format(base=base, slots=slots))
    names["asked"].clear()
    found = look(names["held"])
    assert found[2].unchanged()
    assert names["asked"] == []
    names["held"].K = 4
    assert not found[2].unchanged()
    assert look(names["held"])[0] != found[0]
