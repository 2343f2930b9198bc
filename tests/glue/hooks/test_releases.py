"""The releases of Numba that nbcache is said to work with, and what it does with those that it doesn't know."""

import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from nbtest import proc

from nbcache.glue import releases
from nbcache.glue.hooks import seams

ROOT = Path(__file__).resolve().parents[3]

PROGRAM = """
import numba

@numba.njit
def f(x):
    return x + 1

print(numba.__version__, f(1))
"""


def test_the_wheel_asks_for_the_first_verified_release_and_has_no_upper_bound():
    (bound,) = re.findall(r'"numba([<>=][^"]*)"', (ROOT / "pyproject.toml").read_text())
    assert bound == ">=" + ".".join(map(str, releases.VERIFIED[0]))


def test_the_version_matrix_runs_the_verified_releases():
    (default,) = re.findall(r"^releases=\((.*)\)$", (ROOT / "scripts/version-matrix").read_text(), re.MULTILINE)
    first, last = releases.VERIFIED
    assert default.split() == [f"0.{minor}" for minor in range(first[1], last[1] + 1)]


@pytest.mark.parametrize("version", ["0.60.0", "0.69.0", "0.69.0rc1", "1.0.0", "0+unknown"])
def test_another_release_is_refused_in_one_line(version):
    assert version in releases.problem(version)
    assert "\n" not in releases.problem(version)


@pytest.mark.parametrize("version", ["0.61.0", "0.68.1", "0.68.0rc1"])
def test_a_verified_release_is_taken(version):
    assert releases.problem(version) is None


def test_every_seam_is_as_expected():
    assert seams.problem() is None


@pytest.fixture
def newer(tmp_path):
    """A folder with a Numba of the future: another version, and without a name that the seams import."""
    place = tmp_path / "newer" / "numba"
    original = Path(find_spec("numba").origin).parent
    for folder, _, names in os.walk(original):
        (place / Path(folder).relative_to(original)).mkdir(parents=True)
        for name in names:
            os.symlink(f"{folder}/{name}", place / Path(folder).relative_to(original) / name)
    for name, text in {
        "_version.py": "def get_versions():\n    return {'version': '0.99.0', 'full-revisionid': ''}\n",
        "__init__.py": (original / "__init__.py").read_text()
        + "\nimport sys\ndel sys.modules['numba.core.caching']._Cache\n",
    }.items():
        (place / name).unlink()
        (place / name).write_text(text)
    return place.parent


@pytest.mark.parametrize("when", ["switch", "enable"])
def test_a_newer_numba_switches_nbcache_off_with_one_line(newer, tmp_path, when):
    store = tmp_path / "store"
    (tmp_path / "main.py").write_text(
        (f"import nbcache\nnbcache.enable({str(store)!r})\n" if when == "enable" else "") + PROGRAM
    )
    path = os.pathsep.join([str(newer), proc.search_path(ROOT)])
    done = proc.run([tmp_path / "main.py"], store if when == "switch" else None, {"PYTHONPATH": path})
    assert done.stdout == "0.99.0 2\n", done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert "nbcache stays off: Numba 0.99.0 is not a release that nbcache was verified with" in done.stderr
    assert not list(store.rglob("*.nbo"))


def test_a_newer_numba_is_tried_where_somebody_says_so(newer, tmp_path):
    (tmp_path / "main.py").write_text(PROGRAM)
    path = os.pathsep.join([str(newer), proc.search_path(ROOT)])
    done = proc.run([tmp_path / "main.py"], tmp_path / "store", {"PYTHONPATH": path, "NBCACHE_UNVERIFIED": "1"})
    assert done.stdout == "0.99.0 2\n", done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert "nbcache stays off: it failed to start" in done.stderr
