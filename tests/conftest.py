"""What holds for every test: settings of nbcache and Numba come from the test alone."""

import compileall
import os
import shutil
import tempfile
from pathlib import Path

import hypothesis
import pytest
from nbtest import proc

# Compiling and shared machines are slow at random: timeouts are pytest's business.
hypothesis.settings.register_profile("nbcache", deadline=None, print_blob=True)
hypothesis.settings.load_profile("nbcache")


def pytest_configure(config):
    """Children import the checkout and write nothing there, so each of them would compile what it imports."""
    if not hasattr(config, "workerinput"):
        for each in (proc.ROOT / "nbcache", proc.INJECT):
            compileall.compile_dir(each, quiet=2)
        compileall.compile_file(proc.ROOT / "_nbcache.py", quiet=2)


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
