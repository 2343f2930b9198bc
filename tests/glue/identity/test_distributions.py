"""What an installed package consists of: the same for all who installed the same, another for whoever changed a file."""

import os
import shutil
import sys
import time
from pathlib import Path
from types import ModuleType

import llvmlite
import numba
import numpy as np
import pytest
from nbtest import proc, programs
from nbtest.records import row

from nbcache.glue.identity import distributions
from nbcache.glue.identity.distributions import Distributions

FILES = {
    "__init__.py": b"__version__ = '1.0'\n",
    "core/typing.py": b"RULE = 1\n",
    "core/tests/test_typing.py": b"assert True\n",
    "native.cpython-311-x86_64-linux-gnu.so": b"\x7fELF" * 9,
}


class Installation:
    """A package's files with a record, which the installer wrote last."""

    def __init__(self, site, *, end="\n", bytecode=True):
        self.site = site
        for name, content in FILES.items():
            self.write(name, content)
        rows = [row(f"../../bin/{site.name}", os.fsencode(site)), "paket-1.0.dist-info/RECORD,,"]
        rows += [row(f"paket/{name}", content) for name, content in sorted(FILES.items())]
        if bytecode:
            rows += ["paket/__pycache__/__init__.cpython-311.pyc,,"]
        self.record = site / "paket-1.0.dist-info" / "RECORD"
        self.record.parent.mkdir()
        self.record.write_bytes(end.join([*rows, ""]).encode())

    def write(self, name, content, *, modified=None):
        path = self.site / "paket" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        if modified is not None:
            os.utime(path, ns=(modified, modified))

    def later(self):
        return self.record.stat().st_mtime_ns + 1

    def identity(self, of=None):
        package = ModuleType("paket")
        package.__file__, package.__version__ = str(self.site / "paket" / "__init__.py"), "1.0"
        return (of or Distributions()).identity(package)


@pytest.fixture
def installed(tmp_path):
    names = iter("abcdefgh")

    def install(**how):
        site = tmp_path / next(names)
        site.mkdir()
        return Installation(site, **how)

    return install


@pytest.fixture
def unread(monkeypatch):
    """No file's content may be asked for."""
    monkeypatch.setattr(distributions, "_content", lambda path: pytest.fail(f"{path} is read"))


@pytest.mark.usefixtures("unread")
def test_who_installed_the_same_has_the_same(installed):
    assert installed().identity() == installed(end="\r\n", bytecode=False).identity()


def test_how_it_was_installed_does_not_count(installed):
    usual, copied, bare = installed(), installed(), installed()
    copied.write("core/typing.py", FILES["core/typing.py"], modified=copied.later())
    bare.record.unlink()
    assert usual.identity() == copied.identity() == bare.identity()


@pytest.mark.parametrize("content", [b"RULE = 2\n", b"RULE = 1\n# mended\n"])
@pytest.mark.parametrize("later", [True, False])
def test_a_file_that_was_changed(installed, content, later):
    usual, edited = installed(), installed()
    modified = edited.later() if later else edited.later() - 10**10
    edited.write("core/typing.py", content, modified=modified)
    noticed = later or len(content) != len(FILES["core/typing.py"])
    assert (edited.identity() != usual.identity()) == noticed
    if noticed:  # it counts by what it contains
        again = installed()
        again.write("core/typing.py", content, modified=again.later() + 5)
        assert again.identity() == edited.identity()


def test_files_that_come_and_go(installed):
    usual, more, fewer, tests = installed(), installed(), installed(), installed()
    more.write("core/another.py", b"RULE = 3\n")
    (fewer.site / "paket" / "core" / "typing.py").unlink()
    tests.write("core/tests/test_typing.py", b"assert False\n", modified=tests.later())
    assert len({usual.identity(), more.identity(), fewer.identity()}) == 3
    assert tests.identity() == usual.identity()


def test_a_record_from_the_future_says_nothing(installed):
    usual, edited = installed(), installed()
    os.utime(edited.record, ns=(4 * 10**18, 4 * 10**18))
    assert edited.identity() == usual.identity()
    edited.write("core/typing.py", b"RULE = 2\n")
    assert edited.identity() != usual.identity()


def test_what_is_no_file(installed):
    usual, odd = installed(), installed()
    (odd.site / "paket" / "core" / "a.py").symlink_to("nowhere.py")
    odd.write("core/LICENSE", b"free\n")
    assert odd.identity() == usual.identity()


def test_without_sources(installed):
    one, another = installed(), installed()
    for each, code in ((one, b"code 1"), (another, b"code 2")):
        (each.site / "paket" / "core" / "typing.py").unlink()
        each.write("core/typing.pyc", code)
    assert one.identity() != another.identity()


def test_modules_inside_a_file(tmp_path, monkeypatch):
    def identity(path):
        package = ModuleType("paket")
        package.__file__, package.__version__ = str(path), "1.0"
        return Distributions().identity(package)

    archive = tmp_path / "all.zip"
    executable = tmp_path / "app"
    monkeypatch.setattr(sys, "executable", str(executable))
    found = []
    for content in (b"1", b"2"):
        archive.write_bytes(content)
        executable.write_bytes(content)
        found += (
            identity(archive / "paket" / "__init__.py"),
            identity(tmp_path / "_internal" / "paket" / "__init__.pyc"),
        )
    assert found[0] == found[1] != found[2] == found[3]


def test_many_files_are_read_once(installed, monkeypatch):
    monkeypatch.setattr(distributions, "MOST_BYTES", 0)
    kept, read = [], []
    content_of = distributions._content
    monkeypatch.setattr(distributions, "_content", lambda path: read.append(path) or content_of(path))

    def asked():
        remembering = Distributions()
        remembering.recall = lambda key: [content for known, content in kept if known == key]
        remembering.remember = lambda key, _variant, content, _seconds: kept.append((key, content))
        return remembering

    place = installed()
    usual = place.identity()
    place.record.unlink()
    read.clear()
    assert place.identity(asked()) == usual
    assert len(read) == 3
    assert place.identity(asked()) == usual
    assert len(read) == 3
    place.write("core/typing.py", b"RULE = 2\n")
    assert place.identity(asked()) != usual
    assert len(read) == 6
    kept[:] = [(key, junk) for key, _content in kept for junk in (b"", b"[]", b"{}", b'{"version": 1}')]
    place.write("core/typing.py", FILES["core/typing.py"])
    assert place.identity(asked()) == usual


def test_the_toolchain_is_as_its_installers_recorded(unread):
    """If this fails, somebody has edited a package of this environment."""
    for package in (numba, llvmlite, np):
        assert len(Distributions().identity(package)) == 32


SINC = """
import sys
import numpy as np
import numba
assert numba.__file__.startswith(sys.argv[1]), numba.__file__
from numba import njit
@njit
def g(x):
    return np.sinc(x)
print(g(0.25))
"""


@pytest.fixture(scope="module")
def second_environment(tmp_path_factory):
    """Numba installed once more, as one copies an environment."""
    site = tmp_path_factory.mktemp("site")
    there = Path(numba.__file__).parent
    left_out = shutil.ignore_patterns("tests", "cuda", "__pycache__")
    shutil.copytree(there, site / "numba", ignore=left_out)
    info = f"numba-{numba.__version__}.dist-info"
    shutil.copytree(there.parent / info, site / info)
    return site


@pytest.mark.long
def test_numba_edited_under_the_same_version(second_environment, tmp_path):
    """The first case of its kind: another `np.sinc`, in a module that a hit doesn't load."""
    (tmp_path / "main.py").write_text(SINC)
    (tmp_path / "warm.py").write_text(SINC.replace("print", f"{programs.FORBID}\nforbid()\nprint"))

    def run(name="main", *, edited):
        site = second_environment if edited else Path(numba.__file__).parents[1]
        extra = {"PYTHONPATH": f"{proc.environment()['PYTHONPATH']}:{site}"}
        outcome = proc.run([tmp_path / f"{name}.py", site], tmp_path / "store", extra, cwd=tmp_path)
        assert outcome.status == 0, outcome.stderr
        return outcome.stdout

    usual = run(edited=False)
    assert run("warm", edited=True) == usual  # the same files are the same
    # Numba 0.61 has it in another module, to which this one leads.
    modules = (second_environment / "numba" / "np").glob("*arraymath.py")
    [module] = (each for each in modules if "return np.sin(x) / x" in each.read_text() and "new_" not in each.name)
    module.write_text(module.read_text().replace("return np.sin(x) / x", "return np.sin(x) / x / np.sqrt(2)", 1))
    patched = run(edited=True)
    assert float(patched) == pytest.approx(float(usual) / 2**0.5)
    assert run("warm", edited=True) == patched
    assert run("warm", edited=False) == usual
    why = proc.run(["-m", "nbcache", "why", "__main__:g"], tmp_path / "store").stdout
    assert "files of numba" in why, why


def test_whose_a_file_is(tmp_path, monkeypatch):
    installed = Installation(tmp_path)
    monkeypatch.setattr(distributions, "STARTED", time.time_ns() + 10**12)
    monkeypatch.syspath_prepend(str(tmp_path))
    found, path = Distributions(), os.fspath(tmp_path / "paket" / "core" / "typing.py")
    metadata = found.metadata_of(path)
    assert metadata == os.fspath(installed.record.parent)
    assert found.state_of(metadata).startswith("paket-1.0 ")
    for other in (tmp_path / "paket" / "beside.py", tmp_path.parent / "elsewhere.py"):
        other.write_text("")
        assert found.metadata_of(os.fspath(other)) is None


def test_a_package_of_another_name_than_its_distribution(tmp_path, monkeypatch):
    installed = Installation(tmp_path)
    monkeypatch.setattr(distributions, "STARTED", time.time_ns() + 10**12)
    monkeypatch.syspath_prepend(str(tmp_path))
    renamed = installed.record.parent.rename(tmp_path / "named_otherwise-2.0.dist-info")
    assert Distributions().metadata_of(os.fspath(tmp_path / "paket" / "core" / "typing.py")) == os.fspath(renamed)


def test_what_was_installed_after_the_process_began_is_nobodys(tmp_path, monkeypatch):
    Installation(tmp_path)
    monkeypatch.setattr(distributions, "STARTED", time.time_ns() - 10**12)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert Distributions().metadata_of(os.fspath(tmp_path / "paket" / "core" / "typing.py")) is None
