"""Accumulators and nodes for tests of published functions: programs that publish, and programs without Numba."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING

from nbtest import proc

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping
    from pathlib import Path

    import pytest

_BLOCKED = """\
import sys

class _Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numba", "llvmlite"):
            raise ImportError(f"{name} is not to be imported here")

sys.meta_path.insert(0, _Blocked())
"""
_CHECKED = """
_compiled = {
    "numba._helperlib", "numba._dynfunc", "numba.core.runtime._nrt_python",
    "numba.np.ufunc.omppool", "numba.np.ufunc.tbbpool", "numba.np.ufunc.workqueue",
}
_seen = {name for name in sys.modules if name.partition(".")[0] in ("numba", "llvmlite")} - _compiled
assert not _seen, f"imported behind our back: {_seen}"
"""

_BY_IMAGE = """
with open("/proc/self/maps") as _maps:
    assert "libllvmlite" not in _maps.read(), "LLVM was loaded although there is an image"
"""

way: str | None = None
"""How nodes are to load what is published: "image" or "llvm"; None: as it comes."""


def choose(loading: str, patch: pytest.MonkeyPatch, empty: Path) -> None:
    """Have nodes load by "image" or with "llvm" until the patch is undone; an accumulator finds no linker in an ``empty`` folder."""
    if loading == "llvm":
        patch.setenv("PATH", str(empty))
    patch.setattr(sys.modules[__name__], "way", loading)


def accumulator(store: Path, program: str, folder: Path, **extra: str) -> proc.Outcome:
    """Run a program with nbcache on, in a folder that also is on its path; it must end well."""
    return _run(store, "import nbcache\n" + textwrap.dedent(program), folder, extra)


def node(store: Path, program: str, folder: Path, timeout: float = 900, **extra: str) -> proc.Outcome:
    """Run a program in a process where importing Numba or llvmlite fails, and see that nobody has; it must end well, in
    so long [s].
    """
    checks = _CHECKED + (_BY_IMAGE if way == "image" else "")
    return _run(store, _BLOCKED + "import nbcache\n" + textwrap.dedent(program) + checks, folder, extra, timeout)


OF_FOUR_KINDS = """
@vectorize(["float64(float64, float64)"])
def revenue(price, discount):
    return price * (1 - discount)

@njit(["float64[:](float64[:])"])
def scaled(values):
    if values.size == 0:
        raise ValueError("empty", values.size)
    return values * 2 + TABLE[1]

@njit(["float64(float64)"])
def squared(x):
    return x * x

@cfunc("float64(float64)")
def half(x):
    return x / 2
"""
"""Functions of a module that has these decorators, and an array of numbers as TABLE."""
CALLING = """
from numba import njit

@njit
def inner(x):
    return x + 1

@njit
def f(x):
    return 2 * inner(x)
"""


def build_elsewhere(folder: Path) -> Path:
    """Write module ``functions``, whose ``f`` calls its ``inner``, and return a store in which they were built."""
    (folder / "functions.py").write_text(CALLING)
    accumulator(folder / "built", "import functions; functions.f(1.5)", folder)
    return folder / "built"


def begun(store: Path, program: str, folder: Path, **extra: str) -> subprocess.Popen[str]:
    """Begin what :func:`node` does, and wait until it has printed a line; :func:`ended` waits for the rest of it."""
    whole = _BLOCKED + "import nbcache\n" + textwrap.dedent(program) + _CHECKED
    process = proc.start(["-c", whole], store, _with(store, folder, extra), cwd=folder)
    assert process.stdout is not None
    if not process.stdout.readline():
        ended(process)
    return process


def ended(process: subprocess.Popen[str]) -> proc.Outcome:
    """Wait for a process; it must end well."""
    return _well(proc.finish(process, timeout=900))


def _run(store: Path, program: str, folder: Path, extra: Mapping[str, str], timeout: float = 900) -> proc.Outcome:
    return _well(proc.run(["-c", program], store, _with(store, folder, extra), cwd=folder, timeout=timeout))


def _with(store: Path, folder: Path, extra: Mapping[str, str]) -> dict[str, str]:
    path = proc.environment(store, extra)["PYTHONPATH"]
    return {**extra, "PYTHONPATH": f"{path}:{folder}"}


def _well(outcome: proc.Outcome) -> proc.Outcome:
    assert outcome.status == 0, outcome.stdout + outcome.stderr
    return outcome
