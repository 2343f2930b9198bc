"""Types as JSON: what is written comes back as the same type, and nothing else is let in."""

import array
import copy
import ctypes
import enum
import json
import math
import random
import sys
import types as pytypes
from collections import namedtuple
from typing import NamedTuple

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit, types
from numba.core.typing import signature
from numba.experimental import jitclass, structref

from nbcache.glue.requests import type_json as typecodec
from nbcache.glue.requests.type_fields import MAX_DEPTH, MAX_NODES, Undecodable, Unencodable
from nbcache.glue.requests.type_json import decode, encode


class Point(NamedTuple):
    x: float
    y: float


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Outer:
    class Shape(enum.Enum):
        ROUND = 1


@jitclass({"total": types.float64})
class Counter:
    def __init__(self):
        self.total = 0.0

    def add(self, value):
        self.total += value


@njit
def twice(x):
    return 2 * x


def plain(x):
    return x


renamed = njit(plain)
alias = twice


@structref.register
class Pair(types.StructRef):
    pass


class MyArray(types.Array):
    pass


class MyInteger(types.Integer):
    pass


def loaded(module, qualname):
    """What the daemon's resolver does once trust is established."""
    found = sys.modules[module]
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


def refused(module, qualname):
    raise PermissionError(f"{module}:{qualname}")


def there_and_back(typ):
    return decode(json.loads(json.dumps(encode(typ), allow_nan=False)), loaded)


HERE = __name__
RECORD = np.dtype([("a", np.int8), ("b", np.float64, (2, 3)), ("c", "U5"), ("d", [("e", "S3"), ("f", "M8[ns]")])])
SPARSE = np.dtype(
    {"names": ["p", "q"], "formats": ["i4", "f8"], "offsets": [8, 0], "titles": [None, None], "itemsize": 40}
)
OVERLAPPING = np.dtype({"names": ["whole", "half"], "formats": ["i8", "i4"], "offsets": [0, 0]})
TITLED = np.dtype([(("a title", "name"), "i4")])

INTERNED = [typ for typ in vars(types).values() if isinstance(typ, types.Type) and typ.name in typecodec._TYPE_NAMED]
TYPED = [
    1, 1.5, 2j, True, None, "text", ..., slice(1, 2), slice(1, 2, 3), (1, 2), (1, 2.0), (), ((1, 2), "a"), Point(1.0, 2.0), Point(1, 2.0),
    [1, 2], [[1.0]], {1, 2}, Color.RED, Size.LARGE, Outer.Shape.ROUND, b"bytes", bytearray(b"x"), memoryview(b"x"), array.array("d", [1.0]),
    memoryview(bytearray(2)), np.zeros(3), np.zeros((3, 3), "c8").T, np.zeros(8)[::2], np.array("2020", "M8[D]"), np.zeros(3, "m8"), np.zeros(2, "S4"),
    np.zeros(2, "U7"), np.zeros(2, RECORD), np.zeros(2, RECORD)[0], np.zeros(2, SPARSE), np.zeros(2, OVERLAPPING), np.zeros(2, TITLED),
    np.zeros(1, np.dtype([("a", "i1"), ("b", "f8")], align=True)), np.zeros(1, np.dtype([])), np.frombuffer(b"12345678", "f8"), np.float32(1), np.datetime64("2020", "s"),
    np.timedelta64(1, "s"), np.dtype("f4"), np.dtype(RECORD), np.float64, np.random.default_rng(1), np.random.default_rng(1).bit_generator,
    np.polynomial.Polynomial([1.0, 2.0]), twice, types.int64, types.float64[:],
]  # fmt: skip
MADE = [
    types.Array(types.int64, 3, "F", readonly=True, aligned=False), types.Array(types.Optional(types.int8), 0, "C"), types.Buffer(types.uint8, 1, "C"),
    types.NestedArray(types.int16, (2, 0, 3)), types.CharSeq(0), types.UnicodeCharSeq(12), types.NPDatetime(""), types.NPTimedelta("us"),
    types.UniTuple(types.int64, 0), types.UniTuple(types.int64, 5), types.StarArgUniTuple(types.int64, 5), types.StarArgTuple((types.int64, types.none)), types.StarArgTuple(()),
    types.List(types.int64), types.Set(types.unicode_type), types.Set(types.int64, True), types.Optional(types.Array(types.int64, 1, "C")),
    types.CPointer(types.int64), types.CPointer(types.voidptr, addrspace=3), types.MemInfoPointer(types.voidptr), types.TypeRef(types.ListType(types.int64)),
    types.FunctionType(signature(types.int64)), types.FunctionType(signature(types.none, types.int64, types.FunctionType(signature(types.int8, types.int8)))),
    types.literal(0), types.literal(2**64 - 1), types.literal(-(2**63)), types.literal("text"), types.literal("\udcff"), types.literal(True), types.literal(slice(1, None)),
    types.literal(slice(None, -1, 2)), types.BooleanLiteral(False), types.DType(types.NPDatetime("ns")), types.NumberClass(types.NPTimedelta("h")),
    Counter.class_type.instance_type, types.Optional(Counter.class_type.instance_type), types.DictType(types.int64, types.DictType(types.int64, types.ListType(types.boolean))),
    types.ListType(types.int64), types.DictType(types.unicode_type, types.float64[::1]), types.PolynomialType(types.float64[::1], None, types.float64[::1], 2), types.EnumMember(Color, types.unicode_type),
]  # fmt: skip
if hasattr(types, "SetType"):
    MADE.append(types.SetType(types.int64))
ALL = [*INTERNED, *map(numba.typeof, TYPED), *MADE]


@pytest.mark.parametrize("typ", ALL, ids=[f"{i}-{type(typ).__name__}" for i, typ in enumerate(ALL)])
def test_a_type_comes_back_as_the_very_same_object(typ):
    assert there_and_back(typ) is typ


def test_every_form_is_among_the_types_that_come_back_and_in_the_grammar():
    tried = {type(typ).__name__ for typ in ALL}
    assert set(typecodec._FORM_NAMED) <= tried
    grammar = typecodec.__doc__.partition("The grammar")[2].replace(",", " ").split()
    assert {form.name for form in typecodec._FORMS} <= set(grammar)
    for form in typecodec._FORMS:
        assert all(f"{field.name}:" in grammar for field in form.fields)


def test_what_numba_takes_from_python_can_be_written_or_is_known_not_to_be():
    from numba.core.pythonapi import _unboxers
    from numba.core.registry import cpu_target

    cpu_target.target_context.refresh()
    ready_made = {type(typ).__name__ for typ in typecodec._TYPE_NAMED.values()}
    abstract = {"BaseTuple"}
    addresses = {"ExternalFunctionPointer"}  # of this process
    bodies = {"Generator", "DeferredType", "Object"}  # functions, types that are filled in later, any object
    boxed = {cls.__name__ for cls in _unboxers.functions if cls.__module__.startswith(("numba.core.", "numba.np."))}
    assert boxed <= {*typecodec._FORM_NAMED, *ready_made, *abstract, *addresses, *bodies}


def test_the_json_is_short_and_readable():
    assert encode(types.int64) == "int64"
    assert encode(types.Array(types.float32, 2, "C")) == ["Array", "float32", 2, "C", False, True]
    assert encode(types.Tuple((types.int64, types.boolean))) == ["Tuple", ["int64", "bool"]]
    assert encode(numba.typeof(Color.RED)) == ["EnumMember", f"{HERE}:Color", "int64"]
    assert encode(numba.typeof(Outer.Shape.ROUND)) == ["EnumMember", f"{HERE}:Outer.Shape", "int64"]
    assert encode(Counter.class_type.instance_type) == ["ClassInstanceType", f"{HERE}:Counter"]


dtypes = st.sampled_from(
    [
        types.int8,
        types.uint64,
        types.float32,
        types.complex128,
        types.boolean,
        types.NPDatetime("s"),
        types.UnicodeCharSeq(3),
    ]
)


@st.composite
def records(draw):
    names = draw(
        st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), unique=True, max_size=4)
    )
    formats = [
        draw(st.sampled_from(["i1", "f8", "U3", "S2", "M8[s]", ("i2", (2, 2)), np.dtype([("x", "c8")])])) for _ in names
    ]
    return numba.typeof(np.zeros(1, np.dtype(list(zip(names, formats, strict=True)), align=draw(st.booleans()))))


def attempts(make, *strategies):
    """What a constructor makes, where it doesn't refuse."""

    def attempt(args):
        try:
            return make(*args)
        except Exception:
            return types.none

    return st.tuples(*strategies).map(attempt)


def containers(inner):
    several = st.lists(inner, max_size=4)
    return st.one_of(
        attempts(types.Tuple, several),
        attempts(types.StarArgTuple, several),
        attempts(types.UniTuple, inner, st.integers(0, 5)),
        attempts(lambda one, other: types.NamedTuple((one, other), Point), inner, inner),
        attempts(types.List, inner, st.booleans()),
        attempts(types.Set, inner, st.booleans()),
        attempts(types.ListType, inner),
        attempts(types.DictType, st.just(types.unicode_type) | inner, inner),
        attempts(types.Optional, inner),
        attempts(types.CPointer, inner),
        attempts(types.TypeRef, inner),
        attempts(lambda returns, args: types.FunctionType(signature(returns, *args)), inner, several),
    )


leaves = st.one_of(
    dtypes,
    st.sampled_from([types.none, types.unicode_type, types.voidptr, types.EnumMember(Color, types.int64)]),
    st.builds(
        types.Array, dtypes, st.integers(0, 6), st.sampled_from("CFA"), readonly=st.booleans(), aligned=st.booleans()
    ),
    records(),
    st.integers(-(2**63), 2**64 - 1).map(types.literal),
    st.text().map(types.literal),
)


@given(st.recursive(leaves, containers, max_leaves=8))
@pytest.mark.filterwarnings("ignore:First-class function type feature is experimental")
def test_nested_types_come_back(typ):
    try:
        encoded = encode(typ)
    except Unencodable as error:
        encoded, verdict = None, str(error)
    if encoded is None:
        # Numba itself takes (-0.0,) for (0.0,) while a type with the other is alive.
        assert "it isn't what Numba makes of its fields" in verdict
    else:
        assert decode(json.loads(json.dumps(encoded)), loaded) is typ


def test_functions_of_two_enumerations_with_one_name_are_not_mixed_up():
    made = pytypes.SimpleNamespace(One=enum.Enum("Twin", "A"), Two=enum.Enum("Twin", "B"))
    alive = types.FunctionType(signature(types.EnumMember(made.One, types.int64)))
    encoded = ["FunctionType", ["EnumMember", "somewhere:One", "int64"], []]
    resolve = lambda _module, name: getattr(made, name)
    assert decode(encoded, resolve) is alive
    encoded[1][1] = "somewhere:Two"
    with pytest.raises(Undecodable, match="isn't what Numba makes"):
        decode(encoded, resolve)


def local_jitclass():
    @jitclass([("a", types.int64)])
    class Counter:
        def __init__(self):
            pass

    return Counter.class_type.instance_type


def local_enum():
    class Local(enum.Enum):
        A = 1

    return Local


FUNCTIONS = {"f": njit(lambda x: x), "g": renamed}
UNENCODABLE = {
    "no type": 3,
    "a class": types.Integer,
    "a subclass of an array": MyArray(types.int64, 1, "C"),
    "a subclass of a scalar": MyInteger("int64"),
    "a scalar of another width": types.Integer("int24"),
    "a third party's opaque type": types.Opaque("mine"),
    "a structref": Pair([("x", types.int64)]),
    "poison": types.Poison(types.int64),
    "undefined": types.undefined,
    "an undefined function": types.UndefinedFunctionType(1, {twice}),
    "nested in an encodable one": types.Tuple((types.int64, types.ListType(MyInteger("int64")))),
    "a list with initial values": types.List(types.int64, False, [1, 2]),
    "a dictionary with initial values": types.DictType(types.unicode_type, types.int64, {"a": 1}),
    "a literal list": types.LiteralList([types.int64, types.float64]),
    "a literal dictionary": types.LiteralStrKeyDict({types.literal("a"): types.int64}),
    "a module": types.Module(math),
    "a pointer to a C function": numba.typeof(ctypes.CFUNCTYPE(ctypes.c_int)(int)),
    "a deferred type": types.DeferredType(),
    "a reference to a class of types": types.TypeRef(types.ListType),
    "a default, which is the function's": types.Omitted(1),
    "a dispatcher without a name": numba.typeof(FUNCTIONS["f"]),
    "a dispatcher under another name": numba.typeof(renamed),
    "a local enumeration": types.EnumMember(local_enum(), types.int64),
    "a local named tuple": types.NamedTuple((types.int64, types.float64), namedtuple("Point", "x y")),
    "a local jitclass": local_jitclass(),
    "too deep": None,
    "too large": types.Tuple([types.UniTuple(types.int64, n) for n in range(MAX_NODES // 3)]),
    "too long": types.literal("x" * 32 * MAX_NODES),
}
for _ in range(MAX_DEPTH + 1):
    UNENCODABLE["too deep"] = (
        types.Optional(types.int64) if UNENCODABLE["too deep"] is None else types.ListType(UNENCODABLE["too deep"])
    )
    UNENCODABLE["too deep"] = types.UniTuple(UNENCODABLE["too deep"], 1)


@pytest.mark.parametrize("what", UNENCODABLE)
def test_what_cant_be_written_is_refused_in_one_line(what):
    with pytest.raises(Unencodable) as caught:
        encode(UNENCODABLE[what])
    assert "can't be written down" in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def test_a_reference_must_lead_to_the_very_object(monkeypatch):
    typ = numba.typeof(Color.RED)
    assert encode(typ)
    monkeypatch.setitem(globals(), "Color", enum.Enum("Color", "RED BLUE"))
    with pytest.raises(Unencodable, match=r"isn't what .*:Color leads to"):
        encode(typ)


def test_a_function_is_written_under_its_own_name_only():
    assert encode(numba.typeof(alias)) == ["Dispatcher", f"{HERE}:twice"]
    with pytest.raises(Unencodable, match=r"isn't what .*:plain leads to"):
        encode(numba.typeof(renamed))


@pytest.mark.parametrize("name", ["__main__", "__mp_main__", "made_by_exec"])
def test_what_other_processes_cant_import_is_not_referred_to(monkeypatch, name):
    module = pytypes.ModuleType(name)
    exec("import enum\nclass Kind(enum.Enum):\n    A = 1", vars(module))
    monkeypatch.setitem(sys.modules, name, module)
    with pytest.raises(Unencodable, match="other processes can't import"):
        encode(types.EnumMember(module.Kind, types.int64))


def test_nothing_of_a_foreign_class_runs():
    class Loud(types.Type):
        def __init__(self):
            super().__init__("int64")

        def _fail(self, *_args):
            raise AssertionError("asked")

        armed = False
        key = property(lambda self: self._fail() if Loud.armed else "loud")
        __eq__ = __repr__ = __str__ = _fail

        def __hash__(self):
            return 1

    loud = Loud()
    Loud.armed = True
    with pytest.raises(Unencodable, match="Loud"):
        encode(loud)
    Loud.armed = False


# -- what arrives ------------------------------------------------------------------------------


NO_TYPES = [
    None, True, 1, 1.5, math.nan, 10**5000, {}, {"Array": 1}, [], [[]], [None], [1], [["Array"]], "", "int65", "Array", "os", "os:system", ["int64"], ["os:system"],
    ["Array"], ["Array", "int64", 1, "C", False], ["Array", "int64", 1, "C", False, True, True], ["Array", "int64", 1, "C", 0, True],
    ["Array", "int64", True, "C", False, True], ["Array", "int64", 1.0, "C", False, True], ["Array", "int64", -1, "C", False, True], ["Array", "int64", 10**5000, "C", False, True],
    ["Array", "int64", 1, "Z", False, True], ["Array", "int64", 1, ["C"], False, True], ["Array", None, 1, "C", False, True], ["Array", ["Array", "int64", 1, "C", False, True], 1, "C", False, True],
    ["Array", ["IntegerLiteral", 1], 1, "C", False, True], ["Array", ["NestedArray", "int8", [2]], 1, "C", False, True], ["Bytes", "uint8", 1, "C", False],
    ["Tuple", ["int64", "int64"]], ["Tuple", "int64"], ["Tuple", {"0": "int64"}], ["UniTuple", "int64", 10**9], ["ListType", ["Optional", "int64"]], ["DictType", "none", "int64"],
    ["NPDatetime", "fortnight"], ["NPDatetime", 3], ["CharSeq", 2**31], ["NestedArray", "int8", [2**31]], ["NestedArray", "unicode_type", [1]], ["NestedArray", "int8", 3],
    ["Optional", "none"], ["Optional", ["Optional", "int64"]], ["Set", ["List", "int64", True], False],
    ["IntegerLiteral", True], ["IntegerLiteral", "1"], ["BooleanLiteral", 1], ["StringLiteral", 1], ["SliceLiteral", 1, 2, 3.0], ["SliceLiteral", 1, 2],
    ["Record", [["a", "int64", 0, None, None], ["a", "int64", 8, None, None]], 16, False], ["Record", [["a", "int64", 8, None, None], ["b", "int64", 0, None, None]], 16, False],
    ["Record", [["a", "int64", 0, None]], 8, False], ["Record", [["a", "int64", 0, None, None]], 4, False], ["Record", [["a", "unicode_type", 0, None, None]], 8, False],
    ["Record", [{"name": "a"}], 8, False], ["Record", {}, 8, False], ["Record", [["a", "int64", 2**40, None, None]], 8, False],
    ["FunctionType", "int64", "int64"], ["FunctionType", None, []], ["TypeRef", "ListType"], ["DType", []],
    ["EnumMember", "x", "int64"], ["EnumMember", ":x", "int64"], ["EnumMember", "x:", "int64"], ["EnumMember", "a:b:c", "int64"], ["EnumMember", "a..b:c", "int64"],
    ["EnumMember", "a:b.<locals>.c", "int64"], ["EnumMember", "../a:b", "int64"], ["EnumMember", "a b:c", "int64"], ["EnumMember", ["a", "b"], "int64"], ["Dispatcher", None],
]  # fmt: skip


@pytest.mark.parametrize("value", NO_TYPES, ids=range(len(NO_TYPES)))
def test_what_is_no_type_is_refused_in_one_line(value):
    with pytest.raises(Undecodable) as caught:
        decode(value, refused)
    assert "\n" not in str(caught.value) and 10 < len(str(caught.value)) < 400


@pytest.mark.parametrize(("form", "name"), [
    ("Dispatcher", "Color"), ("Dispatcher", "plain"), ("Dispatcher", "Counter"), ("ClassInstanceType", "twice"), ("ClassInstanceType", "Point"), ("ClassInstanceType", "HERE"),
    ("EnumMember", "Point"), ("EnumMember", "Counter"), ("EnumMember", "plain"), ("NamedUniTuple", "Color"), ("NamedUniTuple", "twice"), ("NamedUniTuple", "math"),
])  # fmt: skip
def test_what_a_reference_leads_to_must_be_what_the_form_is_about(form, name):
    fields = {"EnumMember": ["int64"]}.get(form, [])
    before = {"NamedUniTuple": ["int64", 2]}.get(form, [])
    with pytest.raises(Undecodable, match="must be"):
        decode([form, *before, f"{HERE}:{name}", *fields], loaded)


def test_an_object_that_cant_be_asked_is_refused():
    class Shy:
        def __getattribute__(self, name):
            raise RuntimeError(name)

    for encoded in (["ClassInstanceType", "a:b"], ["Dispatcher", "a:b"], ["EnumMember", "a:b", "int64"]):
        with pytest.raises(Undecodable, match="must be"):
            decode(encoded, lambda *_name: Shy())


def test_what_the_resolver_raises_is_passed_on():
    with pytest.raises(PermissionError, match="os:system"):
        decode(["ListType", ["Dispatcher", "os:system"]], refused)


NOT_IN_THE_TABLES = sorted(
    {*vars(types), *vars(object), "Pair", "eval"} - set(typecodec._FORM_NAMED) - set(typecodec._TYPE_NAMED)
)


def test_a_name_that_is_not_in_the_tables_is_refused(monkeypatch):
    assert {
        "Poison",
        "StructRef",
        "Opaque",
        "Type",
        "Integer",
        "Module",
        "DeferredType",
        "intp",
        "Any",
        "literal",
        "__class__",
    } <= set(NOT_IN_THE_TABLES)
    for cls in map(vars(types).get, NOT_IN_THE_TABLES):
        if isinstance(cls, type) and issubclass(cls, types.Type):
            monkeypatch.setattr(cls, "__init__", lambda *_args, **_keywords: pytest.fail("constructed"))
    for name in NOT_IN_THE_TABLES:
        for content in ([], ["int64"], [1], ["int64", "int64"], ["os:system"]):
            with pytest.raises(Undecodable, match="names no form"):
                decode([name, *content], refused)
        with pytest.raises(Undecodable, match="names no type"):
            decode(name, refused)


def test_the_tables_hold_numbas_own_types_only():
    own = ("numba.core.types.", "numba.np.types.")
    assert all(cls.__module__.startswith(own) for cls in typecodec._FORM_OF)
    assert all(type(typ).__module__.startswith(own) for typ in typecodec._TYPE_NAMED.values())
    assert {"undefined", "any", "unknown", "_undef_var"}.isdisjoint(typecodec._TYPE_NAMED)
    assert all(form.cls.__name__ == form.name for form in typecodec._FORM_OF.values())


def bombs():
    deep = "int64"
    for _ in range(100_000):
        deep = ["ListType", deep]
    yield deep
    nothing = []
    for _ in range(100_000):
        nothing = [nothing]
    yield nothing
    yield ["Tuple", ["int64"] * 10_000_000]
    yield ["StringLiteral", "x" * 10_000_000]
    yield ["EnumMember", "a." * 5_000_000 + "a:a", "int64"]
    yield "x" * 10_000_000
    yield ["x" * 10_000_000]
    yield [1] * 10_000_000
    wide = "int64"
    for _ in range(30):
        wide = ["Tuple", [wide, wide, "int8"]]
    yield wide
    doubling = "int64"
    for _ in range(30):
        doubling = ["PolynomialType", "int64", doubling, None, 1]
    yield doubling


def test_bombs_are_refused_at_once():
    for bomb in bombs():
        with pytest.raises(Undecodable) as caught:
            decode(bomb, refused)
        assert len(str(caught.value)) < 400


def test_the_largest_that_is_let_in_comes_back():
    # What takes exponentially long doesn't end within the time that a test has.
    inner = ["Tuple", [["UniTuple", "int64", n] for n in range(MAX_NODES // 6)]]
    for i in range(MAX_DEPTH - 2):
        inner = ["DictType", "int64", inner] if i % 2 else ["Tuple", [inner, "int8"]]
    typ = decode(inner, refused)
    assert encode(typ) == inner


# -- fuzzing -----------------------------------------------------------------------------------


def random_json(rng, depth=0):
    kinds = 9 if depth < 4 else 6
    kind = rng.randrange(kinds)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind == 1:
        return rng.choice([0, 1, -1, 2, 3, 2**31, 2**63, 2**64, -(2**70), 10**5000, rng.randrange(100)])
    if kind == 2:
        return rng.choice([0.0, -0.0, 1.5, math.nan, math.inf, 1e300])
    if kind == 3:
        return rng.choice(
            [
                "",
                "x",
                "os:system",
                "C",
                "s",
                "nan",
                "0.5",
                "\ud800",
                "int64" * 1000,
                f"{HERE}:Color",
                f"{HERE}:twice",
                "antigravity:x",
                "__main__:x",
            ]
        )
    if kind == 4:
        return rng.choice(list(typecodec._TYPE_NAMED))
    if kind == 5:
        return rng.choice([*typecodec._FORM_NAMED, "float", "complex", "tuple", "Poison"])
    if kind == 6:
        return {rng.choice("abc"): random_json(rng, depth + 1) for _ in range(rng.randrange(3))}
    items = [random_json(rng, depth + 1) for _ in range(rng.randrange(6))]
    return [rng.choice([*typecodec._FORM_NAMED, "tuple", "float"]), *items] if kind == 7 else items


def lists_in(value):
    if isinstance(value, list):
        yield value
        for item in value:
            yield from lists_in(item)


def mutated(rng, value):
    root = [copy.deepcopy(value)]
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        place = rng.choice(list(lists_in(root)))
        other = rng.choice(list(lists_in(root)))
        at = rng.randrange(len(place)) if place else 0
        match rng.randrange(7):
            case 0 if place:
                del place[at]
            case 1:
                place.insert(at, random_json(rng, 2))
            case 2 if place:
                place.insert(at, copy.deepcopy(place[at]))
            case 3 if place:
                place[at] = copy.deepcopy(rng.choice(other)) if other else []
            case 4:
                rng.shuffle(place)
            case 5 if place and isinstance(place[at], str):
                cut = rng.randrange(len(place[at]) + 1)
                place[at] = (
                    place[at][:cut]
                    + rng.choice(["", "x", ":", ".", "\0", place[at]])
                    + place[at][cut + rng.randrange(2) :]
                )
            case _ if place:
                place[at] = random_json(rng, 2)
    return root[0] if root else []


@pytest.mark.filterwarnings("ignore:First-class function type feature is experimental")
def test_ten_thousand_random_values_are_refused_or_are_what_encode_writes():
    rng = random.Random(20_260_101)
    asked = []
    targets = {
        f"{HERE}:{name}": obj
        for name, obj in globals().items()
        if name in {"Color", "Size", "Point", "Counter", "twice"}
    }

    def resolve(module, qualname):
        asked.append(f"{module}:{qualname}")
        try:
            return targets[asked[-1]]
        except KeyError:
            raise PermissionError(asked[-1]) from None

    sound = [encode(typ) for typ in ALL]
    sound += 9 * [encoded for encoded in sound if HERE in repr(encoded)]
    modules = set(sys.modules)
    outcomes = {"read": 0, "refused": 0, "untrusted": 0}
    for i in range(10_000):
        value = mutated(rng, rng.choice(sound)) if i % 4 else random_json(rng)
        asked.clear()
        try:
            outcome, typ = "read", decode(value, resolve)
        except Undecodable as error:
            outcome, verdict = "refused", str(error)
        except PermissionError as error:
            outcome, verdict = "untrusted", str(error)
        outcomes[outcome] += 1
        if outcome == "read":
            assert repr(encode(typ)) == repr(value)
        elif outcome == "refused":
            assert "\n" not in verdict and len(verdict) < 400
        else:
            assert verdict == asked[-1]
    assert set(sys.modules) == modules
    assert min(outcomes.values()) > 50, outcomes
