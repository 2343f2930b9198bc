"""Disks small enough to be filled."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def small_disk(point: Path, size: str, *options: str) -> Iterator[Path]:
    """Mount a filesystem of ``size`` (as tmpfs reads it) at ``point``, which is made; skip the test where one can't.

    ``options`` are mount's, such as ``noexec``.
    """
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("needs root to mount a filesystem")
    point.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", ",".join((f"size={size},mode=755", *options)), "tmpfs", str(point)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("can't mount a tmpfs")
    try:
        yield point
    finally:
        subprocess.run(["umount", "-l", str(point)], check=True)
