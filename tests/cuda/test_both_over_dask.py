"""One function for the CPU and for GPUs, sent over Dask: each worker finds both, and neither is taken for the other."""

import json
import os
import subprocess
import sys

from nbtest import clusters
from nbtest.kernels import SUPPORT, needs_numba_cuda

pytestmark = needs_numba_cuda
clusters.needed()

# In each worker, before anything else: a device that isn't there, and in the second cluster no compiler at all.
PRELOAD = """
import os
from numba.core import event
from numba.cuda import compiler, dispatcher
from numba.cuda.cudadrv import driver, nvvm
from nbtest import fakegpu

fakegpu.install(fakegpu.parse(os.environ["NBTEST_CC"]))
fakegpu.count()


def forbidden(*args, **kwargs):
    raise AssertionError("this process compiles")


class Forbidding(event.Listener):
    on_start = on_end = forbidden


if "NBTEST_FORBIDDEN" in os.environ:
    # Whoever puts something into Numba itself has other keys.
    event.register("numba:run_pass", Forbidding())
    compiler.compile_extra = compiler.compile_internal = nvvm.compile_ir = driver._Linker.complete = forbidden
"""

PROGRAM = """
import json, os, sys
import numpy as np
from distributed import Client, LocalCluster
from numba import cuda, njit

@njit
def both(v):
    return v * 3 + 1

@cuda.jit
def kernel(x):
    x[0] = both(x[1])

def work(device_first):
    import nbcache
    from nbtest import fakegpu
    from numba.core.dispatcher import Dispatcher
    fakegpu.launched.clear()
    found = {}
    steps = [lambda: found.update(host=both(np.float32(2))), lambda: kernel[1, 1](np.ones(4, np.float32))]
    for step in reversed(steps) if device_first else steps:
        step()
    assert isinstance(both, Dispatcher)
    return {**found, "launched": fakegpu.launched[:], "runs": dict(fakegpu.runs), "pid": os.getpid(),
            "stats": nbcache.stats()}

if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None,
                      memory_limit=0, preload=[sys.argv[1]]) as cluster, Client(cluster) as client:
        client.wait_for_workers(2)
        workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
        tasks = [client.submit(work, first, workers=[address], pure=False) for first, address in enumerate(workers)]
        print(json.dumps(client.gather(tasks)))
"""


def over_dask(folder, store, **extra):
    """What each of two workers says, of which one begins with the CPU and the other with the device."""
    folder.mkdir(exist_ok=True)
    (folder / "preload_of_test.py").write_text(PRELOAD)
    (folder / "main.py").write_text(PROGRAM)
    env = {
        **os.environ, "PYTHONPATH": str(SUPPORT), "NBTEST_CC": "9.0",
        "DASK_TEMPORARY_DIRECTORY": str(folder / "scratch"), **({"NBCACHE_DIR": str(store)} if store else {}), **extra,
    }  # fmt: skip
    command = [sys.executable, "main.py", str(folder / "preload_of_test.py")]
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert len({each["pid"] for each in found}) == 2
    return found


def test_one_function_for_both_over_dask(tmp_path):
    plain = over_dask(tmp_path / "tree", None)
    over_dask(tmp_path / "tree", tmp_path / "store")
    warm = over_dask(tmp_path / "tree", tmp_path / "store", NBTEST_FORBIDDEN="1")
    for expected, found in zip(plain, warm, strict=True):
        assert found["host"] == expected["host"] == 7
        assert found["launched"] == expected["launched"]
        assert len(found["launched"]) == 1
        assert not found["runs"]
        assert not found["stats"]["misses"]
        assert not found["stats"]["errors"]
        assert not found["stats"]["uncacheable"]
        assert found["stats"]["hit_count"] >= 2, found["stats"]
