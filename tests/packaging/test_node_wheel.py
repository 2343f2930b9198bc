"""nbcache-node: installed beside NumPy alone, it loads what is published, and `pip check` finds nothing missing."""

import json
import os
import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from bare import ROOT, call
from nbtest import proc, remotes
from test_exported import with_numpy

PUBLISHED = """
import nbcache, numba, pathlib
@numba.njit("float64[:](float64[:])")
def doubled(values):
    return values * 2
nbcache.publish("doubled", doubled)
pathlib.Path("bytes").write_bytes(nbcache.dumps(doubled))
"""
USED = """
import importlib.util, nbcache, numpy as np, pathlib, sys
assert all(importlib.util.find_spec(name) is None for name in ("numba", "llvmlite", "filelock"))
loaded = nbcache.load("doubled"), nbcache.loads(pathlib.Path(sys.argv[1]).read_bytes(), trusted=True)
assert all(each(np.arange(3.0)).tolist() == [0.0, 2.0, 4.0] for each in loaded)
assert nbcache.names() == ["doubled"] and nbcache.exists("doubled")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    environment = {**os.environ, "PYTHON": sys.executable}
    return Path(call(ROOT / "scripts" / "node-wheel", folder, env=environment).strip())


def requirements(wheel):
    """What a wheel asks for, with the extra that asks for it."""
    with zipfile.ZipFile(wheel) as archive:
        (about,) = (archive.read(name) for name in archive.namelist() if name.endswith("METADATA"))
    return message_from_bytes(about).get_all("Requires-Dist")


def test_it_has_all_of_the_package_and_asks_for_numpy_alone(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"_nbcache.py", "nbcache", "nbcache_node"}
    assert not [name for name in names if name.endswith(".pth")]
    assert [each for each in requirements(wheel) if "extra ==" not in each] == ["numpy"]


def test_a_node_loads_and_its_doctor_and_pip_find_nothing_wrong(wheel, tmp_path):
    node = with_numpy(tmp_path / "node")
    node.install(wheel)
    assert proc.run(["-c", PUBLISHED], tmp_path / "store", cwd=tmp_path).status == 0
    code = USED.replace("sys.argv[1]", repr(str(tmp_path / "bytes")))
    done = node.run(code, NBCACHE_DIR=str(tmp_path / "store"))
    assert done.returncode == 0, done.stderr
    call(sys.executable, "-m", "pip", "--python", node.python, "check")
    command = [node.python.parent / "nbcache", "doctor", "--json", "--dir", tmp_path / "store"]
    found = {each["what"]: each for each in json.loads(call(*command, env={}, cwd=tmp_path))}
    assert found["nbcache"]["value"].endswith("a node: it runs what is published")
    assert found["numba"]["level"] == found["switch"]["level"] == "ok"
    assert "processor" not in found  # which can't be examined without LLVM, and need not be


@pytest.mark.long
def test_names_of_a_remote_cache_need_what_the_extra_asks_for(wheel, tmp_path):
    pytest.importorskip("opendal")
    node = with_numpy(tmp_path / "node")
    node.install(wheel)
    node.borrow(*(each for each in requirements(wheel) if each.endswith("extra == 'remote'")))
    fleet, address = remotes.Fleet(tmp_path), f"file://{tmp_path}/tier"
    try:
        assert proc.run(["-c", PUBLISHED], extra=fleet.host("ci", address), cwd=tmp_path).status == 0
        code = "import nbcache, numpy; assert nbcache.load('doubled')(numpy.ones(2)).tolist() == [2, 2]"
        done = node.run(code, **fleet.host("node", address, signs=False))
        assert done.returncode == 0, done.stderr
    finally:
        fleet.close()


def test_without_that_extra_a_node_is_told_so(wheel, tmp_path):
    node = with_numpy(tmp_path / "node")
    node.install(wheel)
    host = remotes.Fleet(tmp_path).host("node", f"file://{tmp_path}/tier", signs=False)
    done = node.run("import nbcache; nbcache.load('doubled')", **host)
    assert done.returncode == 1 and "filelock is not installed" in done.stderr, done.stderr
    status = subprocess.run(
        [node.python.parent / "nbcache", "remote"], env=host, capture_output=True, text=True, check=False
    )
    assert status.returncode == 1 and "filelock is not installed" in status.stdout, status
    command = [node.python.parent / "nbcache", "doctor", "--json"]
    found = json.loads(subprocess.run(command, env=host, capture_output=True, text=True, check=False).stdout)
    # nbcache itself would bring Numba, and what belongs to a node would be installed over it.
    assert {
        each["advice"] for each in found if "is not installed" in each["value"] and each["what"] == "remote cache"
    } == {"pip install 'nbcache-node[remote]'"}


@pytest.mark.long
def test_the_example_runs_its_workers_in_it(wheel, tmp_path):
    node = with_numpy(tmp_path / "node")
    node.install(wheel)
    sizes = "--rows 1000 --partitions 2 --workers 2 --new 1 --clients 1 --seconds 0.1"
    done = proc.run([ROOT / "examples" / "query_service", *sizes.split(), "--node", "node/bin/python"], cwd=tmp_path)
    assert done.status == 0, done.stdout + done.stderr
