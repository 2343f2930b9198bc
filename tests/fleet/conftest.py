"""Folders that other users may enter, and the program most of these tests run."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))


@pytest.fixture
def place():
    """A folder of this test, unlike tmp_path one that every user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="nbcache-fleet-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def as_root():
    """Skip unless we may change owners and drop privileges."""
    if os.getuid() != 0:
        pytest.skip("needs root: changes owners")


@pytest.fixture
def nobody(as_root):
    """Run keywords for a child without privileges."""
    from nbtest import proc

    python = proc.interpreter_for(65534)
    if python is None:
        pytest.skip("no interpreter that an unprivileged user may execute")
    return {"user": 65534, "python": python, "extra": proc.packages()}
