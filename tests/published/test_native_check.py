"""The check in front of published code: what it lets through is what Numba's dispatcher would have chosen."""

import gc
import itertools
import pickle
import sys
import sysconfig

import numba
import numpy as np
import pytest
from nbtest.checked import checked, outcomes
from numba import types
from numba.extending import overload

from nbcache.errors import ImageError
from nbcache.glue.publishing import native_check


class Float(float):
    """A number that isn't exactly one."""


class Integer(int):
    """An int that isn't exactly one."""


class Array(np.ndarray):
    """An array of another class."""


def readonly(array):
    array.flags.writeable = False
    return array


def with_own_dtype(array):
    """An array whose dtype is an object of its own."""
    copy = array.view(np.dtype(array.dtype.str, metadata={"own": True}))
    assert copy.dtype is not array.dtype
    return copy


VALUES = [
    True,
    0,
    2**63 - 1,
    2**63,
    2**80,
    -1,
    1.5,
    Float(1.5),
    Integer(3),
    1j,
    None,
    "text",
    b"bytes",
    [1.0],
    *(kind(1) for kind in (np.int8, np.int16, np.int32, np.int64, np.longlong, np.uint8, np.uint64)),
    *(kind(1) for kind in (np.float16, np.float32, np.float64, np.longdouble, np.complex64, np.complex128, np.bool_)),
    np.datetime64("2020-01-01"),
    *(np.zeros(3, kind) for kind in ("f8", "f4", "i8", "i4", "u1", "?", "c16", "f2", "M8[s]", "O", "q", ">f8", "S3")),
    *(np.zeros((2, 3), kind) for kind in ("f8", "i8")),
    np.zeros((2, 3), order="F"),
    np.zeros((2, 1), order="F"),
    np.zeros((4, 6))[::2, ::2],
    np.arange(9.0)[::2],
    np.zeros(0),
    np.zeros((0, 3)),
    np.array(2.5),
    np.frombuffer(bytearray(25), "f8", 2, offset=1),
    readonly(np.zeros(3)),
    readonly(np.arange(9.0)[::2]),
    np.zeros(3).view(Array),
    np.ma.masked_array([1.0]),
    with_own_dtype(np.zeros(3)),
    pickle.loads(pickle.dumps(np.zeros(3))),
    np.zeros(3, [("a", "f8")]),
    (1, 2),
    (1.0, 2),
    (1.0, 2, 3),
    (),
    (1, True),
    (np.zeros(3), 1.5),
    (np.zeros(3)[::2], 1.5),
    (None, 1),
    ((1, 2.0), "a"),
]

A1, A2 = types.float64[:], types.float64[:, :]
C1, C2 = types.float64[::1], types.float64[:, ::1]
F2 = types.float64[::1, :]
R1 = types.Array(types.float64, 1, "A", readonly=True)
RC1 = types.Array(types.float64, 1, "C", readonly=True)

ALONE = [
    *(getattr(types, kind) for kind in ("int8", "int32", "int64", "uint8", "uint64", "float32", "float64")),
    types.complex64,
    types.complex128,
    types.boolean,
    types.unicode_type,
    types.none,
    A1,
    A2,
    C1,
    C2,
    F2,
    R1,
    RC1,
    types.float64[:],
    types.Array(types.float64, 0, "C"),
    types.boolean[::1],
    types.complex128[::1],
    types.UniTuple(types.int64, 2),
    types.Tuple((types.float64, types.int64)),
    types.Tuple(()),
    types.Tuple((types.int64, types.boolean)),
    types.Tuple((C1, types.float64)),
    types.Tuple((A1, types.float64)),
    types.Tuple((types.Tuple((types.int64, types.float64)), types.unicode_type)),
    types.Optional(types.float64),
    types.Optional(types.int64),
    types.Optional(C1),
]
"""Types of one parameter."""

TOGETHER = [
    [types.int64, types.float64],
    [types.float64, types.int64, types.boolean, types.complex128],
    [types.float32, types.float64],
    [types.int32, types.int64, types.uint64],
    [C1, A1],
    [A1, C1],
    [RC1, C1],
    [R1, A1, C1],
    [C1, types.float32[::1], types.int64[::1], C2],
    [A2, F2, C2],
    [A1, A2, types.int64],
    [A1, types.int64[:]],
    [R1, types.Array(types.int64, 1, "A", readonly=True)],
    [types.Optional(types.float64), types.Optional(types.int64)],
    [types.Optional(types.float64), types.int64],
    [types.none, types.int64],
    [types.UniTuple(types.int64, 2), types.Tuple((types.float64, types.int64))],
    [types.unicode_type, types.int64],
]
"""Types of the only parameter of several signatures."""


def marker(value):
    """For `numba_choice`: the number of the type that a value was given."""
    raise NotImplementedError


NUMBERS = {}


@overload(marker)
def mark(value):
    number = NUMBERS.setdefault(str(value), len(NUMBERS))
    return lambda value: number


def numba_choice(kinds):
    """A function of Numba's that returns the index of the signature that its dispatcher chose; it raises for none."""
    chosen = numba.njit([(kind,) for kind in kinds])(lambda value: marker(value))
    numbers = [NUMBERS[str(kind)] for kind in kinds]
    return lambda value: numbers.index(chosen(value))


@pytest.mark.every(3)
@pytest.mark.parametrize("kinds", [*([kind] for kind in ALONE), *TOGETHER], ids=str)
def test_what_is_let_through_is_what_numba_would_choose(kinds):
    check, choice = outcomes([(kind,) for kind in kinds]), numba_choice(kinds)
    passed = 0
    for value in VALUES:
        chosen = check(value)
        if chosen == "slow":
            continue
        passed += 1
        try:
            expected = choice(value)
        except OverflowError:
            expected = chosen  # its wrapper raises, as it would for us
        assert chosen == expected, f"{value!r} went to {kinds[chosen]}"
    assert passed or all(isinstance(kind, types.Optional) for kind in kinds)


USUAL = [
    (types.float64, 1.5),
    (types.float64, np.float64(1.5)),
    (types.float64, 3),
    (types.float64, -(2**63)),
    (types.float32, np.float32(1.5)),
    (types.float32, 2**63 - 1),
    (types.int64, 3),
    (types.int64, 2**70),
    (types.int64, np.int64(3)),
    (types.uint8, np.uint8(3)),
    (types.boolean, True),
    (types.boolean, np.bool_(True)),
    (types.complex128, 1j),
    (types.unicode_type, "text"),
    (types.none, None),
    (C1, np.zeros(3)),
    (C1, with_own_dtype(np.zeros(3))),
    (C1, pickle.loads(pickle.dumps(np.zeros(3)))),
    (A1, np.zeros(3)),
    (A1, np.zeros(6)[::2]),
    (F2, np.zeros((2, 3), order="F")),
    (RC1, readonly(np.zeros(3))),
    (RC1, np.zeros(3)),
    (types.Optional(types.float64), None),
    (types.Optional(types.float64), 1.5),
    (types.Optional(types.float64), 1),
    (types.Tuple((types.float64, C1)), (1.5, np.zeros(3))),
]


@pytest.mark.parametrize(("kind", "value"), USUAL, ids=str)
def test_usual_arguments_are_recognised(kind, value):
    assert outcomes([(kind,)])(value) == 0


UNUSUAL = [
    (types.int64, True),
    (types.int64, Integer(3)),
    (types.int64, 1.0),
    (types.float64, 2**63),
    (types.float64, True),
    (types.float64, Integer(1)),
    (types.float64, Float(1)),
    (types.float64, np.float32(1)),
    (types.boolean, 1),
    (types.unicode_type, np.str_("text")),
    (C1, np.zeros(6)[::2]),
    (C1, np.zeros(3, ">f8")),
    (C1, np.zeros(3, "f4")),
    (C1, np.zeros(3, "i8")),
    (C1, np.zeros((3, 1))),
    (C1, readonly(np.zeros(3))),
    (C1, np.frombuffer(bytearray(25), "f8", 2, offset=1)),
    (C1, np.zeros(3).view(Array)),
    (C1, None),
    (C1, [1.0]),
    (F2, np.zeros((2, 3))),
    (F2, np.zeros((2, 1), order="F")),
    (types.int64[::1], np.zeros(3, "q" if np.dtype("l").itemsize == 8 else "l")),
    (types.UniTuple(types.int64, 2), [1, 2]),
    (types.UniTuple(types.int64, 2), (1, 2, 3)),
    (types.Optional(types.int64), 1.0),
]


@pytest.mark.parametrize(("kind", "value"), UNUSUAL, ids=str)
def test_what_is_unusual_is_left_to_the_slow_path(kind, value):
    assert outcomes([(kind,)])(value) == "slow"


@pytest.mark.parametrize(
    "kind", [types.NPDatetime("s"), types.List(types.int64), types.Bytes(types.uint8, 1, "C")], ids=str
)
def test_kinds_that_are_not_known_are_left_to_the_slow_path(kind):
    check = outcomes([(kind,)])
    assert [check(value) for value in VALUES] == ["slow"] * len(VALUES)


def test_number_and_kind_of_arguments_choose_the_signature():
    check = outcomes([(), (types.float64,), (types.float64, types.float64), (types.float64, C1)])
    assert [check(), check(1.0), check(1.0, 2.0), check(1.0, np.zeros(2))] == [0, 1, 2, 3]
    assert check(1) == 1
    assert [check(True), check(1.0, 2.0, 3.0), check(1.0, None)] == ["slow"] * 3


def test_arguments_that_are_left_out_are_dummies_for_the_wrapper():
    received = []
    check = checked(
        [(types.float64, types.Omitted(2), types.Omitted("x"))], [lambda args: received.append(args)], "slow"
    )
    check(1.5)
    assert received == [(1.5, None, None)]
    between = outcomes([(types.float64, types.Omitted(2), types.float64)])
    assert between(1.5, 2.5) == "slow"


def test_keywords_reach_the_slow_path_as_they_are():
    check = checked([(types.float64,)], [lambda args: "fast"], lambda *args, **keywords: (args, keywords))
    assert check(1.0) == "fast"
    assert check(value=1.0) == ((), {"value": 1.0})
    assert check(1, 2, other="x") == ((1, 2), {"other": "x"})


def test_an_int_is_no_float_where_another_signature_may_take_it():
    assert outcomes([(types.float64,), (types.int32,)])(1) == "slow"
    assert outcomes([(types.float64,), (types.int64,)])(1) == 1


KEYWORDS = [
    ((1.0, 2.0), {}, (1.0, 2.0)),
    ((1.0,), {"b": 2.0}, (1.0, 2.0)),
    ((), {"a": 1.0, "b": 2.0}, (1.0, 2.0)),
    ((), {"b": 2.0, "a": 1}, (1, 2.0)),
    ((), {"a": 1.0}, (1.0, None)),
    ((1.0,), {"a": 2.0}, "slow"),
    ((1.0,), {"c": 2.0}, "slow"),
    ((), {"b": 2.0}, "slow"),
    ((1.0, 2.0), {"b": 2.0}, "slow"),
    ((1.0, 2.0), {"c": 2.0}, "slow"),
    ((), {"b": 2.0, "a": "text"}, "slow"),
]


@pytest.mark.parametrize(("given", "named", "received"), KEYWORDS, ids=str)
def test_keywords_are_put_into_their_places(given, named, received):
    overloads = [(types.float64, types.float64), (types.float64, types.Omitted(2.0))]
    check = checked(overloads, [lambda args: args] * 2, lambda *_args, **_named: "slow", ["a", "b"])
    for _ in range(3):
        assert check(*given, **named) == received


def test_a_keyword_that_is_another_object_of_the_same_text_is_left_to_the_slow_path():
    check = checked([(types.float64,)], [lambda _args: "fast"], lambda **named: named, ["value"])
    other = "val" + str(b"ue".decode())
    assert check(value=1.0) == "fast"
    assert check(**{other: 1.0}) in ("fast", {"value": 1.0})


def test_references_of_keywords_are_what_they_were():
    check = checked([(types.float64,) * 2], [lambda _args: None], lambda *_args, **_named: None, ["a", "b"])
    values = [float(n) + 0.5 for n in range(2)]
    before = [sys.getrefcount(each) for each in values]
    for _ in range(100):
        check(values[0], b=values[1])
        check(b=values[1], a=values[0])
        check(a=values[0], c=values[1])
    assert [sys.getrefcount(each) for each in values] == before


@pytest.mark.parametrize("names", [["a"] * 17, ["ä"]], ids=["many", "not-ascii"])
def test_keywords_of_very_many_parameters_are_left_to_the_slow_path(names):
    check = checked([(types.float64,) * len(names)], [lambda _args: "fast"], lambda **named: len(named), names)
    assert check(*[1.0] * len(names)) == "fast"
    assert check(**{names[0]: 1.0}) == 1


def test_exceptions_of_the_slow_path_pass():
    def slow(*args):
        raise TypeError("takes a number")

    check = checked([(types.float64,)], [lambda args: "fast"], slow)
    with pytest.raises(TypeError, match="takes a number"):
        check("text")


def wrapper_of(function):
    result = next(iter(function.overloads.values()))
    return result.library.get_pointer_to_function(result.fndesc.llvm_cpython_wrapper_name)


@numba.njit("float64(float64[::1], int64)")
def item(array, index):
    if index >= len(array):
        raise IndexError("there is no such item")
    return array[index]


def test_a_wrapper_of_numba_is_called_and_its_exceptions_pass():
    check = checked([item.signatures[0]], [wrapper_of(item)], None)
    assert check(np.arange(3.0), 2) == 2.0
    with pytest.raises(IndexError, match="there is no such item"):
        check(np.arange(3.0), 3)
    with pytest.raises(OverflowError):
        check(np.arange(3.0), 2**70)


def test_references_are_what_they_were():
    def slow(*args):
        raise TypeError

    array, index, wrong = np.arange(3.0), 10**9, "a text of its own"
    check = checked([item.signatures[0]], [wrapper_of(item)], slow)
    kept = [array, index, wrong, slow, np.ndarray]

    def rounds():
        for _ in range(3000):
            check(array, 1)
            for arguments in ((array, index), (array, wrong), (wrong,), ()):
                try:
                    check(*arguments)
                except (IndexError, TypeError):
                    continue
                raise AssertionError

    def counts():
        # What tests before left for the collector to find may refer to these as well.
        gc.collect()
        return [sys.getrefcount(each) for each in kept]

    rounds()
    before = counts()
    rounds()
    after = counts()
    # Numba leaves arrays alive when something is raised: one reference each time, with its own dispatcher as well.
    assert after[0] - before[0] in {0, 3000}
    assert after[1:] == before[1:]


def test_no_memory_for_the_arguments_is_an_error():
    testing = pytest.importorskip("_testcapi")
    parameters = (types.none,) * 30  # a tuple of so many isn't kept for the next one
    check, arguments = outcomes([parameters]), (None,) * 30
    assert check(*arguments) == 0
    testing.set_nomemory(0, 0)
    try:
        check(*arguments)
    except MemoryError:
        failed = True
    else:
        failed = False
    finally:
        testing.remove_mem_hooks()
    assert failed
    assert check(*arguments) == 0


def test_layouts_of_this_process_are_the_expected_ones():
    native_check.verify.cache_clear()
    native_check.verify()


@pytest.mark.parametrize(
    "offset", ["_TYPE", "_SIZE", "_ITEMS", "_NDIM", "_DESCR", "_FLAGS", "_BYTE_ORDER", "_TYPE_NUMBER"]
)
def test_another_layout_is_refused(monkeypatch, offset):
    native_check.verify.cache_clear()
    monkeypatch.setattr(native_check, offset, getattr(native_check, offset) + (1 if offset == "_BYTE_ORDER" else 8))
    with pytest.raises(ImageError, match="elsewhere"):
        native_check.verify()


def test_a_python_without_a_gil_is_refused(monkeypatch):
    native_check.verify.cache_clear()
    monkeypatch.setattr(sysconfig, "get_config_var", {"Py_GIL_DISABLED": 1}.get)
    with pytest.raises(ImageError, match="GIL"):
        native_check.dispatch_ir([], "nothing")


def test_threads_may_call_at_once():
    from concurrent.futures import ThreadPoolExecutor

    check = outcomes([(C1,), (types.float64,)])
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(check, itertools.islice(itertools.cycle([np.zeros(3), 1.5, "no"]), 9000)))
    assert found == [0, 1, "slow"] * 3000
