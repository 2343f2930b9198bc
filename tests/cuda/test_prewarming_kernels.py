"""`nbcache prewarm` builds the kernels of a warm list for each compute capability, and everything else as ever."""

import json
import subprocess
import sys

import built_elsewhere
import pytest
from nbtest import clusters, daemons, proc
from nbtest.kernels import needs_numba_cuda, run

pytestmark = needs_numba_cuda

COUNT = 2


def prewarm(store, *options, cwd):
    return proc.run(["-m", "nbcache", "prewarm", "--dir", store, *options], None, cwd=cwd)


@pytest.fixture
def tree(place):
    folder = place / "tree"
    folder.mkdir()
    (folder / "kernels_of_test.py").write_text(built_elsewhere.module(COUNT))
    return folder


PROGRAM = {"main": built_elsewhere.main(COUNT) + "assert kernels_of_test.both(3.0) == 7.0\n"}


def recorded(place, tree):
    warm = place / "warm.jsonl"
    run(PROGRAM, tree, cc="9.0", store=place / "recorded", env={"NBCACHE_RECORD": str(warm)})
    return warm


def assert_warm(tree, store, cc):
    found = run(PROGRAM, tree, cc=cc, store=store, env={"NBCACHE_READONLY": "1"})
    assert not found["programs"]["main"]["failure"], found["programs"]["main"]["failure"]
    assert not found["programs"]["main"]["runs"], cc
    assert not found["stats"]["misses"], cc
    assert not found["stats"]["errors"]
    assert found["programs"]["main"]["launched"] == run(PROGRAM, tree, cc=cc)["programs"]["main"]["launched"]


def test_a_warm_list_for_other_devices_than_it_was_recorded_on(place, tree):
    warm = recorded(place, tree)
    done = prewarm(place / "store", "--cc", "8.0,9.0a", warm, cwd=tree)
    assert done.status == 0, done.stderr
    # Two kernels and a device function for each, and a function for the CPU.
    assert done.stdout == "7 of 7 built or there already\n"
    for cc in ("8.0", "9.0"):
        assert_warm(tree, place / "store", cc)


@pytest.mark.long
def test_without_capabilities_for_those_of_the_list(place, tree):
    done = prewarm(place / "store", recorded(place, tree), cwd=tree)
    assert done.status == 0, done.stderr
    assert_warm(tree, place / "store", "9.0")


@pytest.mark.long
def test_from_a_store_for_another_device(place, tree):
    recorded(place, tree)
    done = prewarm(place / "recorded", "--from-store", "--cc", "12.0", cwd=tree)
    assert done.status == 0, done.stderr
    assert_warm(tree, place / "recorded", "12.0")


@pytest.mark.long
def test_kernels_are_built_once_for_all_processors(place, tree):
    warm = recorded(place, tree)
    done = prewarm(place / "store", "--cpu", "x86-64-v2,x86-64-v3", "--cc", "8.0", warm, cwd=tree)
    assert done.status == 0, done.stderr
    assert done.stdout == "5 of 5 built or there already\n"


@pytest.mark.long
def test_a_module_whose_kernels_have_signatures(place, tree):
    text = built_elsewhere.module(COUNT).replace("@cuda.jit()", '@cuda.jit("void(float32[::1])")')
    (tree / "kernels_of_test.py").write_text(text)
    done = prewarm(place / "store", "--module", "kernels_of_test", "--cc", "8.0,8.9", cwd=tree)
    assert done.status == 0, done.stderr
    for cc in ("8.0", "8.9"):
        found = run({"main": built_elsewhere.main(COUNT)}, tree, cc=cc, store=place / "store")
        assert not found["programs"]["main"]["runs"]


@pytest.mark.long
def test_on_a_cluster(place, tree):
    clusters.needed()
    with clusters.cluster(place, 1) as cluster:
        done = prewarm(place / "store", "--dask", cluster.address, "--cc", "8.0", recorded(place, tree), cwd=tree)
        assert done.status == 0, done.stderr
        assert_warm(tree, place / "store", "8.0")
        with daemons.daemon(place / "other", "--farm", cluster.address) as daemon:
            daemon.says("can run 1 jobs at once")
            found = run(PROGRAM, tree, cc="8.9", store=place / "other", env=daemons.WAITING)
            assert not found["programs"]["main"]["runs"], daemon.log
            assert not found["stats"]["builds_count"]
            daemon.settle()
            assert not daemons.failures(place / "other"), daemon.log
            assert "on the farm:" not in daemon.log  # that it can't be built there


@pytest.mark.parametrize(
    ("cc", "said"),
    [
        ("nine", "--cc: 'nine' is no compute capability such as 8.0 or 9.0a"),
        ("8.0,", "--cc: '' is no compute capability such as 8.0 or 9.0a"),
        ("8.0a", "--cc: there is no 8.0a: numba-cuda compiles for 8.0"),
        ("3.5", "--cc: the CUDA toolkit can't build for 3.5; it can for "),
    ],
)
def test_a_capability_that_means_nothing_gets_one_line(place, cc, said):
    (place / "empty.jsonl").touch()
    done = prewarm(place / "store", "--cc", cc, place / "empty.jsonl", cwd=place)
    assert done.status == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_who_has_no_numba_cuda_gets_one_line(place):
    (place / "empty.jsonl").touch()
    program = "import sys\nsys.modules['numba_cuda'] = None\nfrom nbcache.cli.main import main\nsys.exit(main())\n"
    options = ["prewarm", "--dir", str(place / "store"), "--cc", "8.0", str(place / "empty.jsonl")]
    done = subprocess.run([sys.executable, "-c", program, *options], capture_output=True, text=True, cwd=place)
    assert done.returncode == 1
    assert done.stderr.strip().endswith(f"--cc: numba-cuda isn't installed for {sys.executable}")
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.long
def test_one_that_cannot_be_built_is_named_with_its_capability(place, tree):
    warm = recorded(place, tree)
    lines = [json.loads(line) for line in warm.read_text().splitlines()]
    kernel = next(line for line in lines if line["function"].endswith("kernel0"))
    kernel["function"] += "_that_is_gone"
    (place / "gone.jsonl").write_text(json.dumps(kernel) + "\n")
    done = prewarm(place / "store", "--cc", "8.0", place / "gone.jsonl", cwd=tree)
    assert done.status == 1
    assert "kernel0_that_is_gone" in done.stderr
    assert " for 8.0: there is no kernel0_that_is_gone in kernels_of_test" in done.stderr
