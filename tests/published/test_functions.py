"""Functions that one process publishes and another runs, in which Numba can't be imported."""

import json
import textwrap

import pytest
from nbtest.published import accumulator, node

pytestmark = [pytest.mark.usefixtures("way"), pytest.mark.every(2)]

MODULE = """
import numpy as np
from numba import njit
from errors import Negative

TABLE = np.arange(300_000.0)

@njit
def scaled(values, factor=2):
    "Values times a factor."
    if factor < 0:
        raise Negative("factor", factor)
    return values * factor + TABLE[1]

@njit
def inner(x):
    return x + 1

@njit
def outer(x):
    return inner(x) * 2

@njit
def even(n):
    if n == 0:
        return True
    return odd(n - 1)

@njit
def odd(n):
    if n == 0:
        return False
    return even(n - 1)

@njit(parallel=True)
def total(a, b):
    return a + b
"""
ERRORS = """
class Negative(Exception):
    pass
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "functions.py").write_text(textwrap.dedent(MODULE))
    (tmp_path / "errors.py").write_text(textwrap.dedent(ERRORS))
    return tmp_path


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


def test_a_function_with_several_signatures_runs_where_numba_cannot_be_imported(store, folder):
    accumulator(
        store,
        """
        import numpy as np
        from functions import scaled
        scaled(np.ones(2), 2.0), scaled(np.ones(2)), scaled(1, 2)
        nbcache.publish("demo.scaled", scaled)
        """,
        folder,
    )
    outcome = node(
        store,
        """
        import numpy as np
        scaled = nbcache.load("demo.scaled")
        print(nbcache.names())
        print(scaled(np.arange(3.0), 3.0), scaled(np.arange(3.0)), scaled(1, 3), scaled(factor=4, values=1))
        """,
        folder,
    )
    assert outcome.stdout.split("\n")[:2] == ["['demo.scaled']", "[1. 4. 7.] [1. 3. 5.] 4.0 5.0"]


def test_signatures_are_compiled_for_it(store, folder):
    accumulator(store, 'import functions; nbcache.publish("outer", functions.outer, ["i8(i8)", "f8(f8)"])', folder)
    assert node(store, 'f = nbcache.load("outer"); print(f(1), f(1.5))', folder).stdout == "4 5.0\n"


def test_one_signature_counts_as_a_list_of_it(store, folder):
    """Text was taken for a list of letters."""
    program = """
import functions
import numba
nbcache.publish("text", functions.inner, "i8(i8)")
data = nbcache.dumps(functions.inner, numba.float32(numba.float32))
nbcache.prewarm(functions.inner, (numba.types.complex128,))
print(functions.inner.signatures)
nbcache.publish("types", functions.inner, (numba.types.uint8,))
print(len(nbcache.about(nbcache.loads(data, trusted=True)).signatures), nbcache.about(nbcache.load("types")).signatures)
"""
    said = accumulator(store, program, folder).stdout
    assert said == "[(int64,), (float32,), (complex128,)]\n1 ('(uint8) -> int64',)\n"
    assert (
        node(store, 'print(nbcache.about(nbcache.load("text")).signatures)', folder).stdout == "('(int64) -> int64',)\n"
    )


def test_an_exception_has_its_type_arguments_file_and_line(store, folder):
    accumulator(store, 'import functions; nbcache.publish("f", functions.scaled, ["f8(f8, f8)"])', folder)
    outcome = node(
        store,
        """
        import traceback
        from errors import Negative
        f = nbcache.load("f")
        try:
            f(1.0, -2.0)
        except Negative as exc:
            last = traceback.extract_tb(exc.__traceback__)[-1]
            print(exc.args, last.filename.rpartition("/")[2], last.name, last.line)
        """,
        folder,
    )
    assert outcome.stdout == "('factor', -2.0) functions.py scaled raise Negative(\"factor\", factor)\n"


@pytest.mark.long
def test_sizes_that_differ_are_said_with_file_and_line(store, folder):
    accumulator(store, 'import functions; nbcache.publish("f", functions.total, ["f8[::1](f8[::1], f8[::1])"])', folder)
    outcome = node(
        store,
        """
        import numpy as np
        f = nbcache.load("f")
        try:
            f(np.ones(2), np.ones(3))
        except AssertionError as exc:
            print(exc)
        """,
        folder,
    )
    line = MODULE[: MODULE.index("return a + b")].count("\n") + 1
    assert outcome.stdout == f"Sizes of a, b do not match on {folder}/functions.py ({line})\n"


def test_wrong_arguments_are_a_type_error_that_lists_what_there_is(store, folder):
    accumulator(
        store, 'import functions; nbcache.publish("f", functions.scaled, ["f8[:](f8[:], f8)", "f8(i8, i8)"])', folder
    )
    outcome = node(
        store,
        """
        import numpy as np
        f = nbcache.load("f")
        for args in [(), (1, 2, 3), ("a", 1), (np.ones((2, 2)), 1.0), (np.ones(2, "f4"), 1.0), (np.ones(2, ">f8"), 1.0)]:
            try:
                f(*args)
            except TypeError as exc:
                print(exc)
            else:
                print("accepted", args)
        """,
        folder,
    )
    takes = "it takes (array(float64, 1d, A), float64); (int64, int64)"
    assert outcome.stdout.splitlines() == [
        "scaled needs its argument values: it takes (values, factor)",
        "scaled takes 2 arguments (values, factor), not 3",
        f"scaled was not published for (str, int64): {takes}",
        f"scaled was not published for (array(float64, 2d, C), float64): {takes}",
        f"scaled was not published for (array(float32, 1d, C), float64): {takes}",
        f"scaled was not published for (array(>f8, 1d, C), float64): {takes}",
    ]


@pytest.mark.long
def test_mutual_recursion_across_entries_runs(store, folder):
    accumulator(
        store,
        'import functions; nbcache.publish("r", {"even": functions.even, "odd": functions.odd}, ["b1(i8)"])',
        folder,
    )
    assert (
        node(store, 'r = nbcache.load("r"); print(r.even(10), r.odd(10), r.even(7))', folder).stdout
        == "True False False\n"
    )


@pytest.mark.long
def test_a_process_that_has_numba_already_and_one_that_gets_it_later_use_both(store, folder):
    accumulator(store, 'import functions; nbcache.publish("f", functions.scaled, ["f8[:](f8[:], f8)"])', folder)
    use = """
    import numpy as np
    print(f(np.ones(2), 3.0), njit(lambda a: np.sort(a) * 2)(f(np.ones(2), 4.0)))
    from errors import Negative
    for call in (f, functions.scaled):
        try:
            call(np.ones(2), -1.0)
        except Negative as exc:
            print(exc.args)
    from numba.core.runtime import _nrt_python, rtsys
    _nrt_python.memsys_enable_stats()
    before = rtsys.get_allocation_stats()
    for _ in range(100):
        f(np.ones(1000), 2.0)
    after = rtsys.get_allocation_stats()
    print(after.alloc - before.alloc > 100, after.alloc - after.free == before.alloc - before.free)
    """
    first, second = 'f = nbcache.load("f")\n', "from numba import njit\nimport functions\n"
    expected = "[4. 4.] [10. 10.]\n('factor', -1.0)\n('factor', -1.0)\nTrue True\n"
    for order in (first + second, second + first):
        assert accumulator(store, order + textwrap.dedent(use), folder).stdout == expected


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"machine": "other"}, "it was built for other, and this is"),
        ({"python": "cpython-27"}, "it was built for cpython-27, and this is"),
        ({"numpy": [1, 1]}, "it was built for NumPy's ABI"),
        ({"libc": "glibc 99.1"}, "it was built for glibc 99.1, and this is"),
        ({"features": ["wings"]}, "it was built for a processor with wings"),
    ],
)
def test_another_host_is_told_what_it_was_built_for(store, folder, change, words, monkeypatch):
    accumulator(store, 'import functions; nbcache.publish("f", functions.outer, ["i8(i8)"])', folder)
    from nbcache import config, errors
    from nbcache.published import load
    from nbcache.store.directory import Store

    settings = config.load({"NBCACHE_DIR": str(store)})
    names = Store.open(settings).names
    manifest = json.loads(names.read("f").manifest)
    manifest["host"].update(change)
    names.write("f", json.dumps(manifest, separators=(",", ":")).encode(), [code["key"] for code in manifest["codes"]])
    with pytest.raises(errors.PublicationError, match=words):
        load.load("f", settings)


def refusal(store, folder, program):
    outcome = accumulator(
        store,
        textwrap.dedent("""
        import nbcache.errors
        def attempt(*args, **kwargs):
            try:
                nbcache.publish(*args, **kwargs)
            except nbcache.errors.NbcacheError as exc:
                print(f"{type(exc).__name__}: {exc}")
            else:
                print("published")
        """)
        + textwrap.dedent(program),
        folder,
    )
    return outcome.stdout


def test_what_a_process_without_numba_cannot_import_is_refused_before_it_has_the_name(store, folder):
    (folder / "mixed.py").write_text(
        "from numba import njit\n"
        "class Mine(Exception): pass\n"
        "@njit\n"
        "def f(x):\n"
        "    if x > 2: raise Mine(1)\n"
        "    return x\n"
    )
    said = refusal(store, folder, 'import mixed; attempt("f", mixed.f, ["i8(i8)"]); print(nbcache.names())')
    assert said == (
        "PublicationError: f: it does not run without Numba: it uses mixed:Mine when it runs, which can't be imported"
        " without Numba (numba is not imported by a node): define it in a module of its own\n[]\n"
    )


@pytest.mark.long
def test_a_crash_with_made_up_arguments_is_only_told(store, folder):
    (folder / "wild.py").write_text(
        "import numpy as np\nfrom numba import carray, njit, types\n"
        "@njit\n"
        "def f(n):\n"
        "    return np.zeros(1)[n * 10**14]\n"
    )
    outcome = accumulator(store, 'import wild; nbcache.publish("f", wild.f, ["f8(i8)"])', folder)
    assert (
        "f was published, but a call with made-up arguments did not come back: f(int64): the process ended"
        in outcome.stderr
    )
    assert node(store, 'print(nbcache.load("f")(0))', folder).stdout == "0.0\n"


@pytest.mark.long
def test_numbas_threads_stay_as_many_as_its_user_chose(store, folder):
    (folder / "threaded.py").write_text(
        "import numpy as np\nfrom numba import njit, prange\n"
        "@njit(parallel=True)\n"
        "def total(a):\n"
        "    s = 0.0\n"
        "    for i in prange(a.size):\n"
        "        s += a[i]\n"
        "    return s\n"
    )
    accumulator(store, 'import threaded; nbcache.publish("total", threaded.total, ["f8(f8[:])"])', folder)
    outcome = accumulator(
        store,
        """
        import numba
        import numpy as np
        numba.set_num_threads(1)
        print(nbcache.load("total")(np.ones(100)), numba.get_num_threads())
        """,
        folder,
    )
    assert outcome.stdout == "100.0 1\n"


@pytest.mark.long
def test_on_another_host_numba_itself_is_used_where_it_may_be(store, folder):
    accumulator(store, 'import functions; nbcache.publish("f", functions.outer, ["i8(i8)"])', folder)
    program = """
    import nbcache.hosts as hosts
    hosts.features = lambda: frozenset()
    import nbcache.errors
    try:
        nbcache.load("f")
    except nbcache.errors.PublicationError as exc:
        print("it was built for a processor with" in str(exc))
    f = nbcache.load("f", numba="allow")
    print(type(f).__name__, f(2))
    """
    assert accumulator(store, program, folder).stdout == "True\nCPUDispatcher 6\n"


@pytest.mark.long
def test_a_published_function_says_what_it_is(store, folder):
    (folder / "starred.py").write_text(
        "from numba import njit\n@njit\ndef total(a, *rest):\n    'Adds.'\n    for x in rest:\n        a += x\n    return a\n"
    )
    accumulator(
        store,
        """
        import functions, starred
        functions.scaled(1.0)
        starred.total(1, 2)
        nbcache.publish("said", {"scaled": functions.scaled, "total": starred.total})
        """,
        folder,
    )
    outcome = node(
        store,
        """
        import inspect, pickle
        f = nbcache.load("said")
        for each in (f.scaled, f.total):
            print(each.__name__, each.__module__, each.__doc__)
            again = pickle.loads(pickle.dumps(each))
            print(again.__name__, again(2.0) if each is f.scaled else again(1, 2))
        print(inspect.signature(f.scaled), f.total(1, 2))
        """,
        folder,
    )
    assert outcome.stdout.splitlines() == [
        "scaled functions Values times a factor.",
        "scaled 5.0",
        "total starred Adds.",
        "total 3",
        "(values, factor=2) 3",
    ]


@pytest.mark.long
def test_one_half_of_a_recursion_brings_the_other_along(store, folder):
    accumulator(store, 'import functions; nbcache.publish("even", functions.even, ["b1(i8)"])', folder)
    assert node(store, 'even = nbcache.load("even"); print(even(10), even(7))', folder).stdout == "True False\n"


@pytest.mark.long
def test_what_a_program_defines_itself_is_published_and_a_file_name_may_be_of_any_bytes(store, folder):
    (folder / "odd-\udcff.py").write_text(
        "import nbcache\nfrom numba import njit\n"
        "@njit\n"
        "def mine(x):\n"
        "    if x < 0:\n"
        "        raise ValueError('negative')\n"
        "    return x * 2\n"
        "nbcache.publish('mine', mine, ['i8(i8)'])\n"
        "nbcache.publish('anonymous', njit(lambda a, b: a + b), ['i8(i8, i8)'])\n"
    )
    accumulator(store, "import glob, runpy; runpy.run_path(glob.glob('odd-*')[0], run_name='__main__')", folder)
    program = """
    import inspect, traceback
    f, g = nbcache.load("mine"), nbcache.load("anonymous")
    print(f(2), g(1, 2), f.__module__, inspect.signature(g))
    try:
        f(-1)
    except ValueError as exc:
        print(ascii(traceback.extract_tb(exc.__traceback__)[-1].filename.rpartition("/")[2]))
    """
    assert node(store, program, folder).stdout == "4 3 __main__ (a, b)\n'odd-\\\\udcff.py'\n"


@pytest.mark.long
def test_half_a_character_in_a_docstring_is_no_obstacle(store, folder):
    (folder / "described.py").write_text(
        "from numba import njit\n\n@njit\ndef f(x):\n    'half: \\ud800'\n    return x + 1\n"
    )
    accumulator(store, "import described; nbcache.publish('f', described.f, ['(i8,)'])", folder)
    program = "f = nbcache.load('f'); print(f(1), f.__doc__)"
    assert node(store, program, folder).stdout == "2 half: ?\n"


@pytest.mark.long
@pytest.mark.parametrize("threads", ["0", "-1", "many"])
def test_a_number_of_threads_that_is_none_is_said(store, folder, threads):
    (folder / "threaded.py").write_text(
        "from numba import njit, prange\n"
        "@njit(parallel=True)\n"
        "def total(n):\n"
        "    found = 0\n"
        "    for i in prange(n):\n"
        "        found += i\n"
        "    return found\n"
    )
    accumulator(store, "import threaded; nbcache.publish('total', threaded.total, ['(i8,)'])", folder)
    program = """
    try:
        nbcache.load("total")
    except nbcache.errors.PublicationError as exc:
        print(exc)
    """
    said = f"total: it can't be loaded: NUMBA_NUM_THREADS={threads} is no number of threads: it must be 1 or more\n"
    assert node(store, program, folder, NUMBA_NUM_THREADS=threads).stdout == said


def test_a_name_is_one_object_until_another_version_is_published(store, folder):
    publishing = "import functions; nbcache.publish('demo.outer', functions.outer, ['(i8,)'])"
    accumulator(store, publishing, folder)
    (folder / "again.py").write_text(f"import nbcache\n{publishing}\n")
    outcome = node(
        store,
        """
        import subprocess, sys
        assert nbcache.exists("demo.outer") and not nbcache.exists("demo.inner")
        before = nbcache.load("demo.outer")
        assert nbcache.load("demo.outer") is before
        assert nbcache.load("demo.outer", version=1) is not before
        subprocess.run([sys.executable, "again.py"], check=True)
        after = nbcache.load("demo.outer")
        assert after is not before
        assert nbcache.load("demo.outer") is after
        assert before(1) == after(1) == 4
        """,
        folder,
    )
    assert outcome.status == 0, outcome.stderr


def test_functions_that_have_no_module(store, folder):
    """They come from `exec`, `eval` and notebooks: that is how queries are fused."""
    accumulator(
        store,
        """
        import numpy as np
        from numba import cfunc, guvectorize, njit, vectorize
        scope = {"np": np}
        exec("def fused(x, y):\\n    'Fuses.'\\n    return np.sqrt(x * x + y)\\ndef row(x, y, out):\\n    out[0] = x.sum() + y[0]", scope)
        assert scope["fused"].__module__ is None
        kinds = {
            "called": njit("float64(float64, float64)")(scope["fused"]),
            "ufunc": vectorize(["float64(float64, float64)"])(scope["fused"]),
            "gufunc": guvectorize(["float64[:], float64[:], float64[:]"], "(n),(m)->()")(scope["row"]),
            "pointer": cfunc("float64(float64, float64)")(scope["fused"]),
            "shown": njit("float64(float64)")(eval("lambda x: x + 1.5", {})),
        }
        for name, each in kinds.items():
            nbcache.publish(name, each)
        """,
        folder,
    )
    outcome = node(
        store,
        """
        called = nbcache.load("called")
        assert (called(3.0, 4.0), called.__name__, called.__module__) == (13.0 ** 0.5, "fused", None)
        assert nbcache.load("ufunc")([3.0], [4.0]) == [13.0 ** 0.5]
        assert nbcache.load("gufunc")([3.0, 1.0], [4.0, 5.0]) == 8.0
        assert nbcache.load("pointer").ctypes(3.0, 4.0) == 13.0 ** 0.5
        assert nbcache.load("shown")(1.0) == 2.5
        """,
        folder,
    )
    assert outcome.status == 0, outcome.stderr
