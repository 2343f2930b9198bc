"""Wheels of published functions: installed beside NumPy alone, called, and refused with a reason."""

import ast
import importlib.metadata
import json
import os
import re
import sys
import sysconfig
import textwrap
from pathlib import Path

import pytest
from bare import Environment
from nbtest import proc

from nbcache import wheels
from nbcache.config import Settings
from nbcache.protocol import manifests
from nbcache.store.directory import Store

MODULE = """
import numpy as np
from numba import njit, vectorize

from mistakes import Mistake

TABLE = np.arange(100_000.0)

@njit("float64[::1](float64[::1], float64)")
def scaled(x, factor):
    if factor < 0:
        raise ValueError("negative")
    return np.sort(x) * factor + TABLE[1]

@vectorize(["float64(float64, float64)", "int64(int64, int64)"])
def add(a, b):
    return a + b

both = {"scaled": scaled, "add": add}
reserved = {"lambda": add}
taken = {"_functions": add}

@njit("int64(int64)")
def mistaken(x):
    if x < 0:
        raise Mistake(x)
    return x

@njit
def total(values):
    return sum(values)
"""
USE = """
import importlib.util, sys
for name in ("numba", "llvmlite", "nbcache", "_nbcache"):
    assert importlib.util.find_spec(name) is None, name
import numpy as np
from pricing_both import add, scaled
import pricing_both
assert sorted(pricing_both.__all__) == ["add", "scaled"] and pricing_both.__version__ == "1"
assert (scaled(np.array([3.0, 1.0, 2.0]), 2.0) == [3.0, 5.0, 7.0]).all()
assert add.reduce(np.arange(5)) == 10 and add(1.5, 2.0) == 3.5 and isinstance(add, np.ufunc)
for attempt, kind in ((lambda: scaled(np.zeros(2), -1.0), ValueError), (lambda: scaled("text", 1.0), TypeError)):
    try:
        attempt()
    except kind as error:
        print(error)
    else:
        raise AssertionError("nothing was raised")
names = {name.partition(".")[0] for name in sys.modules}
assert not names & {"numba", "llvmlite", "nbcache"} or {n for n in sys.modules if n.startswith("numba.")}
print("done")
"""


NAMES = (("2nd", "scaled"), ("sys", "add"), ("reserved", "reserved"), ("taken", "taken"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A store in which everything is published, and where the modules are."""
    folder = tmp_path_factory.mktemp("exported")
    (folder / "mine.py").write_text(textwrap.dedent(MODULE))
    (folder / "mistakes.py").write_text("class Mistake(Exception):\n    pass\n")
    for name, function in (("pricing.both", "both"), ("mistaken", "mistaken"), *NAMES):
        done = proc.run(["-m", "nbcache", "publish", name, f"mine:{function}"], folder / "store", cwd=folder)
        assert done.status == 0, done.stderr
    return folder


def export(folder, *argv, **extra):
    return proc.run(
        ["-m", "nbcache", "export", *argv, "--wheel", folder / "wheels"], folder / "store", extra, cwd=folder
    )


@pytest.fixture(scope="module")
def wheel(folder):
    done = export(folder, "pricing.both")
    assert done.status == 0, done.stderr
    return Path(done.stdout.strip())


def with_numpy(path):
    """An environment with NumPy and nothing else."""
    made = Environment(path)
    made.borrow("numpy")
    return made


@pytest.fixture
def environment(tmp_path, wheel):
    made = with_numpy(tmp_path / "venv")
    made.install(wheel)
    return made


def test_it_is_called_where_only_numpy_is_installed(environment):
    done = environment.run(USE, "-I")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "negative" and "float64" in lines[1] and lines[-1] == "done"


def test_it_is_tagged_for_this_platform_and_says_what_it_needs(wheel, environment):
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.name == f"pricing_both-1-{tag}-{tag}-{platform}.whl"
    (about,) = environment.site.glob("pricing_both-1.dist-info")
    said = (about / "METADATA").read_text()
    # Any release with the same ABI, also an older one than where it was published.
    major = int(importlib.metadata.version("numpy").partition(".")[0])
    oldest = {1: "1.24", 2: "2.0"}[major]
    assert re.findall("^Requires-Dist: (.*)$", said, re.MULTILINE) == [f"numpy<{major + 1},>={oldest}"]
    assert {"nbcache.LICENSE", "numba.LICENSE"} <= {path.name for path in about.rglob("*LICENSE*")}


@pytest.mark.long
def test_two_wheels_live_in_one_process(folder, tmp_path, wheel):
    done = export(folder, "2nd", "--package", "second")
    assert done.status == 0, done.stderr
    environment = with_numpy(tmp_path / "venv")
    environment.install(wheel, done.stdout.strip())
    done = environment.run(
        "import numpy as np, pricing_both, second\n"
        "x = np.array([2.0, 1.0])\n"
        "assert (second.scaled(pricing_both.scaled(x, 1.0), 1.0) == [3.0, 4.0]).all()",
        "-I",
    )
    assert done.returncode == 0, done.stderr


def test_a_package_may_be_called_like_one_that_builds_it(folder):
    done = export(folder, "2nd", "--package", "hatchling")
    assert done.status == 0, done.stderr
    assert Path(done.stdout.strip()).name.startswith("hatchling-1-")


def test_a_manifest_that_calls_itself_a_program_adds_none_to_the_package(folder, tmp_path):
    """Who exports what somebody published doesn't run it."""
    store = Store.open(Settings(dir=str(folder / "store")))
    found = store.names.read("2nd")
    manifest = manifests.decode(found.manifest)._replace(name='"""\nraise SystemExit(99)\n"""')
    text = wheels._init(wheels._Wheel("2nd", "second", "1", manifest, ()))
    assert [type(each).__name__ for each in ast.parse(text).body].count("Expr") == 1
    assert "SystemExit" not in text


def truncate_every_file(package):
    for file in (package / "files").iterdir():
        file.write_bytes(b"")


def remove_the_files(package):
    for file in (package / "files").iterdir():
        file.unlink()


def damage_the_manifest(package):
    (package / "manifest.json").write_text("{")


def build_it_for_another_processor(package):
    manifest = json.loads((package / "manifest.json").read_text())
    manifest["host"]["features"].append("warp_drive")
    (package / "manifest.json").write_text(json.dumps(manifest))


def build_it_for_another_numpy(package):
    manifest = json.loads((package / "manifest.json").read_text())
    manifest["host"]["numpy"][0] += 1
    (package / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.every(5)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (truncate_every_file, "is damaged: install it again"),
        (remove_the_files, "can't be read: No such file or directory"),
        (damage_the_manifest, "it is not JSON"),
        (build_it_for_another_processor, "a processor with warp_drive"),
        (build_it_for_another_numpy, "it was built for NumPy's ABI"),
    ],
)
def test_what_can_not_be_used_is_an_import_error_that_says_why(environment, change, said):
    change(environment.site / "pricing_both")
    done = environment.run("import pricing_both", "-I")
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1
    assert last.startswith("ImportError: pricing_both can't be loaded: ") and said in last, done.stderr


@pytest.mark.every(48)
@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["pricing.bath"], "nothing is published as pricing.bath in"),
        (["2nd"], "'2nd' can't be the name of a package: give it one with --package"),
        (["sys"], "'sys' can't be the name of a package"),
        (["pricing.both", "--package", "../x"], "'../x' can't be the name of a package"),
        (["pricing.both", "--package", "class"], "'class' can't be the name of a package"),
        (["pricing.both", "--package", "numpy"], "'numpy' can't be the name of a package"),
        (["reserved"], "lambda can't be the name of a function in a package: publish it under another one"),
        (["taken"], "_functions can't be the name of a function in a package"),
        (["mistaken"], "mistaken: it imports mistakes:Mistake: name the package that has it with --requires"),
    ],
)
def test_what_can_not_be_a_wheel_is_one_line(folder, argv, said):
    done = export(folder, *argv)
    assert done.status == 1
    assert said in done.stderr and done.stderr.count("\n") == 1, done.stderr


@pytest.mark.long
def test_a_requirement_is_named(folder, tmp_path):
    done = export(folder, "mistaken", "--requires", "mistakes>=1")
    assert done.status == 0, done.stderr
    environment = with_numpy(tmp_path / "venv")
    environment.install(done.stdout.strip())
    said = next(environment.site.glob("mistaken-*.dist-info/METADATA")).read_text()
    assert "Requires-Dist: mistakes>=1" in said
    (environment.site / "mistakes.py").write_text((folder / "mistakes.py").read_text())
    done = environment.run("import mistaken; mistaken.mistaken(-1)", "-I")
    assert done.stderr.strip().splitlines()[-1] == "mistakes.Mistake: -1"


@pytest.mark.long
def test_without_an_image_there_is_no_wheel(folder, tmp_path):
    done = proc.run(
        ["-m", "nbcache", "publish", "plain", "mine:add"], folder / "store", {"PATH": str(tmp_path)}, cwd=folder
    )
    assert done.status == 0, done.stderr
    done = export(folder, "plain")
    assert done.status == 1 and "plain: there is no image of it: install a linker" in done.stderr


def test_what_needs_numba_is_no_wheel(folder):
    program = "import nbcache, mine\nmine.total([1, 2])\nnbcache.publish('total', mine.total, numba='allow')"
    done = proc.run(
        ["-c", program], folder / "store", {"PYTHONPATH": f"{proc.search_path(proc.ROOT)}:{folder}"}, cwd=folder
    )
    assert done.status == 0, done.stderr
    done = export(folder, "total")
    assert done.status == 1 and "total needs Numba: " in done.stderr and done.stderr.count("\n") == 1


def test_without_hatchling_it_is_said_what_to_install(folder, tmp_path):
    program = f"""
import sys
sys.modules["hatchling"] = None
from nbcache.cli.main import main
sys.exit(main(["export", "pricing.both", "--wheel", {str(tmp_path)!r}]))
"""
    done = proc.run(
        ["-c", program],
        folder / "store",
    )
    assert done.status == 1 and "hatchling is not installed here: install nbcache[wheel]" in done.stderr
    assert os.listdir(tmp_path) == []


def test_what_is_packed_is_little_and_finds_itself():
    """No packed module would look for nbcache, but in functions that nobody calls."""
    packed = wheels._modules()
    assert sum(map(len, packed.values())) < 252_000
    later = set()
    for source in packed.values():
        moved = ast.parse(wheels._moved(source, "package.loader"))
        for statement in moved.body:
            if isinstance(statement, ast.ImportFrom):
                assert not re.match(r"_?nbcache\b", statement.module), ast.unparse(statement)
            elif isinstance(statement, ast.Import):
                assert not re.match(r"_?nbcache\b", statement.names[0].name), ast.unparse(statement)
        later |= {
            node.module
            for function in ast.walk(ast.parse(source))
            if isinstance(function, ast.FunctionDef)
            for node in ast.walk(function)
            if isinstance(node, ast.ImportFrom) and node.module.startswith("nbcache")
        }
    names = {path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in packed}
    assert {name for name in later - names if not name.startswith(wheels._NOT_NEEDED)} == set()
    assert not [name for name in names if name.startswith(wheels._NOT_NEEDED)]
