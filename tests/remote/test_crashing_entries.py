"""Entries of a remote cache whose code crashes: a host that saw that takes them no more, and puts its own in their place."""

import json
import signal

import pytest
from nbtest import daemons, proc, remotes
from nbtest.spoiling import spoil

from nbcache.store import entry

LIB = "from numba import njit\n@njit\ndef g(x):\n    return x * 3\n@njit\ndef f(x):\n    return x + 41\n"
MAIN = (
    "import json, sys, lib, nbcache\nprint(lib.g(1), lib.f(1))\n"
    "print(json.dumps(nbcache.stats()['builds_count']), file=sys.stderr)\n"
)


@pytest.fixture
def run(tmp_path):
    """Runs the program on a host; returns its status and how much it compiled."""
    (tmp_path / "lib.py").write_text(LIB)
    (tmp_path / "main.py").write_text(MAIN)

    def once(env):
        outcome = proc.run([tmp_path / "main.py"], extra=env, cwd=tmp_path)
        assert outcome.stdout == ("3 42\n" if outcome.status == 0 else ""), outcome
        return outcome.status, json.loads(outcome.stderr.splitlines()[-1]) if outcome.status == 0 else None

    return once


@pytest.fixture
def poisoned(fleet, tmp_path, run):
    """The address of a server that has code which crashes, signed by who is trusted."""
    with remotes.redis(tmp_path) as (address, _):
        builder = fleet.host("builder", address)
        assert run({**builder, "NBCACHE_REMOTE": ""})[0] == 0
        spoil(tmp_path / "store-builder", "lib:f")
        assert proc.run(["-m", "nbcache", "push"], extra=builder).status == 0
        yield address


def functions(folder):
    parsed = [entry.parse(path.read_bytes()) for path in (folder / "v1/objects").glob("??/*.nbo")]
    return {each.header.function: each.digest for each in parsed}


@pytest.mark.long
def test_what_programs_crashed_with_is_replaced_on_the_server(fleet, poisoned, run, command):
    host = fleet.host("host", poisoned)
    remotes.wake(host)
    assert [run(host)[0] for _ in range(2)] == [-signal.SIGILL] * 2
    assert run(host) == (0, 1)
    daemons.wait_for(lambda: remotes.status(host, command)["uploads"]["stored"] == 1)
    other = fleet.host("other", poisoned, signs=False)
    remotes.wake(other)
    assert run(other) == (0, 0)


@pytest.mark.long
def test_a_host_that_can_not_replace_it_takes_it_no_more(fleet, tmp_path, poisoned, run, command):
    host = fleet.host("host", poisoned, signs=False)
    remotes.wake(host)
    assert [run(host)[0] for _ in range(2)] == [-signal.SIGILL] * 2
    assert run(host) == (0, 1)
    for path in (tmp_path / "store-host/v1/objects").glob("??/*.nbo"):
        path.unlink()
    assert run(host) == (0, 1)
    assert remotes.status(host, command)["refused"] == {"programs of this host crashed with it": 2}


@pytest.mark.long
def test_what_a_daemon_built_again_replaces_it(fleet, tmp_path, poisoned, run, command):
    host, folder = fleet.host("host", poisoned), tmp_path / "store-host"
    assert proc.run(["-m", "nbcache", "pull"], extra=host).status == 0
    bad = functions(folder)["lib:f"]
    remotes.wake(host)
    with daemons.daemon(folder, extra={**host, "PYTHONPATH": f"{proc.search_path(proc.ROOT)}:{tmp_path}"}) as daemon:
        own = {name: host[name] for name in ("NBCACHE_DIR", "NBCACHE_TRUSTED_KEYS")}
        assert [run({**own, "NBCACHE_READONLY": "1"})[0] for _ in range(2)] == [-signal.SIGILL] * 2
        daemon.says("removed the entry of lib:f because 2 programs crashed with it; a daemon builds it again")
        daemons.wait_for(lambda: functions(folder).get("lib:f", bad) != bad, lambda: daemon.log)
        daemons.wait_for(lambda: remotes.status(host, command)["uploads"]["stored"] == 1, lambda: daemon.log)
    other = fleet.host("other", poisoned, signs=False)
    remotes.wake(other)
    assert run(other) == (0, 0)
