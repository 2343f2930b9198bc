"""Programs that PyInstaller made: `.venv/bin/pip install pyinstaller`, then `scripts/test tests/packaging -m long -k frozen`.

Each takes a minute or two and 300 MB.
"""

import os
import shutil
import subprocess
import sys

import pytest
from nbtest import proc

APP = """
import os, sys
if os.environ.get("APP_CACHE"):
    import nbcache
    nbcache.enable(os.environ["APP_CACHE"])
import numba, numpy as np
from numba.core import event
with event.install_recorder("numba:compile") as recorder:
    import kernels, statistics
    print(kernels.energy(np.arange(4.0)), statistics.scaled(2))
print(sum(each.is_start for _when, each in recorder.buffer), file=sys.stderr)
"""
KERNELS = """
import numba
@numba.njit(cache=True)
def energy(a):
    s = 0.0
    for x in a:
        s += x * x
    return s
"""
STATISTICS = "import numba\nK = {k}\n@numba.njit\ndef scaled(x):\n    return x * K\n"
"""It has the name of a module of Python's library."""


@pytest.fixture
def built(tmp_path):
    """`built(k, *options)` makes the program and returns its file."""
    pytest.importorskip("PyInstaller", exc_type=ImportError)
    if shutil.which("objdump") is None:
        pytest.skip("PyInstaller needs objdump")

    def build(k, *options):
        (tmp_path / "app.py").write_text(APP)
        (tmp_path / "kernels.py").write_text(KERNELS)
        (tmp_path / "statistics.py").write_text(STATISTICS.format(k=k))
        command = [sys.executable, "-m", "PyInstaller", "--noconfirm", "--log-level", "ERROR", *options, "app.py"]
        subprocess.run(command, cwd=tmp_path, env=_environment(), check=True)
        return next(path for path in (tmp_path / "dist" / "app" / "app", tmp_path / "dist" / "app") if path.is_file())

    return build


def _environment(**extra):
    env = proc.environment(extra=extra)
    del env["PYTHONPATH"]  # nbcache is installed
    return env


def run(program, **extra):
    """What it prints, and how many functions it compiles."""
    done = subprocess.run(
        [program], env=_environment(**extra), check=True, capture_output=True, text=True, cwd=os.path.dirname(program)
    )
    return done.stdout, int(done.stderr)


@pytest.mark.long
def test_a_frozen_program_caches_and_its_next_build_is_another_program(built, tmp_path):
    program = built(3, "--hidden-import", "nbcache")
    assert run(program) == ("14.0 6\n", 2)
    named = {"APP_CACHE": str(tmp_path / "named")}
    assert run(program, **named) == ("14.0 6\n", 2)
    assert run(program, **named) == ("14.0 6\n", 0)
    environment = {"NBCACHE_DIR": str(tmp_path / "environment")}
    assert run(program, **environment) == ("14.0 6\n", 2)
    assert run(program, **environment) == ("14.0 6\n", 0)
    # Numba is somewhere in that file as well, and may be another one.
    assert run(built(4, "--hidden-import", "nbcache"), **environment) == ("14.0 8\n", 2)


@pytest.mark.long
def test_a_program_in_one_file_is_unpacked_elsewhere_each_time_and_caches(built, tmp_path):
    program, environment = built(3, "--onefile"), {"APP_CACHE": str(tmp_path / "store")}
    assert run(program, **environment) == ("14.0 6\n", 2)
    assert run(program, **environment) == ("14.0 6\n", 0)
