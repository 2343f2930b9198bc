"""`why` names the component that changed, comparing with the nearest older entry."""

from nbtest import proc

from nbcache.cli.why import Built, compare, matches
from nbcache.store.entry import Header

BASE = [("toolchain/numba", "0.68.1"), ("options/fastmath", "False"), ("global pkg.mod:f: pkg.cfg.K", "3")]


def changed(label, value):
    return [(name, value if name == label else old) for name, old in BASE]


def test_names_the_global_that_changed(filled, nbcache):
    old = filled.add(components=BASE, created=100.0)
    filled.add(components=changed("global pkg.mod:f: pkg.cfg.K", "4"), created=200.0)
    done = nbcache("why", "pkg.mod:f", "--dir", filled.path)
    assert done.status == 0
    assert "global `pkg.cfg.K`: 3 → 4" in done.out
    assert f"differs from {old.key[:12]}" in done.out
    (told,) = nbcache("why", "f", "--dir", filled.path, "--json").json["entries"]
    assert (told["nearest"], told["differs"]) == (old.key, ["global `pkg.cfg.K`: 3 → 4"])


def test_compares_with_the_nearest_and_not_the_latest(filled, nbcache):
    near = filled.add(components=BASE, created=100.0)
    filled.add(components=[("toolchain/numba", "0.61.0"), ("options/fastmath", "True")], created=150.0)
    filled.add(components=changed("options/fastmath", "True"), created=200.0)
    (told,) = nbcache("why", "mod:f", "--dir", filled.path, "--json").json["entries"] or [None]
    assert (told["nearest"], told["differs"]) == (near.key, ["option `fastmath`: False → True"])


def test_all_compares_each_entry(filled, nbcache):
    for number in range(4):
        filled.add(components=changed("global pkg.mod:f: pkg.cfg.K", str(number)), created=100.0 + number)
    told = nbcache("why", "f", "--all", "--dir", filled.path, "--json").json["entries"]
    assert [row["differs"] for row in told] == [[]] + [[f"global `pkg.cfg.K`: {n} → {n + 1}"] for n in range(3)]


def test_the_first_entry_has_nothing_to_compare_with(filled, nbcache):
    filled.add(components=BASE)
    done = nbcache("why", "f", "--dir", filled.path)
    assert done.status == 0
    assert "nothing older to compare with" in done.out


def test_an_uncacheable_function_has_a_reason(filled, nbcache):
    filled.record(uncacheable={"reads a ctypes pointer `lib`": {"count": 1, "functions": ["pkg.mod:g"]}})
    done = nbcache("why", "g", "--dir", filled.path)
    assert done.status == 0
    assert "pkg.mod:g\n  not cached: reads a ctypes pointer `lib`\n" in done.out


def test_variants_of_one_key_are_said_to_be_that(filled, nbcache):
    filled.add(components=BASE, guard="one", created=100.0)
    filled.add(components=BASE, guard="two", created=200.0)
    assert "the same key" in nbcache("why", "f", "--dir", filled.path).out


def test_a_function_nobody_knows(filled, nbcache):
    done = nbcache("why", "nothing", "--dir", filled.path)
    assert (done.status, done.out) == (1, "")
    assert "no entry, and no record, of a function nothing" in done.err


def test_a_name_matches_whole_parts_only():
    assert matches("pkg.mod:A.f", "pkg.mod:A.f")
    assert matches("pkg.mod:A.f", "f")
    assert matches("pkg.mod:A.f", "A.f")
    assert matches("pkg.mod:f", "mod:f")
    assert not matches("pkg.mod:leaf", "f")
    assert not matches("pkg.mod:f", "mod")


def test_kinds_are_not_compared_with_each_other():
    def built(kind, created):
        header = Header("0" * 64, kind, "m:f", "()", "", 0.0, created, "", "")
        return Built(header, {"kind": kind})

    (first, second) = compare([built("ufunc", 2.0), built("dispatcher", 1.0)])
    assert first.old is None
    assert second.old is None


LOOPS = """
from numba import guvectorize

@guvectorize(["void(float64[:], float64[:])", "void(float32[:], float32[:])"], "(n)->(n)")
def twice(x, out):
    for i in range(x.shape[0]):
        out[i] = 2 * x[i]
"""


def test_loops_of_one_function_differ_in_their_signatures_alone(tmp_path, nbcache):
    store = str(tmp_path / "store")
    assert proc.run(["-c", LOOPS], store).status == 0
    rows = nbcache("why", "twice", "--all", "--dir", store, "--json").json["entries"]
    assert [[line.partition(":")[0] for line in row["differs"]] for row in rows if row["nearest"]] == [
        ["signature"]
    ] * 2
