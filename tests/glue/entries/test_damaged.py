"""A damaged entry is a miss, at whatever time that is found out, and replaced."""

import shutil
from pathlib import Path

import pytest
from nbtest import proc, spoiling

PROGRAM = """
import sys
import numpy as np
from numba import int64, njit, vectorize
from numba.experimental import jitclass

@njit
def ones(n):
    return np.ones(n).sum()

@njit
def even(n):
    return True if n == 0 else odd(n - 1)

@njit
def odd(n):
    return False if n == 0 else even(n - 1)

@njit
def counted(box, n):
    for i in range(n):
        yield box.n + i

@jitclass([("n", int64)])
class Box:
    def __init__(self, n):
        self.n = n

@vectorize(["float64(float64)"])
def u(x):
    return x * 2

print(ones(4), even(4), odd(4), Box(4).n, u(np.ones(2)), [*counted(Box(1), 3)])
if "late" in sys.argv:
    @njit
    def late(n):
        s = 0
        for each in counted(Box(n), 2):
            s += each
        return ones(n), even(n), odd(n), Box(n).n, u(np.ones(n)), s

    print(late(3))
    print([len(f.inspect_llvm(f.signatures[0])) > 100 for f in (ones, even, odd, late)])
"""
SAID = "4.0 True False 4 [2. 2.] [1, 2, 3]\n"
LATE = SAID + "(3.0, False, True, 3, array([2., 2., 2.]), 7)\n[True, True, True, True]\n"


@pytest.mark.long
def test_what_is_linked_late_is_built_again_where_it_is_damaged(tmp_path):
    """Among it a jitclass and a generator, whose types have other names in each process, and both halves of a recursion."""
    (tmp_path / "main.py").write_text(PROGRAM)
    store = tmp_path / "store"
    assert proc.run([tmp_path / "main.py"], store).said == (0, SAID)
    assert spoiling.damage(store, "bitcode") > 8
    outcome = proc.run([tmp_path / "main.py", "late"], store)
    assert outcome.said == (0, LATE), outcome.stderr
    assert outcome.stderr.count("\n") == 1
    assert "is damaged; it was removed" in outcome.stderr
    assert not spoiling.damaged(store) & {
        "numba.core.runtime:nrt",
        "__main__:ones",
        "__main__:even",
        "__main__:Box.__init__",
    }
    for _ in range(2):
        outcome = proc.run([tmp_path / "main.py", "late"], store)
        assert (outcome.said, outcome.stderr) == ((0, LATE), "")


@pytest.mark.long
def test_who_may_not_remove_it_builds_it_all_the_same(tmp_path):
    (tmp_path / "main.py").write_text(PROGRAM)
    store = tmp_path / "store"
    assert proc.run([tmp_path / "main.py"], store).said == (0, SAID)
    spoiling.damage(store, "bitcode", kind="runtime")
    outcome = proc.run([tmp_path / "main.py", "late"], store, {"NBCACHE_READONLY": "1"})
    assert outcome.said == (0, LATE), outcome.stderr
    assert "the entry of numba.core.runtime:nrt is damaged; it can't be removed by this process" in outcome.stderr
    assert spoiling.damaged(store) == {"numba.core.runtime:nrt"}


EVERYTHING = Path(__file__).with_name("everything.py")
KINDS = "dispatcher", "ufunc", "ufunc wrapper", "gufunc wrapper", "parallel ufunc wrapper", "runtime", "cfunc"


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A store with what a function of every kind needs, and what plain Numba says that uses all of them late."""
    store = tmp_path_factory.mktemp("damaged") / "store"
    assert proc.run([EVERYTHING], store).status == 0
    plain = proc.run([EVERYTHING, "late"])
    assert plain.status == 0, plain.stderr
    return store, plain.said


@pytest.mark.long
@pytest.mark.parametrize("position", spoiling.POSITIONS)
@pytest.mark.parametrize(
    ("section", "kind"),
    [
        *(("bitcode", kind) for kind in KINDS),
        *((section, None) for section in ("meta", "object", "components", "bitcode")),
    ],
)
def test_every_section_of_every_kind(filled, tmp_path, section, kind, position):
    store, said = filled
    shutil.copytree(store, tmp_path / "store")
    assert spoiling.damage(tmp_path / "store", section, position, kind)
    for _ in range(2):
        outcome = proc.run([EVERYTHING, "late"], tmp_path / "store")
        assert outcome.said == said, outcome.stderr
        assert "internal error" not in outcome.stderr
    if section in {"meta", "object"}:
        assert not spoiling.not_built_again(tmp_path / "store")
