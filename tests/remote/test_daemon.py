"""A daemon with a signing key uploads what its jobs built; programs that have no key read it, and so do daemons."""

import json
import socket

import pytest
from nbtest import daemons, proc, remotes

import nbcache
from nbcache import config
from nbcache.daemon import remote_builds
from nbcache.daemon.shared_parts import Problems
from nbcache.protocol import helper
from nbcache.secret import Secret

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
            # All that the program needed, and not just the first of it.
            assert remotes.settle(host, command)["uploads"]["stored"] >= 1
        reader = fleet.host("reader", address, signs=False)
        remotes.wake(reader)
        outcome = proc.run(["-c", MAIN], extra={**reader, "PYTHONPATH": client["PYTHONPATH"]}, cwd=tmp_path)
        assert outcome.stdout == "42\n"
        assert json.loads(outcome.stderr.splitlines()[-1])["builds_count"] == 0, outcome


@pytest.mark.long
def test_a_daemon_looks_into_the_remote_cache_before_it_builds(fleet, tmp_path, command):
    (tmp_path / "lib.py").write_text(PROGRAM)
    path = {"PYTHONPATH": f"{proc.search_path(proc.ROOT)}:{tmp_path}"}
    with remotes.redis(tmp_path) as (address, _):
        builder = fleet.host("builder", address)
        remotes.wake(builder)
        assert proc.run(["-c", MAIN], extra={**builder, **path}, cwd=tmp_path).stdout == "42\n"
        remotes.settle(builder, command)
        host = fleet.host("host", address, signs=False)
        remotes.wake(host)
        with daemons.daemon(tmp_path / "store-host", extra=host):
            own = {name: host[name] for name in ("NBCACHE_DIR", "NBCACHE_TRUSTED_KEYS")}
            client = {**own, **daemons.WAITING, **path}
            outcome = proc.run(["-c", MAIN], extra=client, cwd=tmp_path)
            assert outcome.stdout == "42\n", outcome
            assert json.loads(outcome.stderr.splitlines()[-1])["builds_count"] == 0, outcome
            assert remotes.status(host, command)["fetches"]["came"] >= 1
        # It has no key: what comes from there was fetched, and not built.
        entries = [
            line for line in proc.run(["-m", "nbcache", "ls"], extra=host).stdout.splitlines() if "lib:f" in line
        ]
        assert len(entries) == 1
        jobs = proc.run(["-m", "nbcache", "status", "--json"], extra=host).stdout
        assert "lib:f" not in jobs


@pytest.mark.long
def test_a_daemon_whose_remote_cache_is_down_builds(fleet, tmp_path):
    (tmp_path / "lib.py").write_text(PROGRAM)
    host = fleet.host("host", "redis://127.0.0.1:1", signs=False)
    with daemons.daemon(tmp_path / "store-host", extra=host):
        client = {
            "NBCACHE_DIR": host["NBCACHE_DIR"],
            **daemons.WAITING,
            "PYTHONPATH": f"{proc.search_path(proc.ROOT)}:{tmp_path}",
        }
        outcome = proc.run(["-c", MAIN], extra=client, cwd=tmp_path)
        assert outcome.stdout == "42\n", outcome
        assert json.loads(outcome.stderr.splitlines()[-1])["builds_count"] == 0, outcome


def test_a_daemon_says_once_why_its_remote_cache_is_of_no_use(monkeypatch, caplog):
    """The helper's own log is where no operator looks."""
    answers = iter(
        [helper.Answer(helper.FAILED, "no route"), helper.Answer(helper.FAILED, "no route"),
         helper.Answer(helper.MISSING), helper.Answer(helper.REFUSED, "nobody signed it"), None]
    )  # fmt: skip
    monkeypatch.setattr(helper.Line, "ask", lambda *_args, **_options: next(answers))
    settings = config.Settings(dir="/nowhere", remote=(Secret("redis://127.0.0.1:1"),))
    asked = remote_builds.Remote(lambda: settings, Problems())
    with caplog.at_level("INFO", logger="nbcache"):
        for number in range(5):
            asked.fetch(f"{number:064x}").result(600)
    asked.close()
    useless = "the remote cache can't be used; building what is not in the store"
    assert caplog.messages == [
        f"{useless}: no route",
        f"resolved: {useless}: no route",
        "an entry of the remote cache was refused: nobody signed it",
        f"{useless}: its helper doesn't answer",
    ]


def test_a_helper_that_hangs_costs_a_daemon_one_second_and_not_one_for_each_key(tmp_path, monkeypatch):
    """Somebody listens, and never answers."""
    run = tmp_path / "run"
    run.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(run))
    settings = config.Settings(dir=str(tmp_path / "store"), remote=(Secret("redis://127.0.0.1:1"),))
    place = helper.meeting(settings, nbcache.__version__)
    assert helper.folder_problem(place.folder) is None
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        line.bind(place.socket)
        line.listen()
        asked = remote_builds.Remote(lambda: settings, Problems())
        first = asked.fetch("a" * 64)
        assert first.result(600) is None
        assert asked.fetch("b" * 64) is None
        asked.close()
