"""What nobody has any more is unmapped; what somebody still has an address of stays."""

import textwrap

import pytest
from nbtest.published import OF_FOUR_KINDS, accumulator, node

MODULE = """
import numpy as np
from numba import cfunc, njit, vectorize

TABLE = np.arange(1000.0)

@njit(["(int64,)"])
def counted(n):
    for i in range(n):
        yield i * i

@njit(["()"])
def table():
    return TABLE

@njit(["float64(int64)"])
def blames(n):
    if n:
        raise ValueError(TABLE[:n])
    return 0.0
"""
MODULE += OF_FOUR_KINDS
PUBLISHED = """
import functions
for name in ("revenue", "scaled", "squared", "half", "counted", "table", "blames"):
    nbcache.publish(name, getattr(functions, name))
pathlib = __import__("pathlib")
pathlib.Path("both").write_bytes(nbcache.dumps({"revenue": functions.revenue, "scaled": functions.scaled}))
"""
COMMON = """
import gc, pathlib, threading
import numpy as np
from nbcache.published import images, realize
realize.MOST_KNOWN = 1
values = np.arange(3.0)
def mappings():
    return len(pathlib.Path("/proc/self/maps").read_text().splitlines())
def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1])
def compute(revenue, scaled):
    assert revenue(values, 0.5).tolist() == [0.0, 0.5, 1.0] and scaled(values).tolist() == [1.0, 3.0, 5.0]
def use(revenue, scaled):
    compute(revenue, scaled)
    try:
        scaled(values[:0])
    except ValueError as error:
        assert error.args == ("empty", 0)
"""
MANY = """
data = pathlib.Path("both").read_bytes()
def load_all(count):
    # Nothing is raised, for that takes half a kilobyte each time, which Numba's own exceptions with arguments do as well.
    for _ in range(count):
        compute(nbcache.load("revenue"), nbcache.load("scaled"))
        assert nbcache.load("squared")(x=3) == 9.0
        both = nbcache.loads(data, trusted=True)
        compute(both.revenue, both.scaled)
load_all(20)
before = mappings(), resident()
load_all({count})
assert mappings() <= before[0] + 10, (before, mappings())
assert resident() <= before[1] + {pages}, (before, resident())
# Those with "scaled", which raises, stay.
assert len(images._mapped) <= 5, images._mapped
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    (folder / "functions.py").write_text(textwrap.dedent(MODULE))
    accumulator(folder / "store", PUBLISHED, folder)
    return folder


@pytest.mark.parametrize(
    ("count", "pages"), [(100, 500), pytest.param(25_000, 4000, marks=pytest.mark.long)], ids=["hundreds", "100000"]
)
def test_any_number_of_loads_takes_no_more_mappings_and_no_more_memory(folder, count, pages):
    node(folder / "store", COMMON + MANY.format(count=count, pages=pages), folder, timeout=7000)


def test_what_somebody_has_goes_on_and_so_do_results(folder):
    program = """
    revenue, scaled = nbcache.load("revenue"), nbcache.load("scaled")
    result, add = scaled(values), revenue.reduce
    squared = nbcache.load("squared")
    for _ in range(3):
        assert nbcache.load("squared") is squared
        use(revenue, scaled)
    del revenue, scaled
    nbcache.load("half")
    # The bound method has the function.
    assert add(values[:2]) == 0.0 and result.tolist() == [1.0, 3.0, 5.0]
    """
    node(folder / "store", COMMON + textwrap.dedent(program), folder)


@pytest.mark.parametrize(
    ("begin", "goes_on"),
    [
        ("squares = nbcache.load('counted')(5)", "assert list(squares) == [0, 1, 4, 9, 16]"),
        (
            "address = nbcache.load('half').address",
            "import ctypes; assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(address)(3.0) == 1.5",
        ),
        ("constant = nbcache.load('table')()", "assert constant.tolist() == list(range(1000))"),
        (
            "try: nbcache.load('blames')(9)\nexcept ValueError as error: (constant,) = error.args",
            "assert constant.tolist() == list(range(9))",
        ),
        # Python may call what raises there later, when the main thread comes back from what it does.
        ("nbcache.load('scaled')(values)", "assert len(images._staying) == 1"),
    ],
    ids=["generator", "address", "constant", "argument", "pending"],
)
def test_code_and_constants_whose_address_somebody_may_have_stay(folder, begin, goes_on):
    program = f"{begin}\nfor name in ('squared', 'revenue', 'scaled') * 3: nbcache.load(name)\ngc.collect()\n{goes_on}"
    node(folder / "store", COMMON + program, folder)


def test_garbage_that_refers_to_itself_may_call_its_functions_once_more(folder):
    program = """
    called = []
    class Worker:
        def __init__(self):
            self.square, self.me = nbcache.load("squared"), self
        def __del__(self):
            called.append(self.square(3.0))
    Worker()
    nbcache.load("revenue")
    gc.collect()
    assert called == [9.0]
    """
    node(folder / "store", COMMON + textwrap.dedent(program), folder)


def test_an_image_that_somebody_else_has_as_well_is_not_filled_again(folder):
    program = """
    import ctypes
    assert nbcache.load("squared")(3.0) == 9.0
    (path,) = {line.split()[-1] for line in open("/proc/self/maps") if "/files/" in line}
    other = ctypes.CDLL(path)
    nbcache.load("revenue")
    assert nbcache.load("squared")(3.0) == 9.0
    """
    node(folder / "store", COMMON + textwrap.dedent(program), folder)


def test_nothing_is_unmapped_while_others_may_open_it(folder):
    program = """
    closed, close = [], images.dlclose
    images.dlclose = lambda handle: (closed.append(handle), close(handle))
    squared = nbcache.load("squared")
    nbcache.load("revenue")
    del squared
    assert not closed
    # One thread at a time opens images.
    nbcache.load("half")
    assert len(closed) == 1
    """
    node(folder / "store", COMMON + textwrap.dedent(program), folder)


@pytest.mark.long
def test_threads_that_load_and_let_go_of_the_same_names_get_in_nobody_s_way(folder):
    program = """
    failed = []
    def work():
        try:
            for _ in range(50):
                use(nbcache.load("revenue"), nbcache.load("scaled"))
        except BaseException as error:
            failed.append(repr(error))
    threads = [threading.Thread(target=work) for _ in range(6)]
    [each.start() for each in threads], [each.join() for each in threads]
    assert not failed, failed
    assert len(images._mapped) <= 5, images._mapped
    """
    node(folder / "store", COMMON + textwrap.dedent(program), folder)
