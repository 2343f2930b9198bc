"""Modules that somebody else may have written, at the end of paths that somebody else may change."""

import importlib
import os
import subprocess
import sys

import pytest

import _nbcache
from nbcache.daemon import interpreters
from nbcache.file_trust import Trust
from nbcache.importing import Paths, TrustedFinder, UntrustedError

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root: changes owners")
STRANGER = 4321


@pytest.fixture
def code(place):
    """A directory of modules of one's own."""
    folder = place / "code"
    folder.mkdir(mode=0o755)
    (folder / "victim.py").write_text("WHO = 'me'\n")
    return folder


def imported(path, name="victim"):
    """What a fresh process that guards its imports gets; or why not."""
    program = (
        "import sys; from nbcache import importing; from nbcache.file_trust import Trust\n"
        "importing.guard(Trust()); sys.path.insert(0, sys.argv[1])\n"
        "try: print(__import__(sys.argv[2]).WHO)\n"
        "except importing.UntrustedError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", program, path, name], capture_output=True, text=True, check=True, cwd="/"
    )
    return done.stdout.strip()


def test_one_s_own(code, place):
    assert imported(code) == "me"
    (place / "link").symlink_to("code")
    assert imported(place / "link") == "me"
    (code / "other.py").symlink_to("victim.py")
    assert imported(code, "other") == "me"


def test_behind_a_stranger_s_link(code, place):
    """Where it leads now is no use: it may lead elsewhere when the module is opened."""
    (place / "link").symlink_to("code")
    os.chown(place / "link", STRANGER, STRANGER, follow_symlinks=False)
    assert f"lies behind the link {place}/link, which is owned by uid {STRANGER}" in imported(place / "link")


def test_in_a_stranger_s_directory_on_the_way(code, place):
    (place / "theirs").mkdir()
    (place / "theirs/link").symlink_to(code)
    os.chown(place / "theirs", STRANGER, STRANGER)
    assert f"{place}/theirs, which is owned by uid {STRANGER}" in imported(place / "theirs/link")


def test_through_the_directory_above(code, place):
    os.chown(place / "code", STRANGER, STRANGER)
    (place / "mine").mkdir()
    (place / "mine/victim.py").write_text("WHO = 'me'\n")
    assert f"{place}/code, which is owned by uid {STRANGER}" in imported(f"{place}/code/../mine")


def test_links_without_end(place):
    (place / "a").symlink_to("b")
    (place / "b").symlink_to("a")
    assert "behind too many links" in Paths(Trust()).problem(str(place / "a"))


@pytest.mark.parametrize("first", [0, 1])
def test_beside_another_finder_that_asks_all_others(code, monkeypatch, first):
    """As where somebody imports Numba, which nbcache waits for, or a module of its later than itself."""
    both = [TrustedFinder(Trust()), _nbcache.Finder("victim", lambda: None)]
    monkeypatch.setattr(sys, "meta_path", [both[first], both[1 - first], *sys.meta_path])
    monkeypatch.syspath_prepend(code)
    try:
        assert importlib.import_module("victim").WHO == "me"
    finally:
        sys.modules.pop("victim", None)


SWAP = """
import os, sys
place = sys.argv[1]
os.setgid(4321); os.setuid(4321)
while True:
    for target in ("{place}/code", "{place}/theirs"):
        os.symlink(target, f"{place}/drop/new")
        os.rename(f"{place}/drop/new", f"{place}/drop/link")
"""


def test_a_link_that_changes_all_the_time(code, place):
    """A7: within 40 requests a stranger's module ran, when the real path was judged and the other one opened."""
    (place / "theirs").mkdir()
    (place / "theirs/victim.py").write_text("WHO = 'a stranger'\n")
    (place / "drop").mkdir()
    (place / "drop").chmod(0o1777)
    (place / "drop/link").symlink_to(code)
    for path in (place / "theirs", place / "theirs/victim.py", place / "drop/link"):
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
    swapper = subprocess.Popen([sys.executable, "-c", SWAP.replace("{place}", str(place)), str(place)])
    sys.path.insert(0, str(place / "drop/link"))
    try:
        for _ in range(300):
            finder = TrustedFinder(Trust())
            sys.meta_path.insert(0, finder)
            importlib.invalidate_caches()
            try:
                module = importlib.import_module("victim")
                assert module.WHO == "me"
            except (UntrustedError, FileNotFoundError, ModuleNotFoundError):
                pass
            finally:
                sys.modules.pop("victim", None)
                sys.meta_path.remove(finder)
        assert swapper.poll() is None
    finally:
        sys.path.remove(str(place / "drop/link"))
        swapper.kill()
        swapper.wait()


@pytest.mark.parametrize("whose", ["a module's", "a submodule's"])
def test_all_of_a_package_in_the_one_directory_that_is_judged(code, place, whose):
    elsewhere, package = place / "elsewhere", code / "package"
    for folder in (elsewhere, package):
        folder.mkdir()
        (folder / "__init__.py").write_text("")
        (folder / "inner.py").write_text("WHO = 'me'\n")
    (elsewhere / "other.py").write_text("WHO = 'installed'\n")
    for path in (elsewhere / "other.py", package / ("__init__.py" if whose == "a module's" else "inner.py")):
        os.chown(path, STRANGER, STRANGER)
    finder = TrustedFinder(Trust(), str(code))
    sys.meta_path.insert(0, finder)
    sys.path[:0] = [str(code), str(elsewhere)]
    try:
        assert importlib.import_module("other").WHO == "installed"
        with pytest.raises(UntrustedError, match=f"is owned by uid {STRANGER}"):
            importlib.import_module("package.inner")
    finally:
        sys.meta_path.remove(finder)
        sys.path[:2] = []
        for name in ("other", "package", "package.inner"):
            sys.modules.pop(name, None)


# -- interpreters ----------------------------------------------------------------------------------


@pytest.fixture
def venv(place):
    """A virtual environment of one's own, without packages."""
    folder = place / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    return folder, site


def problem(venv):
    return interpreters.problem(f"{venv[0]}/bin/python", Trust())


def test_an_interpreter_of_one_s_own(venv):
    assert problem(venv) is None
    assert interpreters.problem(sys.executable, Trust()) is None
    assert interpreters.problem("python3", Trust()) == "is no absolute path"


@pytest.mark.parametrize("name", ["x.pth", "pyvenv.cfg", "bin/python"])
def test_what_a_stranger_wrote_beside_it(venv, name):
    path = venv[1] / name if name == "x.pth" else venv[0] / name
    if name == "x.pth":
        path.write_text("import os\n")
    os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
    assert f"owned by uid {STRANGER}" in problem(venv)


def test_a_pth_file_behind_a_stranger_s_link(venv, place):
    (place / "mine.pth").write_text("import os\n")
    (venv[1] / "x.pth").symlink_to(place / "mine.pth")
    assert problem(venv) is None
    os.chown(venv[1] / "x.pth", STRANGER, STRANGER, follow_symlinks=False)
    assert f"owned by uid {STRANGER}" in problem(venv)


def test_a_pth_file_that_others_may_write(venv):
    (venv[1] / "x.pth").write_text("import os\n")
    (venv[1] / "x.pth").chmod(0o666)
    assert "x.pth, which is writable by others" in problem(venv)


def test_an_environment_whose_library_is_behind_a_stranger_s_link(venv, place):
    (place / "base").symlink_to(os.path.dirname(os.path.dirname(os.path.realpath(sys.executable))))
    (venv[0] / "pyvenv.cfg").write_text(f"home = {place}/base/bin\n")
    assert problem(venv) is None
    os.chown(place / "base", STRANGER, STRANGER, follow_symlinks=False)
    assert f"lies behind the link {place}/base, which is owned by uid {STRANGER}" in problem(venv)


@pytest.mark.parametrize("home", ["", "relative", None])
def test_an_environment_without_a_home(venv, home):
    (venv[0] / "pyvenv.cfg").write_text("" if home is None else f"home = {home}\n")
    assert problem(venv) == "has a pyvenv.cfg without a home"


def test_an_environment_whose_library_is_a_stranger_s(venv, place):
    """What says where Python's library is leads there: it is executed before anything can be judged."""
    library = place / "base/lib/python3.11"
    library.mkdir(parents=True)
    (place / "base/bin").mkdir()
    (library / "os.py").write_text("")
    (venv[0] / "pyvenv.cfg").write_text(f"home = {place}/base/bin\n")
    assert problem(venv) is None
    os.chown(library / "os.py", STRANGER, STRANGER)
    assert f"{library}/os.py, which is owned by uid {STRANGER}" in problem(venv)
