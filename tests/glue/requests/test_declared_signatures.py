"""What decorators declare signatures for, where a profile is gone through: compiled in its turn, and as in the program."""

from __future__ import annotations

import json

import pytest
from nbtest import proc

LIB = """
from numba import njit
@njit(["f8(f8)", "f4(f4)"])
def leaf(x):
    return x / 2
@njit(["f8(f8)"])
def f(x):
    return leaf(x) + 1
@njit("f8(i8)")
def converts(x):
    return leaf(x) + x
def helper(x):
    return f(x)
@njit("f8(f8)")
def fact(x):
    return x * fact(x - 1) if x > 1 else f(x)
TABLE = (converts,)
@njit("f8(i8)")
def from_table(x):
    return TABLE[0](x)
"""
SHOW = "print(lib.leaf(3.0), lib.f(3.0), lib.converts(3), lib.fact(5.0), lib.from_table(3))"
LANE = (
    """
import json, nbcache
from numba import njit
@njit
def wakes(x):
    return x
wakes(1)
from nbcache.glue.requests import declared_signatures
declared_signatures.begin()
import lib
def made():
    return [len(each.overloads) for each in (lib.leaf, lib.f, lib.converts, lib.fact, lib.from_table)]
print(json.dumps(made()))
with declared_signatures.turn_of(lib.f):
    print(json.dumps(made()))
declared_signatures.complete(lib.fact)
print(json.dumps(made()))
"""
    + SHOW
    + """
print(json.dumps(made()))
try:
    lib.f.compile("f4(f4)")
except RuntimeError as refused:
    print(refused)
"""
)


@pytest.fixture
def lane(place):
    (place / "lib.py").write_text(LIB)
    (place / "lane.py").write_text(LANE)
    (place / "main.py").write_text("import lib\n" + SHOW)
    return place / "lane.py"


def test_nothing_is_compiled_before_it_is_needed_and_then_all_that_is_declared(lane, place):
    expected = proc.run([place / "main.py"])
    assert expected.status == 0, expected.stderr
    ended = proc.run([lane], place / "store")
    assert ended.status == 0, ended.stderr
    imported, turn, completed, results, called, refused = ended.stdout.splitlines()
    assert json.loads(imported) == [0, 0, 0, 0, 0]
    assert json.loads(turn) == [2, 0, 0, 0, 0]
    assert json.loads(completed) == [2, 1, 0, 1, 0]
    assert json.loads(called) == [2, 1, 1, 1, 1]
    assert results == expected.stdout.strip()
    assert refused == "compilation disabled"


@pytest.mark.long
def test_what_was_built_so_is_what_a_program_looks_for(lane, place):
    events = place / "events"
    expected = proc.run([place / "main.py"])
    assert expected.status == 0, expected.stderr
    assert proc.run([lane], place / "store").status == 0
    ended = proc.run([place / "main.py"], place / "store", {"NBTEST_EVENTS": str(events)})
    assert ended.stdout == expected.stdout, ended.stderr
    [told] = map(json.loads, events.read_text().splitlines())
    # What is reached through a tuple isn't foreseen: that was compiled under a key that no program has. And a function
    # that calls itself finds itself in no variable in its decorator.
    assert {name.partition("(")[0] for name in told["functions"]} <= {"lib:from_table", "lib:fact"}


EARLY = """
from numba import cfunc, njit, vectorize
@njit("f8(f8)")
def half(x):
    return x / 2
@njit("f8(f8)")
def third(x):
    return x / 3
@njit("f8(f8)")
def quarter(x):
    return x / 4
@njit
def called(x):
    return half(x) + 1
called(1.0)
@vectorize(["f8(f8)"])
def ufunc(x):
    return third(x) + 1
@cfunc("f8(f8)")
def callback(x):
    return quarter(x) + 1
"""
CALL_EARLY = "print(early.called(3.0), early.ufunc(3.0), early.callback.ctypes(3.0))"
REFUSING = """
from numba import njit
@njit("f8(f8)")
def half(x):
    return x / 2
half.disable_compile()
try:
    half("text")
except TypeError as refused:
    message = str(refused)
try:
    @njit(["f8(f8)", "f8(unicode_type)"])
    def doubled(x):
        return x / 1 * 2
except Exception:
    pass
@njit
def user(x):
    return doubled(x)
"""
BEGIN = """
import nbcache
from numba import njit
njit(lambda x: x)(1)
from nbcache.glue.requests import declared_signatures
declared_signatures.begin()
"""


@pytest.mark.long
def test_what_a_module_compiles_on_import_is_what_a_program_looks_for(place):
    events = place / "events"
    (place / "early.py").write_text(EARLY)
    (place / "main.py").write_text("import early\n" + CALL_EARLY)
    (place / "lane.py").write_text(BEGIN + "import early")
    expected = proc.run([place / "main.py"])
    assert expected.status == 0, expected.stderr
    built = proc.run([place / "lane.py"], place / "store")
    assert built.status == 0, built.stderr
    ended = proc.run([place / "main.py"], place / "store", {"NBTEST_EVENTS": str(events)})
    assert ended.stdout == expected.stdout, ended.stderr
    [told] = map(json.loads, events.read_text().splitlines())
    assert not told["functions"]


@pytest.mark.long
def test_what_numba_refuses_is_refused(place):
    (place / "refusing.py").write_text(REFUSING)
    (place / "main.py").write_text("import refusing\nprint(refusing.message)")
    again = """
for _ in range(2):
    try:
        refusing.user(1.0)
    except Exception as error:
        print(type(error).__name__)
"""
    (place / "lane.py").write_text(BEGIN + "import refusing\nprint(refusing.message)" + again)
    expected = proc.run([place / "main.py"])
    assert expected.status == 0, expected.stderr
    ended = proc.run([place / "lane.py"], place / "store")
    # What can't be completed is no function without signatures, which would take any arguments.
    assert ended.stdout == expected.stdout + "TypingError\n" * 2, ended.stderr


BEHIND_A_UFUNC = """
from numba import njit, vectorize
@njit(["f8(f8)", "f4(f4)"])
def leaf(x):
    return x / 2
@vectorize
def scaled(x):
    return leaf(x) * 3
@njit("f8(f8)")
def through(x):
    return scaled(x)
"""


@pytest.mark.long
def test_what_is_called_by_way_of_a_ufunc_is_complete_before(place):
    (place / "lib.py").write_text(BEHIND_A_UFUNC)
    (place / "main.py").write_text("import lib\nprint(lib.through(3.0))")
    head = LANE.partition("def made()")[0]
    (place / "lane.py").write_text(
        head + "with declared_signatures.turn_of(lib.through):\n    pass\ndeclared_signatures.complete(lib.through)\n"
    )
    events, expected = place / "events", proc.run([place / "main.py"])
    assert expected.status == 0, expected.stderr
    assert proc.run([place / "lane.py"], place / "store").status == 0
    ended = proc.run([place / "main.py"], place / "store", {"NBTEST_EVENTS": str(events)})
    assert ended.stdout == expected.stdout == "4.5\n", ended.stderr
    [told] = map(json.loads, events.read_text().splitlines())
    assert not {name.partition("(")[0] for name in told["functions"]} & {"lib:through", "lib:leaf"}
