"""Filling a store before anybody asks: afterwards, the program compiles nothing."""

from __future__ import annotations

import json
import os
import sys

import pytest
from nbtest import denials, proc, usage
from nbtest.kinds import LIB, MAIN


@pytest.fixture
def main(place):
    (place / "lib.py").write_text(LIB)
    (place / "main.py").write_text(MAIN)
    return place / "main.py"


@pytest.fixture
def small(place):
    """A program that doesn't take long, where what counts isn't every kind of function."""
    (place / "lib.py").write_text(LIB)
    (place / "main.py").write_text("import lib\nprint(lib.f(1), lib.u(2.0))\n")
    return place / "main.py"


def prewarm(store, *options, cwd, **extra):
    return proc.run(["-m", "nbcache", "prewarm", "--dir", store, *options], None, extra, cwd=cwd)


def keys(warm):
    return {json.loads(line)["key"] for line in warm.read_text().splitlines()}


def assert_warm(main, store, **extra):
    """The program says what it says without a cache, and builds nothing."""
    expected = proc.run([main], None, extra)
    before = usage.read(store)
    outcome = proc.run([main], store, {"NBCACHE_READONLY": "1", **extra})
    assert outcome.said == expected.said, outcome.stderr
    news = usage.read(store).since(before)
    assert not news.misses
    assert not news.builds, [news.functions[key] for key in news.builds]


@pytest.mark.long
def test_record_empty_store_prewarm(main, place):
    warm = place / "warm.jsonl"
    assert proc.run([main], place / "first", {"NBCACHE_RECORD": str(warm)}).status == 0
    # A run that only hits records the same, and what it is now asked for on its own.
    assert proc.run([main], place / "first", {"NBCACHE_RECORD": str(place / "again")}).status == 0
    assert keys(warm) <= keys(place / "again")
    done = prewarm(place / "second", warm, cwd=place)
    assert done.status == 0, done.stderr
    assert_warm(main, place / "second")


OWN_TYPES = {
    "a dispatcher": ("@njit\ndef cost(x):\n    return x + 1\n", "lib.applied(cost, 1.0)"),
    "closures": (
        "def made(k):\n    @njit\n    def inner(x):\n        return x * k\n    return inner\n",
        "lib.applied(made(3), 1.0), lib.applied(made(4), 1.0)",
    ),
    "a dispatcher, and an array's strides": ("@njit\ndef cost(x):\n    return x + 1\n", "lib.beside(cost, 1.0)"),
    "omitted arrays": ("", "lib.defaults(1.0)"),
    "a named tuple": ("Point = collections.namedtuple('Point', 'x y')\n", "lib.first(Point(1, 2.0))"),
    "an enumeration": ("class Colour(enum.Enum):\n    RED = 1\n", "lib.value_of(Colour.RED)"),
    "a jitclass": (
        "@njit\ndef cost(x):\n    return x.value + 1\n",
        "lib.applied(cost, lib.Box(2.0))",
    ),
    "typed containers": ("", "lib.size(Dict.empty(types.unicode_type, types.float64)), lib.size(List([1, 2]))"),
    "records": ("", "lib.of_record(np.array([(1, 2.0)], dtype=[('a', 'i4'), ('b', 'f8')])[0])"),
    "its own function": (
        "@njit\ndef cost(x):\n    return x + 1\n@njit\ndef own(f, x):\n    return f(x)\n",
        "own(cost, 1.0)",
    ),
}
OWN_LIB = """
import collections
import numpy as np
from numba import njit, types
from numba.experimental import jitclass
Pair = collections.namedtuple("Pair", "a b")
TABLE = np.arange(3.0)
@jitclass([("value", types.float64)])
class Box:
    def __init__(self, value):
        self.value = value
@njit
def applied(f, x):
    return f(x)
@njit
def defaults(x, t=TABLE, n=Pair(1, 2.0), k=(1, 2)):
    return x + t[1] + n.a + k[1]
@njit
def beside(f, x, t=np.array([[], []]).T, u=np.arange(6.0)[::2]):
    return f(x) + t.size + u[1]
@njit
def first(p):
    return p[0]
@njit
def value_of(x):
    return x.value
@njit
def size(x):
    return len(x)
@njit
def of_record(r):
    return r.a + r.b
"""


@pytest.mark.long
@pytest.mark.parametrize("what", OWN_TYPES)
def test_types_that_only_the_program_has(place, what):
    """What has no name that another process finds goes by value, and the daemon's key is the program's."""
    defined, called = OWN_TYPES[what]
    imports = "import collections, enum\nimport numpy as np\nfrom numba import njit, types\n"
    imports += "from numba.typed import Dict, List\nimport lib\n"
    main, warm = place / "main.py", place / "warm.jsonl"
    main.write_text(f"{imports}{defined}print({called})\n")
    (place / "lib.py").write_text(OWN_LIB)
    assert proc.run([main], place / "first", {"NBCACHE_RECORD": str(warm)}).status == 0
    done = prewarm(place / "second", warm, cwd=place)
    assert done.status == 0, done.stderr
    assert_warm(main, place / "second")


CONFIGURED = """
from numba import guvectorize, njit, vectorize
SCALE = 1
def configure(scale):
    global SCALE, ORDER
    SCALE, ORDER = scale, scale + 1
@njit
def scaled(x):
    return x * SCALE
@njit
def outer(x):
    return scaled(x) + 1
@guvectorize("(n)->(n)")
def shifted(values, out):
    for i in range(len(values)):
        out[i] = values[i] + SCALE
class Field:
    @staticmethod
    def add(a, b):
        return (a + b) % ORDER
"""


@pytest.mark.long
def test_what_reads_variables_that_the_program_has_set(place):
    """Another process that imports the module has other values there, or none: these go with the function."""
    (place / "model.py").write_text(CONFIGURED)
    main, warm = place / "main.py", place / "warm.jsonl"
    main.write_text(
        "import model, numpy as np\nfrom numba import vectorize\nmodel.configure(4)\n"
        "add = vectorize(['int64(int64, int64)'])(model.Field.add)\nprint(model.outer(2), add(3, 4))\n"
        "print(model.shifted(np.arange(3.0), np.empty(3)))\n"
    )
    assert proc.run([main], place / "first", {"NBCACHE_RECORD": str(warm)}).status == 0
    done = prewarm(place / "second", warm, cwd=place)
    assert done.status == 0, done.stderr
    assert_warm(main, place / "second")


@pytest.mark.long
def test_what_runs_without_assertions_is_asked_of_nobody_who_has_them(small, place):
    warm = place / "warm.jsonl"
    assert proc.run(["-O", small], place / "first", {"NBCACHE_RECORD": str(warm)}).status == 0
    assert not warm.exists() or not keys(warm)


@pytest.mark.long
def test_in_the_process_itself(place):
    text = (
        "import nbcache, sys\nnbcache.enable(sys.argv[1])\nimport lib\n"
        "nbcache.prewarm(lib.f, ['int64(int64)', 'float64(float64)'])\nnbcache.prewarm(lib.u, ['float64(float64)'])\n"
    )
    (place / "lib.py").write_text(LIB)
    (place / "deploy.py").write_text(text)
    (place / "main.py").write_text("import lib\nprint(lib.f(1), lib.f(1.5), lib.u(2.0))\n")
    assert proc.run([place / "deploy.py", place / "store"]).status == 0
    assert_warm(place / "main.py", place / "store")


@pytest.mark.long
def test_from_the_store_for_other_settings(main, place):
    """Everything that another process can import; what only lives in the program's own file has to be recorded."""
    (place / "imported.py").write_text(MAIN)
    (place / "start.py").write_text("import imported\n")
    store = place / "store"
    assert proc.run([place / "start.py"], store).status == 0
    done = prewarm(store, "--from-store", cwd=place, NUMBA_OPT="1")
    assert done.status == 0, done.stderr
    before = usage.read(store)
    outcome = proc.run([place / "start.py"], store, {"NUMBA_OPT": "1"})
    assert outcome.said == proc.run([place / "start.py"]).said
    news = usage.read(store).since(before)
    assert {news.functions[key].partition(" ")[0] for key in news.builds} <= {
        "<lambda>",
        "imported:<lambda>",
        "imported:generated",
        "imported:make.<locals>.inner",
    }


def test_a_module(main, place):
    done = prewarm(place / "store", "--module", "lib", "--json", cwd=place)
    assert done.status == 0, done.stderr
    assert json.loads(done.stdout)["failed"] == []
    names = {name.partition(" ")[0] for name in usage.read(place / "store").functions.values()}
    assert {"lib:eager", "lib:u_eager", "lib:gu_eager", "lib:u_parallel", "lib:c"} <= names


def test_running_a_program(small, place):
    done = prewarm(place / "store", "--run", sys.executable, small, cwd=place)
    assert done.status == 0, done.stderr
    assert_warm(small, place / "store")


@pytest.mark.long
def test_what_can_t_be_built_is_told(small, place):
    warm = place / "warm.jsonl"
    assert proc.run([small], place / "first", {"NBCACHE_RECORD": str(warm)}).status == 0
    (place / "lib.py").write_text(LIB.replace("def f(x):", "def renamed(x):"))
    with warm.open("a") as file:
        file.write('{"nbcache": "request", "version": 99}\nnonsense\n')
    done = prewarm(place / "second", warm, cwd=place)
    assert done.status == 1
    assert "lib:f (int64): there is no f in lib" in done.stderr
    assert "not 99" in done.stderr
    assert "not JSON" in done.stderr
    assert "\r" not in done.stderr
    assert "lib:u" not in done.stderr


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ([], "name a warm list"),
        (["missing.jsonl"], "missing.jsonl: No such file"),
        (["--module", "no_such_module"], "importing no_such_module fails"),
        (["--job-memory", "lots", "--module", "json"], "lots"),
    ],
)
def test_wrong_usage_is_one_line(place, options, complaint):
    done = prewarm(place / "store", *options, cwd=place)
    assert done.status != 0
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_the_script_does_the_same(main, place):
    script = proc.ROOT / "scripts" / "prewarm.py"
    done = proc.run([script, "--dir", place / "store", "--module", "lib"], cwd=place)
    assert done.status == 0, done.stderr
    assert "1 of 1 built" in done.stdout
    assert os.access(script, os.X_OK)


WRITING = """
from numba import njit
try:
    with open({path!r}, "w") as file:
        file.write("written")
except OSError:
    pass
@njit(["int64(int64)"])
def f(x):
    return x + 1
"""


def writing(place):
    """A module that writes a file when it is imported; return the file's path."""
    (place / "lib.py").write_text(WRITING.format(path=str(place / "file")))
    return place / "file"


@pytest.mark.every(2)
@pytest.mark.parametrize("way", ["namespaces", "landlock"])
def test_what_is_imported_confined_writes_nothing(place, way):
    file, python = writing(place), denials.pythons(place)[way]
    options = ["-m", "nbcache", "prewarm", "--dir", place / "store", "--module", "lib"]
    done = proc.run([*options, "--confined"], cwd=place, python=python)
    counted = "1 of 1 built or there already\nlib: the store has 1 of its functions\n"
    assert (done.status, done.stdout) == (0, counted), done.stderr
    assert not file.exists()
    assert any((place / "store").glob("v1/objects/*/*.nbo"))
    # With one's own rights otherwise.
    assert proc.run(options, cwd=place, python=python).status == 0
    assert file.exists()


def test_where_nothing_can_be_confined_nothing_is_imported(place):
    file, python = writing(place), denials.pythons(place)["neither"]
    options = ["-m", "nbcache", "prewarm", "--dir", place / "store", "--module", "lib", "--confined"]
    done = proc.run(options, cwd=place, python=python)
    counted = "0 of 1 built or there already\nlib: the store has 0 of its functions\n"
    assert (done.status, done.stdout) == (1, counted), done.stderr
    assert "jobs can't be confined" in done.stderr
    assert not file.exists()
