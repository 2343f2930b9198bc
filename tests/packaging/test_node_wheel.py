"""nbcache-node: installed beside NumPy alone, it loads what is published, and `pip check` finds nothing missing."""

import json
import os
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from bare import ROOT, call
from nbtest import proc
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


def test_it_has_all_of_the_package_and_asks_for_numpy_alone(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (about,) = (archive.read(name) for name in names if name.endswith("METADATA"))
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"_nbcache.py", "nbcache", "nbcache_node"}
    assert not [name for name in names if name.endswith(".pth")]
    metadata = message_from_bytes(about)
    assert [each for each in metadata.get_all("Requires-Dist") if "extra ==" not in each] == ["numpy"]


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


def test_the_example_runs_its_workers_in_it(wheel, tmp_path):
    node = with_numpy(tmp_path / "node")
    node.install(wheel)
    sizes = "--rows 1000 --partitions 2 --workers 2 --new 1 --clients 1 --seconds 0.1"
    done = proc.run([ROOT / "examples" / "query_service", *sizes.split(), "--node", "node/bin/python"], cwd=tmp_path)
    assert done.status == 0, done.stdout + done.stderr
