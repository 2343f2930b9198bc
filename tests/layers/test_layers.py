"""Read-only stores under a store: what a package ships is found, judged as everything is, and never touched."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys

import pytest
from nbtest import proc
from nbtest.spoiling import spoil

from nbcache.glue.identity import entry_points

LIB = """
from numba import njit, vectorize
import numpy as np
@njit
def callee(x):
    return x + 1.0
@njit
def f(a):
    s = 0.0
    for x in a:
        s += callee(x) * np.sin(x)
    return s
@njit
def rec(n):
    return n if n < 2 else rec(n - 1) + rec(n - 2)
@vectorize
def u(x):
    return callee(x) * 2.0
@njit(fastmath=True)
def loose(x):
    return x * 3.0 + 1.0
"""
USE = "import numpy as np, lib\nprint(lib.f(np.arange(5.0)), lib.rec(10), lib.u(np.arange(3.0)))\n"
USE_LOOSE = "import lib\nprint(lib.loose(2.0))\n"
TELL = """
import json, nbcache
said = nbcache.stats()
print(json.dumps({name: said[name] for name in ("hit_count", "builds", "builds_count", "sources", "misses", "errors")}))
"""
CPU = "x86-64-v2"
"""A level that every host has which runs these tests."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A package beside its exercise, and the layer that was made of both."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "lib.py").write_text(LIB)
    (folder / "exercise.py").write_text(USE + USE_LOOSE)
    done = bundle(folder)
    assert done.status == 0, done.stdout + done.stderr
    return folder


@pytest.fixture
def scene(place, made):
    """They, elsewhere than where the layer was made."""
    shutil.copytree(made, place, dirs_exist_ok=True)
    place.chmod(0o755)
    return place


def bundle(place, *options, program="exercise.py", cpu=CPU, layer="layer", **extra):
    argv = ["-m", "nbcache", "bundle", "--layer", place / layer, "--cpu", cpu, *options, "--", sys.executable, program]
    return proc.run(argv, None, extra, cwd=place)


def run(place, program=USE, store="store", **extra):
    """Run a program; return what it says, what it counted, and its standard error."""
    (place / "main.py").write_text(program + TELL)
    settings = {"NBCACHE_LAYERS": str(place / "layer"), **extra}
    outcome = proc.run(["main.py"], store and place / store, settings, cwd=place)
    assert outcome.status == 0, outcome.stderr
    *said, counted = outcome.stdout.splitlines()
    return said, json.loads(counted), outcome.stderr


def snapshot(root):
    """Everything of a tree that anybody could have changed."""
    return {
        path: (path.lstat().st_mode, path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in [root, *sorted(root.rglob("*"))]
    }


def plain(place, program=USE):
    (place / "plain.py").write_text(program)
    return proc.run(["plain.py"], None, cwd=place).stdout.splitlines()


def test_the_first_process_compiles_nothing_and_the_layer_stays_as_it_is(scene):
    before = snapshot(scene / "layer")
    for _ in range(2):
        said, counted, _ = run(scene)
        assert said == plain(scene)
        assert counted["builds_count"] == 0 and counted["errors"] == {}
        assert sum(counted["sources"].values()) == counted["hit_count"] >= 4
        assert all(source == f"{scene / 'layer'}, {CPU}" for source in counted["sources"])
    assert not list((scene / "store").glob("v1/objects/*/*"))
    for command in (["gc", "--max-size", "0"], ["clear", "--yes"], ["verify", "--remove"], ["quarantine", "--clear"]):
        proc.run(["-m", "nbcache", *command], scene / "store", {"NBCACHE_LAYERS": str(scene / "layer")})
    assert snapshot(scene / "layer") == before


@pytest.mark.long
def test_what_may_differ_between_processors_is_not_taken(scene):
    _, counted, _ = run(scene, USE_LOOSE)
    assert counted["builds_count"] == 1
    assert run(scene, USE_LOOSE, store="other", NBCACHE_CPU=CPU)[1]["builds_count"] == 0


@pytest.mark.long
def test_an_edited_package_misses_and_is_right(scene):
    (scene / "lib.py").write_text(LIB.replace("x + 1.0", "x + 2.0"))
    said, counted, _ = run(scene)
    assert said == plain(scene)
    assert counted["builds_count"] >= 3 and counted["errors"] == {}
    # What didn't change is still taken from there, and what was compiled from the store.
    assert counted["sources"]
    assert run(scene)[1]["builds_count"] == 0


@pytest.mark.long
def test_other_settings_and_other_versions_are_misses(scene):
    said, counted, _ = run(scene, NUMBA_OPT="1")
    assert said == plain(scene) and counted["builds_count"] >= 4 and counted["sources"] == {}
    for path in (scene / "layer").rglob("*.nbo"):
        data = bytearray(path.read_bytes())
        data[8] += 1  # the version of the format
        path.write_bytes(data)
    said, counted, told = run(scene, store="other")
    assert said == plain(scene) and counted["builds_count"] >= 4 and counted["errors"] == {}
    assert told == ""


@pytest.mark.long
def test_damaged_entries_are_misses_and_stay(scene):
    for path in (scene / "layer").rglob("*.nbo"):
        path.write_bytes(path.read_bytes()[:-7])
    before = snapshot(scene / "layer")
    said, counted, _ = run(scene)
    assert said == plain(scene) and counted["builds_count"] >= 4
    assert snapshot(scene / "layer") == before


def test_the_store_comes_before_the_layers_and_these_in_their_order(scene):
    shutil.copytree(scene / "layer", scene / "second")
    both = f"{scene / 'second'}{os.pathsep}{scene / 'layer'}"
    assert set(run(scene, NBCACHE_LAYERS=both)[1]["sources"]) == {f"{scene / 'second'}, {CPU}"}
    run(scene, NBCACHE_LAYERS="")
    assert run(scene, NBCACHE_LAYERS=both)[1]["sources"] == {}


def test_a_layer_that_others_can_write_is_not_used(scene):
    (scene / "layer").chmod(0o777)
    said, counted, told = run(scene)
    assert said == plain(scene) and counted["builds_count"] >= 4
    assert told.count(f"the layer {scene / 'layer'} is not used") == 1 and "writable" in told
    (scene / "layer").chmod(0o755)
    for path in (scene / "layer").rglob("*.nbo"):
        path.chmod(0o666)
    _, counted, _ = run(scene, store="other")
    assert counted["builds_count"] >= 4 and counted["sources"] == {}
    _, _, told = run(scene, store="third", NBCACHE_LAYERS=str(scene / "nowhere"))
    assert "is no directory" in told


@pytest.mark.long
def test_layers_alone_switch_nothing_on(scene):
    said, counted, _ = run(scene, store=None)
    assert said == plain(scene) and counted["hit_count"] == counted["builds_count"] == 0


@pytest.mark.long
def test_entries_that_programs_crash_with_are_passed_over_without_a_change_of_the_layer(scene):
    spoil(scene / "layer", "lib:f")
    before = snapshot(scene / "layer")
    for _ in range(2):
        ended = proc.run(["exercise.py"], scene / "store", {"NBCACHE_LAYERS": str(scene / "layer")}, cwd=scene)
        assert ended.status == -signal.SIGILL
    said, counted, told = run(scene)
    assert said == plain(scene)
    assert counted["misses"]["quarantined"] >= 1 and counted["builds_count"] >= 1
    assert "because programs crashed with it" in told
    assert snapshot(scene / "layer") == before
    # Built here, they are used from here.
    assert run(scene)[1]["builds_count"] == 0


@pytest.mark.long
def test_what_was_used_well_is_on_trial_no_more(scene):
    run(scene)
    noted = list((scene / "store").glob("v1/trials/*/good-1"))
    assert len(noted) == 1
    lines = noted[0].read_text().splitlines()
    assert len(lines) >= 4 and all(len(line) == 32 + 1 + 64 for line in lines)
    run(scene)
    assert noted[0].read_text().splitlines() == lines


@pytest.mark.long
def test_commands_tell_where_a_hit_came_from(scene):
    run(scene)
    settings = {"NBCACHE_LAYERS": str(scene / "layer")}

    def said(*argv):
        return proc.run(["-m", "nbcache", *argv], scene / "store", settings, cwd=scene).stdout

    assert f"from {scene / 'layer'}, {CPU}" in said("stats")
    assert f"in the layer {scene / 'layer'}" in said("why", "--all", "f")
    key = next((scene / "layer").rglob("*.nbo"))
    shown = said("show", key.parent.name + key.name.partition(".")[0])
    assert ["layer", str(scene / "layer")] in map(str.split, shown.splitlines()) and "strict" in shown
    assert f"{scene / 'layer'}: " in said("doctor") and f"for {CPU}" in said("doctor")
    key.write_bytes(key.read_bytes()[:-1])
    assert "; 1 can't be used (damaged)" in said("doctor")


def test_a_layer_tells_nothing_of_where_it_was_made(made):
    data = b"".join(path.read_bytes() for path in (made / "layer").rglob("*") if path.is_file())
    assert str(made).encode() not in data and b'"host":' not in data
    assert b"__main__:" not in data
    assert sorted(path.name for path in (made / "layer").iterdir()) == ["v1"]


@pytest.mark.long
def test_what_bundle_refuses(scene):
    (scene / "bad.py").write_text("raise SystemExit(3)\n")
    assert "status 3" in bundle(scene, program="bad.py", layer="other").stderr
    (scene / "nothing.py").write_text("print(1)\n")
    assert "nbcache" in bundle(scene, program="nothing.py", layer="other").stderr
    (scene / "full").mkdir()
    (scene / "full" / "data").touch()
    assert "neither empty nor a layer" in bundle(scene, layer="full").stderr
    assert bundle(scene, cpu="i486").status == 2


@pytest.mark.long
def test_a_layer_is_extended_level_by_level_and_for_one_package_only(scene):
    before = len(list((scene / "layer").rglob("*.nbo")))
    extended = bundle(scene, cpu="x86-64")
    assert extended.status == 0 and f"for x86-64, {CPU}" in extended.stdout
    assert len(list((scene / "layer").rglob("*.nbo"))) == 2 * before
    assert bundle(scene, "--only", "lib", layer="small").status == 0
    assert len(list((scene / "small").rglob("*.nbo"))) <= before
    bundle(scene, "--only", "other", layer="none")
    listed = json.loads(proc.run(["-m", "nbcache", "ls", "--json"], scene / "none").stdout)
    assert not [entry["function"] for entry in listed if entry["function"].startswith("lib:")]


# -- layers that installed packages declare ------------------------------------------------------


@pytest.fixture
def site(scene):
    """A directory of packages with one whose metadata declares a layer; importing that package would be noticed."""
    folder = scene / "site"
    (folder / "declaring").mkdir(parents=True)
    (folder / "declaring" / "__init__.py").write_text("print('imported')\n")
    shutil.copytree(scene / "layer", folder / "declaring" / "_layer")
    metadata = folder / "declaring-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: declaring\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[nbcache.layers]\nmain = declaring._layer\nbad = ../../etc\n")
    return folder


def with_site(site, **extra):
    return {"NBCACHE_LAYERS": "", "PYTHONPATH": f"{proc.search_path(proc.ROOT)}{os.pathsep}{site}", **extra}


@pytest.mark.long
def test_a_declared_layer_is_found_without_importing_its_package(scene, site):
    said, counted, _ = run(scene, **with_site(site))
    assert said == plain(scene)
    assert counted["builds_count"] == 0 and set(counted["sources"]) == {f"declaring, {CPU}"}
    found = proc.run(["-m", "nbcache", "doctor"], scene / "store", with_site(site), cwd=scene).stdout
    assert "declaring: " in found and str(site / "declaring" / "_layer") in found
    assert run(scene, store="other", **with_site(site, NBCACHE_LAYERS="none"))[1]["sources"] == {}


@pytest.mark.long
def test_a_package_that_proposes_a_directory_brings_its_layer_to_users_who_set_nothing(scene, site):
    propose = "import nbcache; nbcache.enable('~/proposed', only_if_unset=True)\n"
    said, counted, _ = run(scene, propose + USE, store=None, **with_site(site, HOME=str(scene)))
    assert said == plain(scene)
    assert counted["builds_count"] == 0 and set(counted["sources"]) == {f"declaring, {CPU}"}
    assert (scene / "proposed/v1").is_dir()


def test_where_only_importlib_can_tell_it_is_asked(scene, site):
    finder = """
import sys
class Finder:
    @staticmethod
    def find_spec(*_args): return None
    @staticmethod
    def find_distributions(*_args): return iter(())
sys.meta_path.append(Finder)
"""
    _, counted, _ = run(scene, finder + USE, **with_site(site))
    assert set(counted["sources"]) == {f"declaring, {CPU}"}


def test_a_layer_is_declared_below_the_place_of_its_package_and_nowhere_else(tmp_path):
    """Who installs a package doesn't mean to load what lies in somebody else's directory."""
    values = [
        "package.layer",
        "../elsewhere",
        "/etc",
        "package/../../x",
        "package..x",
        "..",
        "",
        "a b",
        "package:layer",
    ]
    text = "[nbcache.layers]\n" + "".join(f"n{at} = {value}\n" for at, value in enumerate(values))
    found = entry_points._layers_in(f"{tmp_path}/package-1.dist-info/entry_points.txt", text)
    assert found == [("package", f"{tmp_path}/package/layer")]


@pytest.mark.long
def test_a_declared_layer_that_is_not_there_is_no_line_in_the_log(scene, site):
    shutil.rmtree(site / "declaring")
    said, counted, told = run(scene, **with_site(site))
    assert said == plain(scene) and counted["builds_count"] >= 4 and told == ""


def test_metadata_that_somebody_put_into_the_current_directory_keeps_nobody_waiting(scene, site):
    """`python -c` in /tmp: a FIFO, or a link to what has no end, is no metadata."""
    for name, put in (("fifo", os.mkfifo), ("zero", lambda path: os.symlink("/dev/zero", path))):
        folder = scene / f"{name}-1.0.dist-info"
        folder.mkdir()
        put(folder / "entry_points.txt")
    program = "import sys\nfrom nbcache.glue.identity import entry_points\nprint(entry_points.layers())\n"
    done = proc.run(["-c", program], None, with_site(site), cwd=scene)
    assert done.stdout == f"{[('declaring', str(site / 'declaring' / '_layer'))]}\n", done.stderr


@pytest.mark.long
def test_hits_in_the_store_look_for_no_layers(scene):
    """Also not at one that can't be used, of which the first miss would tell."""
    run(scene, NBCACHE_LAYERS="")
    assert run(scene, NBCACHE_LAYERS=str(scene / "nowhere"))[2] == ""


@pytest.mark.long
def test_prewarm_builds_into_the_store_what_a_layer_has_too(scene, site):
    warm, program = scene / "warm.jsonl", "import lib\nprint(lib.rec(10))\n"
    # A prewarm's interpreters have SciPy, which is in the key.
    run(scene, program, NBCACHE_LAYERS="none", store="first", NBCACHE_RECORD=str(warm), **proc.SCIPY)
    argv = ["-m", "nbcache", "prewarm", "--dir", scene / "filled", warm]
    done = proc.run(argv, None, with_site(site), cwd=scene)
    assert done.status == 0, done.stderr
    counted = run(scene, program, store="filled", NBCACHE_LAYERS="none", **proc.SCIPY)[1]
    assert counted["builds_count"] == 0, counted
