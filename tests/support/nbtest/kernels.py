"""Runs programs that use numba-cuda in processes of their own, on a GPU that isn't there (`nbtest.fakegpu`).

With NBTEST_GPU=1 they run on the GPU of this host instead, whatever compute capability a test names.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nbtest import fakegpu

SUPPORT = Path(__file__).resolve().parents[1]

needs_numba_cuda = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None,
    reason="numba-cuda isn't installed: `pip install nbcache[cuda]`",
)
needs_two_capabilities = pytest.mark.skipif(
    bool(os.environ.get("NBTEST_GPU")), reason="the GPU of a host has one capability"
)


def run(programs, folder, *, cc="9.0", store=None, env=None):
    """Run the programs of a mapping, one after the other in one process; the report of `nbtest.fakegpu` by name.

    *store*: the directory of the cache; None for none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # No program may have the name of a module.
    paths = {name: folder / f"program-{name}.py" for name in programs}
    for name, text in programs.items():
        paths[name].write_text(text)
    settings = {**os.environ, "PYTHONPATH": str(SUPPORT), **(env or {})}
    if store is not None:
        settings["NBCACHE_DIR"] = str(store)
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    where = fakegpu.REAL if os.environ.get("NBTEST_GPU") else cc
    command = [sys.executable, "-m", "nbtest.fakegpu", where, str(report), *map(str, paths.values())]
    process = subprocess.run(command, env=settings, capture_output=True, text=True, cwd=folder, check=False)
    assert report.exists(), process.stderr
    found = json.loads(report.read_text())
    found["programs"] = {name: found["programs"][str(path)] for name, path in paths.items()}
    found["stderr"] = process.stderr
    return found
