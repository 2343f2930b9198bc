"""What holds for every test: settings of nbcache and Numba come from the test alone."""

import os
import shutil
import tempfile
from pathlib import Path

import hypothesis
import pytest

# Compiling and shared machines are slow at random: timeouts are pytest's business.
hypothesis.settings.register_profile("nbcache", deadline=None, print_blob=True)
hypothesis.settings.load_profile("nbcache")


@pytest.fixture(autouse=True)
def no_outside_settings(monkeypatch):
    """Clear NBCACHE_* and NUMBA_*, for this process and its children."""
    for name in list(os.environ):
        if name.startswith(("NBCACHE_", "NUMBA_")):
            monkeypatch.delenv(name)


@pytest.fixture
def place():
    """A folder of this test, unlike tmp_path one that every user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="nbcache-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
