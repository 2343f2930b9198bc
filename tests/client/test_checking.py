"""NBCACHE_CHECK: a wrong hit is found, said, counted and set aside, and what Numba compiles is used."""

import json
import shutil

import pytest
from nbtest import proc

from nbcache.cli.run import verdict
from nbcache.config import Settings
from nbcache.store import quarantine, reasons
from nbcache.store.directory import Store

TWO = """
import json, numba, nbcache
@numba.njit
def plus(x):
    return x + 1
@numba.njit
def times(x):
    return x * 100
print(json.dumps([plus(7), times(7), nbcache.stats()]))
"""
MAKE = {"PYTHONHASHSEED": "1"}
CHECK = {"NBCACHE_CHECK": "all", "PYTHONHASHSEED": "2"}


def running(folder):
    """What a program says in a process of its own, over one store."""

    def run(text, extra=None, said=""):
        (folder / "main.py").write_text(text)
        outcome = proc.run([folder / "main.py"], folder / "store", extra or {}, cwd=folder)
        assert outcome.status == 0, outcome.stderr
        assert said in outcome.stderr if said else not outcome.stderr, outcome.stderr
        return json.loads(outcome.stdout)

    return run


@pytest.fixture
def ran(tmp_path):
    return running(tmp_path)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A store that has what `TWO` compiles."""
    folder = tmp_path_factory.mktemp("two")
    assert running(folder)(TWO, MAKE)[:2] == [8, 700]
    return folder / "store"


@pytest.fixture
def warm(tmp_path, two):
    """As `ran`, over a copy of that store."""
    shutil.copytree(two, tmp_path / "store")
    return running(tmp_path)


def opened(tmp_path):
    return Store.open(Settings(dir=str(tmp_path / "store")))


def entry_of(store, function):
    (found,) = (
        entry for info in store.scan() for entry in store.find(info.key) if entry.header.function.endswith(function)
    )
    return found


def sections_of(entry, *names):
    return {name: entry.section(name) for name in names or entry.section_sizes}


def exchange(tmp_path, *keeping):
    """Put what `times` was compiled to into the entry of `plus`, but for the sections that are kept."""
    store = opened(tmp_path)
    plus, times = entry_of(store, ":plus"), entry_of(store, ":times")
    sections = {**sections_of(times), **sections_of(plus, *keeping)} if keeping else sections_of(times)
    assert store.publish(plus.header, sections, recache=True).ok
    return entry_of(store, ":plus").digest


@pytest.mark.every(2)
@pytest.mark.parametrize("keeping", [(), ("ir",)], ids=["all", "all-but-the-digest"])
def test_a_hit_made_wrong_on_purpose(warm, tmp_path, keeping):
    digest = exchange(tmp_path, *keeping)
    assert warm(TWO)[:2] == [700, 700]  # what makes it wrong does so, and nobody notices
    *results, stats = warm(TWO, CHECK, said="to other code than the entry")
    assert results == [8, 700]
    assert stats["checks"][reasons.DIFFERENT] == 1
    store = opened(tmp_path)
    assert digest in quarantine.condemned(store.path, store.trust)
    *results, stats = warm(TWO)
    assert (results, stats["hit_count"]) == ([8, 700], 2)


def test_the_command_says_it(warm, tmp_path):
    (tmp_path / "main.py").write_text(TWO)
    argv = ["-m", "nbcache", "check", "--", "python", "main.py"]

    def check():
        return proc.run(argv, tmp_path / "store", {"PATH": str(proc.Path(proc.sys.executable).parent)}, cwd=tmp_path)

    good = check()
    assert good.status == 0, good.stderr
    assert "no difference" in good.stdout
    exchange(tmp_path)
    bad = check()
    assert bad.status == 1
    assert "DIFFERENT" in bad.stdout
    assert "nbcache quarantine" in bad.stderr
    assert proc.run(["-m", "nbcache", "check"], tmp_path / "store").status == 2


@pytest.mark.long
def test_a_wrong_entry_that_stays_is_passed_over(warm, tmp_path):
    """A process that may not replace it can set it aside all the same."""
    exchange(tmp_path)
    warm(TWO)  # which marks it as good
    *results, _stats = warm(TWO, {**CHECK, "NBCACHE_READONLY": "1"}, said="it is set aside")
    assert results == [8, 700]
    *results, stats = warm(TWO, {"NBCACHE_READONLY": "1"}, said="programs crashed with it")
    assert results == [8, 700]
    assert stats["misses"] == {reasons.QUARANTINED: 1}


@pytest.mark.long
def test_what_has_no_digest_is_counted_apart(warm, tmp_path):
    store = opened(tmp_path)
    plus = entry_of(store, ":plus")
    sections = sections_of(plus)
    del sections["ir"]
    assert store.publish(plus.header, sections, recache=True).ok
    *results, stats = warm(TWO, CHECK)
    assert results == [8, 700]
    assert stats["checks"] == {reasons.SAME: stats["hit_count"] - 1, reasons.NO_DIGEST: 1}


@pytest.mark.long
def test_half_of_the_hits(ran):
    functions = "".join(f"@numba.njit\ndef f{n}(x):\n    return x + {n}\nf{n}(1)\n" for n in range(24))
    text = f"import json, numba, nbcache\n{functions}print(json.dumps(nbcache.stats()))"
    ran(text, MAKE)
    stats = ran(text, {"NBCACHE_CHECK": "0.5"})
    assert set(stats["checks"]) == {reasons.SAME}
    assert 0 < stats["checks"][reasons.SAME] < stats["hit_count"]  # wrong once in eight million
    assert "checks" in stats
    assert not ran(text)["checks"]


KINDS = """
import json, numba, nbcache, numpy as np
from numba import njit, vectorize, guvectorize, cfunc, literally, objmode
@vectorize
def ufunc(a, b):
    return a * b + 1
@guvectorize(["(f8[:], f8[:])"], "(n)->(n)")
def gufunc(a, out):
    for i in range(a.size):
        out[i] = a[i] + 2
@cfunc("f8(f8)", fastmath={"nsz", "arcp", "contract", "afn", "reassoc"})
def callback(x):
    return x + 1
@njit
def odd(n):
    return False if n == 0 else even(n - 1)
@njit
def even(n):
    return True if n == 0 else odd(n - 1)
@njit
def numbers(n):
    for i in range(n):
        first, second = i, n - i
        yield first * second
@njit
def summed(n):
    total = 0
    for each in numbers(n):
        total += each
    return total
@njit
def power(x, n):
    return x ** literally(n)
@njit
def raising(x):
    if x > 1e9:
        raise ValueError("too large", x)
    with objmode(y="float64"):
        y = float(str(x))
    return y
@njit
def applied(function, n):
    if n > 5:
        print(n)
    return function(n)
a = np.arange(4.0)
said = [ufunc(a, a).sum(), gufunc(a).sum(), callback.ctypes(1.0), even(5), summed(5), power(2.0, 3), raising(1.5)]
said.append(applied(even, 2))
print(json.dumps([said, nbcache.stats()]))
"""
MORE_KINDS = """
import json, numba, nbcache, numpy as np
from numba import njit, prange, types
from numba.experimental import jitclass
@jitclass([("x", types.float64)])
class Point:
    def __init__(self, x):
        self.x = x
    def twice(self):
        return self.x * 2
@njit
def used(x):
    return Point(x).twice()
@njit(parallel=True)
def total(a):
    found = 0.0
    for i in prange(a.size):
        found += a[i]
    return found
@numba.stencil
def mean(a):
    return (a[-1] + a[1]) / 2
@njit
def names(n):
    return len({str(i): i for i in range(n)})
@numba.jit(forceobj=True, looplift=True)
def lifted(a):
    text, total = str(a), 0.0
    for i in range(a.size):
        total += a[i]
    return total
a = np.arange(9.0)
said = [used(2.5), total(a), mean(a).sum(), names(5), lifted(a)]
print(json.dumps([said, nbcache.stats()]))
"""


@pytest.mark.long
@pytest.mark.parametrize("text", [KINDS, MORE_KINDS], ids=["few", "more"])
def test_kinds_of_functions(ran, text):
    """Each is the same in a process with another seed of hashes, or in another order where that depends on the seed."""
    made, _ = ran(text, MAKE)
    found, stats = ran(text, CHECK)
    assert found == made
    assert sum(stats["checks"].values()) == stats["hit_count"]
    shared = stats["checks"].pop(reasons.SHARED, 0)
    assert set(stats["checks"]) <= {reasons.SAME, reasons.REORDERED}, stats["checks"]
    assert sum(stats["checks"].values()) == stats["builds_count"] == stats["hit_count"] - shared
    assert not stats["published"]


PRINTING = """
import json, numba, nbcache
@numba.njit
def told(x):
    if x < 0:
        print("below\\nzero", x)
        raise ValueError("negative")
    return x + 1
print(json.dumps([told(2.0), nbcache.stats()["checks"]]))
"""


def test_what_prints_and_raises_is_the_same(ran):
    """Compiled code has a constant that is named by each text it prints: line ends are in these names."""
    assert ran(PRINTING, MAKE) == [3.0, {}]
    found, checks = ran(PRINTING, CHECK)
    assert found == 3.0
    assert set(checks) == {reasons.SAME}


SPAWNING = """
import json, multiprocessing, numba, nbcache
from numba.experimental import jitclass
@jitclass([("x", numba.int64)])
class Number:
    def __init__(self, x):
        self.x = x
@numba.njit
def numbers(n):
    for each in range(n):
        yield each
@numba.njit
def summed(n):
    total = Number(n).x
    for each in numbers(n):
        total += each
    return total
def work():
    return [summed(3), nbcache.stats()["checks"]]
if __name__ == "__main__":
    print(json.dumps(FROM))
"""
IN_A_CHILD = 'multiprocessing.get_context("spawn").Pool(1).apply(work)'


@pytest.mark.long
@pytest.mark.parametrize(("first", "then"), [("work()", IN_A_CHILD), (IN_A_CHILD, "work()")], ids=["child", "parent"])
def test_a_spawned_child_compiles_what_its_parent_does(ran, first, then):
    assert ran(SPAWNING.replace("FROM", first), MAKE) == [6, {}]
    found, checks = ran(SPAWNING.replace("FROM", then), CHECK)
    assert found == 6
    assert set(checks) <= {reasons.SAME, reasons.SHARED}
    assert checks[reasons.SAME] > 1


PUBLISHED = """
import json, sys, nbcache
if sys.argv[0] == "node.py":
    print(json.dumps([nbcache.load("f")(2.0), nbcache.load("u")(1.0, 2.0)]))
else:
    import lib
    said = [lib.f(2.0), lib.u(1.0, 2.0)]
    nbcache.publish("f", lib.f)
    nbcache.publish("u", lib.u)
    print(json.dumps([said, nbcache.stats()["checks"]]))
"""


@pytest.mark.long
def test_what_was_compiled_to_check_a_hit_can_be_published(ran, tmp_path):
    (tmp_path / "lib.py").write_text(
        "from numba import njit, vectorize\n@njit\ndef half(n):\n    return n / 2\n@njit\ndef f(x):\n    return half(x) + 1\n"
        "@vectorize\ndef u(a, b):\n    return a + b * 2\n"
    )
    ran("import lib\nlib.f(2.0), lib.u(1.0, 2.0)\nprint(0)", MAKE)
    said, checks = ran(PUBLISHED, CHECK)
    assert set(checks) == {reasons.SAME}
    (tmp_path / "node.py").write_text(PUBLISHED)
    node = proc.run(["node.py"], tmp_path / "store", cwd=tmp_path)
    assert json.loads(node.stdout) == said, node.stderr


def test_the_verdict_has_what_was_not_compared():
    assert verdict({}) == ["no hit to check: nothing that the command compiled was in the store; run it once more"]
    lines = verdict({reasons.SAME: 7, reasons.REORDERED: 1, reasons.NO_DIGEST: 2})
    assert [line.split()[-1] for line in lines] == ["8", "0", "2", "1", "difference"]
    assert verdict({reasons.NO_DIGEST: 2})[-1] == "nothing could be compared"
    assert verdict({reasons.SAME: 7, reasons.DIFFERENT: 1})[-1].startswith("DIFFERENT")
