"""Tests of this directory in a sandbox of gVisor's (Debian's package runsc), whose kernel isn't Linux.

What they write is in the sandbox's memory, and gone with it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.getuid() != 0 or shutil.which("runsc") is None, reason="needs root and the package runsc"),
]
HERE = Path(__file__).parent


@pytest.mark.parametrize(
    "tests",
    [
        "test_serve.py::test_the_first_client_builds_nothing_and_the_second_hits",
        "test_pool.py",
        "test_publisher.py",
        "test_helping.py",
    ],
)
def test_it_passes_there(tests):
    inside = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not long", HERE / tests]
    # As root of the sandbox: with ptrace no more is asked of this host than a debugger does.
    sandbox = ["runsc", "--platform=ptrace", "--network=none", "do", f"-cwd={HERE.parents[1]}"]
    done = subprocess.run([*sandbox, *inside], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
