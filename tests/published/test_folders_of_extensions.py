"""Where Numba's C extensions are looked for: once, and again where that may have another answer."""

import sys
from types import SimpleNamespace

import pytest

from nbcache.published import runtime


@pytest.fixture
def looked_for(monkeypatch, tmp_path):
    """Two places with a package, of which the path has the first; what was looked for by the path."""
    for place in ("one", "other"):
        (tmp_path / place / "nbtest_package").mkdir(parents=True)
        (tmp_path / place / "nbtest_package" / "__init__.py").touch()
    found, real = [], runtime.PathFinder.find_spec
    finder = SimpleNamespace(find_spec=lambda name: found.append(name) or real(name))
    monkeypatch.setattr(runtime, "PathFinder", finder)
    monkeypatch.setattr(runtime, "_found", {})
    monkeypatch.setattr(sys, "path", [str(tmp_path / "one")])
    return found


def test_a_package_is_looked_for_once(looked_for, tmp_path):
    folders = [str(tmp_path / "one" / "nbtest_package")]
    assert [runtime.folders_of("nbtest_package") for _ in range(3)] == [folders] * 3
    assert looked_for == ["nbtest_package"]


def test_it_is_looked_for_again_where_the_path_has_changed(looked_for, tmp_path):
    runtime.folders_of("nbtest_package")
    sys.path.insert(0, str(tmp_path / "other"))
    assert runtime.folders_of("nbtest_package") == [str(tmp_path / "other" / "nbtest_package")]
    assert len(looked_for) == 2


def test_it_is_looked_for_again_where_it_was_not_there(looked_for, tmp_path):
    assert runtime.folders_of("nbtest_later") == []
    (tmp_path / "new" / "nbtest_later").mkdir(parents=True)
    (tmp_path / "new" / "nbtest_later" / "__init__.py").touch()
    sys.path.append(str(tmp_path / "new"))
    assert runtime.folders_of("nbtest_later") == [str(tmp_path / "new" / "nbtest_later")]


def test_one_that_was_imported_says_itself_where_it_is(looked_for, monkeypatch):
    runtime.folders_of("nbtest_package")
    monkeypatch.setitem(sys.modules, "nbtest_package", SimpleNamespace(__path__=["/elsewhere"]))
    assert runtime.folders_of("nbtest_package") == ["/elsewhere"]
