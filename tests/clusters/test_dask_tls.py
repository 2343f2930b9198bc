"""The farm with TLS, as docs/clusters.md has it: its commands, its file, its addresses."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest
from nbtest import clusters, daemons, proc

clusters.needed()

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
DOCS = (proc.ROOT / "docs/clusters.md").read_text()


def example(kind, word):
    """The block of code of this kind in the guide that has a word in it."""
    return next(block for block in re.findall(rf"```{kind}\n(.*?)```", DOCS, re.DOTALL) if word in block)


@pytest.mark.long
def test_the_example_of_the_guide_works_and_lets_nobody_else_in(place):
    etc = place / "dask"
    etc.mkdir()
    subprocess.run(["sh", "-e", "-c", example("sh", "openssl")], cwd=etc, check=True, capture_output=True)
    for each in etc.glob("*.key"):
        each.chmod(0o600)
    (etc / "farm.yaml").write_text(example("yaml", "ca-file").replace("/etc/dask", str(etc)))
    tls = {"DASK_CONFIG": str(etc)}
    (place / "lib.py").write_text("from numba import njit\n@njit\ndef f(x):\n    return x * 3\n")
    (place / "main.py").write_text("import lib\nprint(lib.f(1))\n")
    with clusters.cluster(place, 1, extra=tls) as cluster:
        assert cluster.address.startswith("tls://")
        with daemons.daemon(place / "store", "--farm", cluster.address, "--farm-away", "wait", extra=tls) as daemon:
            daemons.wait_for(lambda: "can run 1 jobs at once" in daemon.log)
            assert proc.run([place / "main.py"], place / "store", daemons.WAITING).stdout == "3\n"
            daemon.says("INFO built lib:f (int64)")
            assert "without TLS" not in daemon.log
            assert daemon.stop() == 0
        stranger = (
            "import sys, distributed\n"
            "try:\n    distributed.Client(sys.argv[1], timeout=5)\nexcept Exception:\n    print('refused')\n"
        )
        for address in (cluster.address, cluster.address.replace("tls://", "tcp://")):
            done = proc.run(["-c", stranger, address], None, {"DASK_CONFIG": str(place)})
            assert done.stdout == "refused\n", done.stderr
    assert os.stat(etc / "farm.key").st_mode & 0o077 == 0
