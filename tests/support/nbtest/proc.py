"""Child processes with a known environment.

A child sees no NBCACHE_*, NUMBA_* or NBTEST_* of ours, only what a test passes. ``store`` switches nbcache on.
"""

from __future__ import annotations

import compileall
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nbtest import hitcheck

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).resolve().parents[3]
INJECT = ROOT / "tests" / "support" / "inject"
DEFAULTS: dict[str, str] = {}
"""What is in the environment of a child that says nothing else; tests/conftest.py says in which there is no SciPy."""
SCIPY = {"NBTEST_WITHOUT": ""}
"""What is added to the environment of a child that has SciPy."""
_NEEDS_SCIPY = re.compile(r"scipy|linalg|dot\(|cov\(|corrcoef|roots\(| @ ")
_DROPPED = ("NBCACHE_", "NUMBA_", "NBTEST_", "PYTHON", "COVERAGE_")


@dataclass(frozen=True)
class Outcome:
    """How one child ended: ``status`` is its exit status (negative: killed by that signal)."""

    status: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def said(self) -> tuple[int, str]:
        """What must equal plain Numba's; messages may hold addresses."""
        return self.status, re.sub(r"0x[0-9a-f]{6,}", "<ADDRESS>", self.stdout)


def environment(store: Path | str | None = None, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a child; with ``store``, nbcache is on."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED)}
    env["PYTHONPATH"] = search_path(ROOT)
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    env["NUMBA_NUM_THREADS"] = "2"
    env.update(DEFAULTS)
    if store is not None:
        env["NBCACHE_DIR"] = str(store)
        env.update(hitcheck.settings())
    env.update(extra or {})
    return env


def scipy_for(*texts: str) -> dict[str, str]:
    """Return what is added to the environment of a program: ``SCIPY`` if it is about linear algebra or SciPy."""
    return SCIPY if any(map(_NEEDS_SCIPY.search, texts)) else {}


def search_path(site: Path) -> str:
    """Return the PYTHONPATH of a child that takes nbcache from ``site``."""
    return os.pathsep.join([str(INJECT), str(site)])


def compile_sources() -> None:
    """Children import the checkout and write nothing there, so each of them would compile what it imports."""
    for each in (ROOT / "nbcache", INJECT):
        compileall.compile_dir(each, quiet=2)
    compileall.compile_file(ROOT / "_nbcache.py", quiet=2)


def installed(site: Path) -> Path:
    """Put nbcache into ``site`` as a wheel would, compiled: a checkout's sources are compiled in each process."""
    shutil.copytree(ROOT / "nbcache", site / "nbcache", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "_nbcache.py", site)
    compileall.compile_dir(site, quiet=2)
    return site


def start(
    argv: Sequence[str],
    store: Path | str | None = None,
    extra: Mapping[str, str] | None = None,
    cwd: Path | str | None = None,
    python: str = sys.executable,
    user: int | None = None,
) -> subprocess.Popen[str]:
    """Start ``python argv`` with its output in pipes; as another ``user`` (a uid) when we are root."""
    groups = None if user is None else []
    return subprocess.Popen(
        [python, *map(str, argv)],
        env=environment(store, extra),
        cwd=cwd,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        user=user,
        group=user,
        extra_groups=groups,
    )


def interpreter_for(user: int) -> str | None:
    """Return an interpreter of this version that ``user`` may execute, for us as root; None when there is none.

    Ours may lie in root's home. Then the system's does, with our packages on its path (see ``packages``).
    """
    system = shutil.which(f"python{sys.version_info[0]}.{sys.version_info[1]}", path="/usr/local/bin:/usr/bin")
    for python in filter(None, (sys.executable, system)):
        try:
            subprocess.run([python, "-c", "pass"], user=user, group=user, extra_groups=[], check=True, cwd="/")
        except (OSError, subprocess.CalledProcessError):
            continue
        return python
    return None


def packages() -> dict[str, str]:
    """Return the environment that lets another interpreter of this version import our packages."""
    return {"PYTHONPATH": os.pathsep.join([str(INJECT), str(ROOT), sysconfig.get_paths()["purelib"]])}


def finish(process: subprocess.Popen[str], timeout: float = 900, started: float | None = None) -> Outcome:
    """Wait for ``process``; past ``timeout`` [s] it is killed and its status is -9."""
    started = time.perf_counter() if started is None else started
    try:
        stdout, stderr = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        stdout, stderr = process.communicate()
        stderr += f"\nkilled after {timeout} s"
    return Outcome(process.returncode, stdout, stderr, time.perf_counter() - started)


def run(
    argv: Sequence[str],
    store: Path | str | None = None,
    extra: Mapping[str, str] | None = None,
    cwd: Path | str | None = None,
    timeout: float = 900,
    python: str = sys.executable,
    user: int | None = None,
) -> Outcome:
    """Run ``python argv`` to its end."""
    started = time.perf_counter()
    return finish(start(argv, store, extra, cwd, python, user), timeout, started)


def verify(store: Path) -> None:
    """Assert that ``nbcache verify`` finds nothing wrong."""
    outcome = run(["-m", "nbcache", "verify"], store)
    assert outcome.status == 0, outcome.stdout + outcome.stderr
