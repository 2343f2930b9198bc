"""Nodes in whose environment Numba isn't installed: its C extensions come with the publication."""

import json
import os
import subprocess
import sys
import sysconfig
import textwrap
from pathlib import Path

import numpy as np
import pytest
from nbtest import proc
from nbtest.published import accumulator

MODULE = """
import numpy as np
from numba import njit, prange

@njit(parallel=True)
def doubled(a):
    out = np.empty_like(a)
    for i in prange(a.size):
        out[i] = 2 * a[i]
    if out[0] < 0:
        raise ValueError("negative", out[0])
    return out

@njit
def counted(n):
    for i in range(n):
        yield i * 0.5
"""
USE = """
import sys
import numpy as np
import nbcache
f = nbcache.load("both")
for _ in range(100):
    assert f.doubled(np.arange(1000.0)).sum() == 999000.0
print(f.doubled(np.arange(3.0)), list(f.counted(3)))
try:
    f.doubled(-np.ones(2))
except ValueError as exc:
    print(exc.args)
"""


@pytest.fixture
def published(tmp_path):
    (tmp_path / "both.py").write_text(textwrap.dedent(MODULE))
    program = """
    import both
    functions = {"doubled": both.doubled, "counted": both.counted}
    import numpy as np
    both.doubled(np.ones(3)), both.counted(3)
    nbcache.publish("counted", both.counted)
    nbcache.publish("both", functions)
    """
    accumulator(tmp_path / "store", program, tmp_path)
    return tmp_path / "store"


def environment(folder, *packages):
    """A folder with nbcache, NumPy and these packages, and no others."""
    site = folder / "site"
    site.mkdir()
    installed = Path(sysconfig.get_paths()["purelib"])
    for name in (Path(np.__file__).parent.name, "numpy.libs", *packages):
        if (installed / name).exists():
            (site / name).symlink_to(installed / name)
    for name in ("nbcache", "_nbcache.py"):
        (site / name).symlink_to(proc.ROOT / name)
    return site


def run(site, store, program):
    """Run a program in which nothing else can be found."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env={
            "PYTHONPATH": str(site),
            "NBCACHE_DIR": str(store),
            "PYTHONDONTWRITEBYTECODE": "1",
            "NUMBA_NUM_THREADS": "2",
        },
        capture_output=True,
        text=True,
        cwd=os.sep,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


EXPECTED = "[0. 2. 4.] [0.0, 0.5, 1.0]\n('negative', -2.0)\n"


def test_a_node_with_numpy_alone_runs_an_image(published, tmp_path):
    nothing = "\ntry:\n    import numba\nexcept ImportError:\n    print('not there')\n"
    assert run(environment(tmp_path), published, USE + nothing) == EXPECTED + "not there\n"


@pytest.mark.long
def test_a_node_that_closes_all_descriptors_goes_on(published, tmp_path):
    # As who becomes a daemon does: the next file in memory then has the descriptor of another one.
    begun = "import os, nbcache\nnbcache.load('counted')\nos.closerange(3, 256)\n"
    assert run(environment(tmp_path), published, begun + USE) == EXPECTED


def test_a_node_with_llvmlite_and_no_numba_loads_with_llvm(published, tmp_path, monkeypatch):
    # What a node does that finds no image it can map.
    without = """
    import nbcache.published.images as images
    from nbcache.errors import ImageError
    def refuse(*args):
        raise ImageError("not here")
    images.open_image = refuse
    """
    assert run(environment(tmp_path, "llvmlite"), published, textwrap.dedent(without) + USE) == EXPECTED


@pytest.mark.long
def test_a_node_without_llvm_and_image_says_what_to_install(published, tmp_path):
    without = """
    import nbcache.published.images as images
    from nbcache.errors import ImageError, NbcacheError
    def refuse(*args):
        raise ImageError("not here")
    images.open_image = refuse
    import nbcache
    try:
        nbcache.load("both")
    except NbcacheError as exc:
        print(exc)
    """
    said = run(environment(tmp_path), published, textwrap.dedent(without))
    assert "llvmlite is not installed: install it, or publish where there is a linker" in said


@pytest.mark.long
def test_beside_a_numba_of_another_version_both_have_their_own(published, tmp_path):
    # As another version would: under the same names, with files of its own.
    program = """
    import numba
    numba.__version__ = "0.0.0"
    import nbcache
    import numpy as np
    f = nbcache.load("both")
    from numba import njit
    from numba.core.runtime import _nrt_python
    import numba._helperlib, sys
    print(f.doubled(np.arange(3.0)), list(f.counted(2)), njit(lambda a: np.sort(a))(np.array([2.0, 1.0])))
    print(sys.modules["numba._helperlib"].__file__.startswith("/proc"), _nrt_python.__file__.startswith("/proc"))
    try:
        f.doubled(-np.ones(2))
    except ValueError as exc:
        print(exc.args)
    """
    said = accumulator(published, program, tmp_path).stdout
    assert said == "[0. 2. 4.] [0.0, 0.5] [1. 2.]\nFalse False\n('negative', -2.0)\n"


@pytest.mark.long
def test_doctor_finds_nothing_wrong_with_that(published, tmp_path):
    program = "from nbcache.cli.main import main\nmain(['doctor', '--json'])"
    found = {each["what"]: each for each in json.loads(run(environment(tmp_path), published, program))}
    assert found["numba"]["level"] == found["nbcache"]["level"] == "ok"
    # This environment is a folder: nobody installed NumPy there. A node needs no .pth file.
    assert {what for what, each in found.items() if each["level"] == "wrong"} == {"numpy"}
    assert "published" in found
