"""What holds for every test: settings of nbcache and Numba come from the test alone."""

import logging
import os
import shutil
import tempfile
import zlib
from collections import defaultdict
from pathlib import Path

import hypothesis
import pytest
from nbtest import proc

HERE = Path(__file__).parent
# OpenBLAS's threads wait busily for their first work: a sixth of the processor time that a child takes to import Numba.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Compiling and shared machines are slow at random: timeouts are pytest's business.
hypothesis.settings.register_profile("nbcache", deadline=None, print_blob=True)
hypothesis.settings.load_profile("nbcache")

WITHOUT_SCIPY = {"client", "fleet", "glue", "layers", "published", "random", "reach", "remote", "traps"}
"""Folders whose tests' children have no SciPy (`proc.scipy_for`, `proc.SCIPY`): Numba loads it where a process first compiles,
which is a fifth of what that costs. Those of a daemon have it, since its interpreters do."""


def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        proc.compile_sources()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of the cases of a test that is marked ``every(N)``, each N-th runs before a merge, and one at least.

    Which one comes first depends on the test's name, so that tests that all have the same two cases don't all run the
    same one.  The others are `long`.
    """
    cases = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("every")
        if mark is not None and item.get_closest_marker("long") is None:
            cases[item.nodeid.partition("[")[0], mark.args[0]].append(item)
    for (name, step), several in cases.items():
        start = zlib.crc32(name.encode()) % min(step, len(several))
        for at, item in enumerate(sorted(several, key=lambda each: each.name)):
            if at % step != start:
                item.add_marker(pytest.mark.long)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Before fixtures of any scope, which start children as well."""
    absent = item.path.relative_to(HERE).parts[0] in WITHOUT_SCIPY and not hasattr(item.module, "daemons")
    proc.DEFAULTS["NBTEST_WITHOUT"] = "scipy" if absent else ""


@pytest.fixture(autouse=True)
def no_outside_settings(monkeypatch):
    """Clear NBCACHE_* and NUMBA_*, for this process and its children."""
    for name in list(os.environ):
        if name.startswith(("NBCACHE_", "NUMBA_")):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def log_as_it_was():
    """Leave the log's level to the next test, which may have nbcache set it as well."""
    logger = logging.getLogger("nbcache")
    before = logger.level
    yield
    logger.setLevel(before)


@pytest.fixture
def place():
    """A folder of this test, unlike tmp_path one that every user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="nbcache-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
