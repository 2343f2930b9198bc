"""A daemon with a signing key uploads what its jobs built; programs that have no key read it."""

import json

from nbtest import daemons, proc, remotes

PROGRAM = """
from numba import njit

@njit
def f(x):
    return 3 * x

def main():
    return f(14)
"""
MAIN = "import json, sys, lib, nbcache; print(lib.main()); print(json.dumps(nbcache.stats()), file=sys.stderr)"


def test_what_jobs_of_a_daemon_built_goes_to_the_remote_cache(fleet, tmp_path, command):
    (tmp_path / "lib.py").write_text(PROGRAM)
    with remotes.redis(tmp_path) as (address, _):
        host = fleet.host("host", address)
        with daemons.daemon(tmp_path / "store-host", extra=host):
            # Without a remote cache of its own, and without a key.
            client = {
                "NBCACHE_DIR": host["NBCACHE_DIR"],
                **daemons.WAITING,
                "PYTHONPATH": f"{proc.search_path(proc.ROOT)}:{tmp_path}",
            }
            outcome = proc.run(["-c", MAIN], extra=client, cwd=tmp_path)
            assert outcome.stdout == "42\n", outcome
            assert json.loads(outcome.stderr.splitlines()[-1])["builds_count"] == 0, outcome
            daemons.wait_for(
                lambda: (command(["remote", "status", "--json"], host) or {}).get("uploads", {}).get("stored")
            )
        reader = fleet.host("reader", address, signs=False)
        outcome = proc.run(["-c", MAIN], extra={**reader, "PYTHONPATH": client["PYTHONPATH"]}, cwd=tmp_path)
        assert outcome.stdout == "42\n"
        assert json.loads(outcome.stderr.splitlines()[-1])["builds_count"] == 0, outcome
