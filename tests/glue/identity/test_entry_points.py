"""What stands in for slower ways of Numba gives the same answers."""

import email.message  # noqa: F401  importlib.metadata imports it when it is asked, since Python 3.14
import importlib.metadata
import importlib.util
import random
import shutil
import sys
import zipfile

import pytest
from nbtest import proc

from nbcache.glue.identity.entry_points import declares_extensions

OURS = "[console_scripts]\nnbcache = nbcache.cli.main:main\n\n[numba_extensions]\ninit = _nbcache:extend\n"
OTHERS = "[numba_extensions]\ninit = numba_thing:init\n"


@pytest.fixture(params=["Python's finder", "the finder of importlib_metadata"])
def path(request, monkeypatch, tmp_path):
    """A search path with two folders of distributions and nothing else."""
    finder = importlib.machinery.PathFinder
    # importlib_metadata, where somebody imports it, takes this away from Python's finder, and adds one of its own.
    found = importlib.metadata.MetadataPathFinder.find_distributions
    monkeypatch.setattr(finder, "find_distributions", found, raising=False)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    finders = [finder]
    if request.param == "the finder of importlib_metadata":
        finders.append(pytest.importorskip("importlib_metadata").MetadataPathFinder())
        monkeypatch.delattr(finder, "find_distributions", raising=False)
    monkeypatch.setattr(sys, "meta_path", finders)
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    monkeypatch.setattr(sys, "path", list(map(str, folders)))
    return folders


def distribution(folder, name, entry_points=None, kind="dist-info"):
    info = folder / f"{name}-1.0.{kind}"
    info.mkdir()
    (info / ("METADATA" if kind == "dist-info" else "PKG-INFO")).write_text(f"Name: {name}\nVersion: 1.0\n")
    if entry_points is not None:
        (info / "entry_points.txt").write_text(entry_points)
    return info


def by_metadata():
    """What Numba would load besides this package."""
    found = importlib.metadata.entry_points(group="numba_extensions")
    return [each for each in found if each.value != "_nbcache:extend"]


def test_no_extension(path):
    distribution(path[0], "plain")
    distribution(path[0], "scripts", "[console_scripts]\nx = y:z\n")
    distribution(path[1], "nbcache", OURS)
    (path[1] / "not-metadata.txt").write_text(OTHERS)
    (path[1] / "file.egg-info").write_text("Name: file\nVersion: 1\n")
    assert not declares_extensions()
    assert not by_metadata()


@pytest.mark.parametrize("kind", ["dist-info", "egg-info", "DIST-INFO"])
@pytest.mark.parametrize(
    "text", [OTHERS, OTHERS.replace(" = ", "="), OURS + "more = a:b\n", OURS + OTHERS, "[a]\nb = c\n" + OTHERS]
)
def test_an_extension(path, kind, text):
    distribution(path[0], "plain")
    distribution(path[1], "thing", text, kind)
    assert declares_extensions()


def test_an_archive_on_the_path(path, tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("thing-1.0.dist-info/METADATA", "Name: thing\nVersion: 1.0\n")
        archive.writestr("thing-1.0.dist-info/entry_points.txt", OTHERS)
    sys.path.append(str(tmp_path / "a.zip"))
    # What importlib_metadata imports for archives isn't on this path.
    assert by_metadata() or len(sys.meta_path) > 1
    assert declares_extensions()


def test_the_current_folder_and_folders_that_are_not_there(path, monkeypatch):
    sys.path[:] = ["", "/nonexistent"]
    monkeypatch.chdir(path[0])
    assert not declares_extensions()
    distribution(path[0], "thing", OTHERS)
    assert declares_extensions()


def test_other_ways_to_find_distributions(path, monkeypatch):
    class Finder:
        def find_distributions(self, context):
            return []

    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    assert declares_extensions()
    monkeypatch.undo()
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_given: [])
    assert declares_extensions()


def test_random_distributions_like_importlib_metadata(path):
    """Whatever `importlib.metadata` finds is found; where it finds nothing, nothing has to be found."""
    rng = random.Random(5)
    texts = [
        None,
        "",
        OURS,
        OTHERS,
        "[other]\nx = y\n",
        "[numba_extensions]\n",
        "# numba_extensions\n",
        OURS + OTHERS[20:],
    ]
    seen = set()
    for _ in range(100):
        kinds = ["dist-info", "egg-info"]
        made = [distribution(rng.choice(path), f"d{n}", rng.choice(texts), rng.choice(kinds)) for n in range(3)]
        importlib.invalidate_caches()
        if by_metadata():
            assert declares_extensions()
        seen.add(declares_extensions())
        for info in made:
            shutil.rmtree(info)
    assert seen == {True, False}


MASKED = """
import numpy as np
from numba import njit, typeof

@njit
def f(a):
    return a.sum()

print(f(np.arange(4.0)))
def refused(a):
    try:
        return f(a), typeof(a)
    except Exception as error:
        return type(error).__name__, str(error).partition("\\n")[0]
print(refused(np.ma.masked_array([1.0, 2.0], [True, False])))
print(refused(np.arange(3)[::2]), refused(np.array(["a"], dtype=object)))
"""


@pytest.mark.long
def test_masked_arrays_are_refused_as_ever(tmp_path):
    (tmp_path / "main.py").write_text(MASKED)
    expected = proc.run([tmp_path / "main.py"])
    for _ in range(2):
        outcome = proc.run([tmp_path / "main.py"], tmp_path / "store")
        assert outcome.said == expected.said
        assert outcome.stderr == ""
    assert "MaskedArray" in expected.stdout
