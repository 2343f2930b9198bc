"""The manifests of deploy/kubernetes, container by container, under users and volumes as clusters have them."""

import json
import os
import shutil
import subprocess
import sys

import pytest
import test_deploy
from nbtest import pods, proc

from nbcache import signing_keys

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root, and unshare")
PROGRAM = test_deploy.COUNTED + "\nimport os; print(os.getuid(), nbcache.stats()['builds_count'])\n"
USERS = {
    "fsGroup": {"uid": 1000, "gid": 1000, "group": 1000, "mode": 0o2775},
    "OpenShift": {"uid": 1000640000, "gid": 0, "group": 1000640000, "mode": 0o2775},
    "group 0": {"uid": 1000640000, "gid": 0, "group": 0, "mode": 0o775},
}


@pytest.mark.every(27)
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("name", ["pull", "sidecar", "shared"])
def test_pods_keep_a_store_that_only_they_can_write(name, user, tmp_path):
    pytest.importorskip("nacl")
    tmp_path.chmod(0o755)
    key = signing_keys.generate("ci")
    signing_keys.save(key, str(tmp_path / "ci.key"))
    app = tmp_path / "app"
    shutil.copytree(test_deploy.DEPLOY / "container", app)
    (app / "counted.py").write_text(PROGRAM)
    (settings,) = test_deploy.documents(test_deploy.DEPLOY / "kubernetes" / "settings.yaml")
    plan = {
        **USERS[user],
        "folder": str(tmp_path),
        "app": str(app),
        "key": str(tmp_path / "ci.key"),
        "python": sys.executable,
        "paths": [str(proc.ROOT), sys.prefix, sys.base_prefix],
        "pythonpath": str(proc.ROOT),
        "settings": {
            **settings["data"], "NBCACHE_REMOTE": "redis://127.0.0.1:1", "NBCACHE_TRUSTED_KEYS": str(key.public),
            "NBCACHE_ON_MISS": "wait", "NBCACHE_WAIT_SECONDS": "600", "NUMBA_NUM_THREADS": "1",
        },
        "command": ["python", "counted.py"],
        "pods": test_deploy.pods(test_deploy.DEPLOY / "kubernetes" / f"{name}.yaml"),
    }  # fmt: skip
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", sys.executable, pods.__file__, json.dumps(plan)],
        capture_output=True, text=True, check=False, env=proc.environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    *_, first, second = json.loads(done.stdout)
    assert f"{USERS[user]['uid']} " in first and "45.0\n" in second, (first, second)
    assert "stays off" not in first + second
    if name != "pull":  # The daemon compiled for it.
        assert second.splitlines()[-1] == f"{USERS[user]['uid']} 0", (first, second)
    stores = [path.parent for path in (*tmp_path.glob("*/own/v1"), *tmp_path.glob("*/own/store/v1"))]
    assert stores
    for store in stores:
        status = store.stat()
        assert (status.st_uid, status.st_mode & 0o777) == (USERS[user]["uid"], 0o700), store
