"""What can't go without Numba is refused when it is published, with the reason; or published for those who have Numba."""

import textwrap

import pytest
from nbtest.published import accumulator, node

import nbcache

MODULE = """
import ctypes
import enum
import numpy as np
from numba import cfunc, guvectorize, jit, literally, njit, objmode, typed, types, vectorize
from numba.experimental import jitclass

@njit
def plain(x):
    return x + 1

@njit
def with_block(x):
    with objmode(y="int64"):
        y = len(str(x))
    return y

@jit(forceobj=True)
def interpreted(x):
    return x

@njit
def length(values):
    return len(values)

@njit
def new_list(n):
    found = typed.List()
    found.append(n)
    return found

@njit
def new_dict(n):
    return {n: n}

@jitclass([("x", types.int64)])
class Counter:
    def __init__(self, x):
        self.x = x

@njit
def count(counter):
    return counter.x

@njit
def new_counter(x):
    return Counter(x)

@njit
def call(function, x):
    return function(x)

@njit
def returns_function():
    return plain

class Color(enum.Enum):
    RED = 1

@njit
def is_red(color):
    return color == Color.RED

class Level(enum.IntEnum):
    LOW = 1

@njit
def is_low(level):
    return level == Level.LOW

@njit
def scaled(x, factor):
    return x * factor

@njit
def tripled(x):
    return scaled(x, 3)

@cfunc("f8(f8)")
def called_by_c(x):
    return x + 1

@njit
def calls_callback(x):
    return called_by_c(x)

@njit
def draw(generator):
    return generator.random()

@njit
def literal(n):
    return literally(n) + 1

callback = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)(abs)

@njit
def foreign(x):
    return callback(x)

@njit
def uncompiled(x):
    return x

@vectorize(["f8(f8)"], target="parallel")
def parallel(x):
    return x

@guvectorize(["(f8[:], f8[:])"], "(n),(n)", writable_args=("a",))
def writes(a, b):
    a[0] = b[0]

"""
ATTEMPT = """
import refused as r
import nbcache.errors
import numpy as np
def attempt(function, *args):
    if args:
        function(*args)
    try:
        nbcache.publish("refused", function)
    except nbcache.errors.NbcacheError as exc:
        print(f"{type(exc).__name__}: {exc}")
    else:
        print("published")
"""
OBJECT_MODE = "it runs Python code of its own (objmode), which needs Numba: leave that to its caller"

CASES = {
    "r.with_block, 1": f"with_block can't be published: {OBJECT_MODE}",
    "r.interpreted, 1": f"interpreted can't be published: {OBJECT_MODE}",
    "r.njit(r.length.py_func), [1, 2]": "it takes a reflected list(int64)<iv=None>, which is copied back element by element when the call is over: take an array",
    "r.njit(r.length.py_func), {1, 2}": "it takes a reflected set(int64), which is copied back element by element",
    "r.njit(r.length.py_func), r.typed.List([1])": "it takes ListType[int64], which only Numba can make: take arrays or tuples instead, and make it inside",
    "r.njit(r.length.py_func), r.new_dict(1)": "it takes DictType[int64,int64]",
    "r.new_list, 1": "it returns ListType[int64], which only Numba can hold: return arrays or tuples of its content instead",
    "r.new_dict, 1": "it returns DictType[int64,int64]",
    "r.count, r.Counter(1)": "it takes instance.jitclass.Counter",
    "r.new_counter, 1": "it returns instance.jitclass.Counter",
    "r.call, r.plain, 1": "it takes a function, which would have to be compiled by Numba: call it by its name instead",
    "r.returns_function, *()": "has not been compiled",
    "r.is_red, r.Color.RED": "it takes Enum<int64>(Color), which a node without Numba doesn't know how to hand over",
    "r.is_low, r.Level.LOW": "it takes IntEnum<int64>(Level), whose class is nothing without Numba: publish it for int64, as which members pass",
    "r.calls_callback, 1.0": "it has the address of a CFunc built in, which no other process has",
    "r.draw, np.random.default_rng(1)": "it takes NumPyRandomGeneratorType,",
    "r.literal, 3": "it takes the value 3 itself as a part of its type: name plain types in signatures=[…], or make it",
    "r.foreign, -3": "built in, which no other process has",
    "r.uncompiled, *()": "it has not been compiled for any signature yet: say which in signatures=[…], or call it first",
    "r.parallel, *()": "it is a ufunc with target='parallel', or somebody else's",
    "r.writes, *()": "it writes to its inputs (writable_args)",
    "len, *()": "builtin_function_or_method can't be published: it is a builtin_function_or_method: publish what @njit",
}


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What publishing each of them comes to."""
    folder = tmp_path_factory.mktemp("refused")
    (folder / "refused.py").write_text(textwrap.dedent(MODULE))
    program = ATTEMPT + "\n".join(f"attempt({case})" for case in CASES)
    lines = accumulator(folder / "store", program, folder, NBCACHE_LOG="ERROR").stdout.splitlines()
    return dict(zip(CASES, lines, strict=True))


@pytest.mark.every(4)
@pytest.mark.parametrize("case", CASES)
def test_what_needs_numba_is_refused_with_the_reason(said, case):
    assert said[case].startswith("NotPublishableError: ")
    assert CASES[case] in said[case]


@pytest.mark.parametrize("case", CASES)
def test_each_reason_says_what_to_do(said, case):
    reason = said[case].partition("can't be published: ")[2]
    assert reason.partition(": ")[2]


def test_what_no_node_can_import_is_not_published_for_those_who_have_numba(folder):
    program = """
from numba import njit
from refused import new_list
try:
    nbcache.publish("mine", njit(lambda n: new_list(n)), ["(int64,)"], numba="allow")
except nbcache.errors.NotPublishableError as exc:
    print(exc)
"""
    said = accumulator(folder / "store", program, folder, NBCACHE_LOG="ERROR").stdout
    assert "it returns ListType[int64]" in said
    assert "; nor can a node import it, which has Numba: define it in a module, at the top level" in said


@pytest.mark.long
def test_what_was_compiled_for_literals_alone_is_published_for_plain_types(folder):
    program = (
        ATTEMPT
        + """
r.tripled(2)
attempt(r.scaled)
nbcache.publish("scaled", r.scaled, ["int64(int64, int64)"])
"""
    )
    assert CASES["r.literal, 3"] in accumulator(folder / "store", program, folder, NBCACHE_LOG="ERROR").stdout
    load = "print(nbcache.load('scaled')(2, 4))"
    assert node(folder / "store", load, folder).stdout == "8\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "refused.py").write_text(textwrap.dedent(MODULE))
    return tmp_path


@pytest.mark.long
def test_what_was_called_without_arguments_is_refused_for_its_own_reason(folder):
    program = ATTEMPT + "r.returns_function(); attempt(r.returns_function)"
    (function,) = accumulator(folder / "store", program, folder).stdout.splitlines()
    assert "it returns a function, which would have to be called by Numba" in function


def test_what_was_compiled_before_the_cache_was_on_is_refused(folder):
    program = (
        "import refused\nrefused.plain(1)\nimport os\nnbcache.enable(os.environ['STORE'])\n"
        + ATTEMPT
        + "attempt(r.plain)"
    )
    outcome = accumulator(None, program, folder, STORE=str(folder / "store"))
    assert (
        "plain can't be published: it is in no entry of the store: it was compiled before nbcache was on"
        in outcome.stdout
    )


@pytest.mark.long
def test_without_a_store_publishing_says_what_to_do(folder):
    outcome = accumulator(None, ATTEMPT + "attempt(r.plain, 1)", folder)
    assert outcome.stdout == (
        "PublicationError: refused: nbcache is off in this process: set NBCACHE_DIR, or call nbcache.enable(directory) first\n"
    )


@pytest.mark.long
def test_what_needs_numba_is_published_for_those_who_have_it(folder):
    store = folder / "store"
    accumulator(
        store,
        """
        import refused
        refused.with_block(12)
        refused.plain(1)
        nbcache.publish("both", {"block": refused.with_block, "plain": refused.plain}, numba="allow")
        """,
        folder,
    )
    load = 'f = nbcache.load("both", numba="allow"); print(f.block(123), f.plain(2), type(f.block).__name__, type(f.plain).__name__)'
    assert accumulator(store, load, folder).stdout == "3 3 CPUDispatcher builtin_function_or_method\n"
    program = """
    import nbcache.errors
    for words in ("forbid", "allow"):
        try:
            nbcache.load("both", numba=words)
        except nbcache.errors.PublicationError as exc:
            print(exc)
    """
    forbidden, missing = node(store, program, folder).stdout.splitlines()
    assert (
        forbidden == f"both: with_block needs Numba: {OBJECT_MODE}; load it with numba='allow' where Numba is installed"
    )
    assert missing == "both: refused:with_block can't be imported instead: numba is not to be imported here"


@pytest.mark.parametrize("call", [lambda: nbcache.publish("a", abs, numba="yes"), lambda: nbcache.load("a", numba=1)])
def test_a_word_that_says_neither_yes_nor_no_to_numba_is_refused(call):
    with pytest.raises(ValueError, match="is neither 'forbid' nor 'allow'"):
        call()
