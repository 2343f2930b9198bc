"""Whose a file is where its path says little: bytecode that was stripped, and programs that PyInstaller made."""

import os
import statistics
import sys
import types
import zipfile

import pytest

from nbcache.glue.identity import roots
from nbcache.pyinstaller import LIBRARY

CACHED = (roots._standard_roots, roots._mixed_roots, roots._names_in_bundle, roots.package_roots)


@pytest.fixture
def again(monkeypatch):
    """What is known of this process is found out again, before and after."""
    for cached in CACHED:
        cached.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    for cached in CACHED:
        cached.cache_clear()


def compiled_as(path, name):
    scope = {"__name__": name}
    exec(compile("def f(): pass", path, "exec"), scope)
    return scope["f"]


def test_a_library_whose_bytecode_has_no_folder_is_told_from_others_by_where_its_modules_lie(again):
    again.setattr(roots, "_OF_LIBRARY", compiled_as("functools.py", "functools"))
    assert roots.is_standard("statistics.py") and roots.is_standard("json/decoder.py")
    assert roots.is_standard(statistics.__file__)
    assert not roots.is_standard("kernels.py") and not roots.is_standard("numba/core/types/abstract.py")
    ours = types.ModuleType("statistics")
    ours.__file__ = "/somewhere/statistics.pyc"
    again.setitem(sys.modules, "statistics", ours)
    assert not roots.is_standard("statistics.py")


def test_a_library_that_was_compiled_elsewhere_is_known_by_that_place(again):
    again.setattr(roots, "_OF_LIBRARY", compiled_as("/build/lib/python3/functools.py", "functools"))
    assert roots.is_standard("/build/lib/python3/statistics.py") and roots.is_standard(statistics.__file__)
    assert not roots.is_standard("/build/lib/python3/site-packages/kernels.py")
    assert not roots.is_standard("statistics.py")


def test_a_library_whose_os_is_frozen_into_python_is_known_by_the_path_in_its_code(again, tmp_path):
    again.delattr(os, "__file__")
    assert roots.is_standard(statistics.__file__)
    again.setattr(sys, "base_prefix", str(tmp_path))
    again.setattr(sys, "base_exec_prefix", str(tmp_path))
    again.setattr(roots, "_OF_LIBRARY", compiled_as("/build/lib/python3/functools.py", "functools"))
    roots._standard_roots.cache_clear()
    assert roots.is_standard("/build/lib/python3/statistics.py")
    assert not roots.is_standard(str(tmp_path / "lib" / "library.zip" / "statistics.pyc"))


def test_a_package_has_the_root_that_its_code_tells_as_well(again):
    package, _function = roots._PACKAGES["numba"]
    told = compiled_as("numba/core/types/abstract.py", "numba.core.types.abstract")
    again.setitem(roots._PACKAGES, "numba", (package, told))
    assert roots.is_below_package("numba/core/ir.py") and roots.is_below_package(package.__file__)
    assert not roots.is_below_package("numba/tests/ir.py") and not roots.is_below_package("kernels.py")


def test_a_package_whose_code_says_nothing_keeps_nbcache_off(again):
    package, _function = roots._PACKAGES["numba"]
    again.setitem(roots._PACKAGES, "numba", (package, compiled_as("abstract.py", "numba.core.types.abstract")))
    assert not roots.is_below_package("kernels.py")
    assert roots.problem() == "the bytecode of numba doesn't say which package it is of"


def test_where_numba_lies_in_the_directory_of_the_library_nbcache_stays_off(again):
    """So in a program that Nuitka made, whose own wave.py would count like the library's."""
    package, _function = roots._PACKAGES["numba"]
    place = os.path.dirname(os.path.dirname(package.__file__))
    assert roots.problem() is None
    again.setattr(os, "__file__", os.path.join(place, "os.py"))
    roots._standard_roots.cache_clear()
    assert roots.problem().startswith(f"Python's library and other modules lie in one place, {place}, ")


def test_an_archive_with_the_library_and_other_modules_keeps_nbcache_off(again, tmp_path):
    """So in a program that cx_Freeze made for Python 3.10."""
    archive = tmp_path / "library.zip"
    for other, said in (("json/decoder.pyc", None), ("kernels.pyc", "Python's library and other modules lie in one ")):
        with zipfile.ZipFile(archive, "w") as file:
            for name in ("os.pyc", "encodings/__init__.pyc", "wave.pyc", other):
                file.writestr(name, b"")
        again.setattr(os, "__file__", str(archive / "os.pyc"))
        roots._standard_roots.cache_clear()
        found = roots.problem()
        assert found is None if said is None else found.startswith(said)
    archive.write_bytes(b"")
    assert roots.problem().startswith(said)


@pytest.fixture
def bundle(again, tmp_path):
    """The directory of a program as PyInstaller makes it."""
    again.setattr(sys, "frozen", True, raising=False)
    again.setattr(sys, "_MEIPASS", str(tmp_path), raising=False)
    again.setattr(os, "__file__", str(tmp_path / "os.pyc"))
    again.setattr(roots, "_OF_LIBRARY", compiled_as("functools.py", "functools"))
    (tmp_path / "nbcache").mkdir()
    (tmp_path / "nbcache" / LIBRARY).write_text("json\nfunctools\n_json\n")
    return tmp_path


def test_in_a_frozen_program_the_library_is_what_its_builder_found_there(bundle):
    assert roots.problem() is None
    for name in ("functools.py", "json/decoder.py"):
        assert roots.is_standard(name) and roots.is_standard(str(bundle / name))
    assert roots.is_standard(str(bundle / "base_library.zip" / "functools.pyc"))
    extensions = bundle / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "lib-dynload"
    assert roots.is_standard(str(extensions / "_json.cpython-311-x86_64-linux-gnu.so"))
    for name in ("statistics.py", "kernels.py"):
        assert not roots.is_standard(name) and not roots.is_standard(str(bundle / name))


def test_a_frozen_program_of_which_its_builder_says_nothing_keeps_nbcache_off(bundle):
    (bundle / "nbcache" / LIBRARY).unlink()
    assert roots.problem().startswith("this program was frozen without nbcache's hook")
    assert not roots.is_standard("functools.py")
