"""A folder that other users may enter, and a store in it."""

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
    folder = Path(tempfile.mkdtemp(prefix="nbcache-daemon-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def as_root():
    """Skip unless we may change owners and drop privileges."""
    if os.getuid() != 0:
        pytest.skip("needs root: changes owners")
