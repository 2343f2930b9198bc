"""Two virtual environments: one with packages that extend Numba, one without, and otherwise the same versions."""

from __future__ import annotations

import importlib.metadata
import subprocess
import venv
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

EXTENSIONS = ("rocket-fft", "vector", "awkward", "sparse")


class Environments(NamedTuple):
    """The Pythons of the two."""

    with_extensions: str
    without: str


def make(folder: Path) -> Environments:
    """Install both from the registry, with the Numba and the NumPy of this interpreter."""
    pinned = [f"{name}=={importlib.metadata.version(name)}" for name in ("numba", "llvmlite", "numpy")]
    pythons = []
    for name, packages in (("with", EXTENSIONS), ("without", ())):
        venv.create(folder / name, with_pip=True)
        python = str(folder / name / "bin" / "python")
        wanted = [*pinned, "scipy", "filelock", *packages]
        subprocess.run([python, "-m", "pip", "install", "-q", *wanted], check=True)
        pythons.append(python)
    return Environments(*pythons)
