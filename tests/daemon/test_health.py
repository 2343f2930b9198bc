"""``nbcache health``: the whole path when all is well, and a line within its time whatever is broken."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import time
import types
from dataclasses import replace

import pytest
from nbtest import disks, proc, usage
from nbtest.daemons import WAITING, Daemon, daemon, failures, hung, spool, wait_for
from nbtest.processes import descendants, stopped

from nbcache.client import selftest
from nbcache.protocol import heartbeats

LONG = ["--timeout", "600"]
"""For what has to succeed, however busy the machine is."""
MUCH = 600.0
"""What a bounded time may be on a busy machine [s]: what is broken would take for ever."""
HEALTHY = "healthy: built by a daemon"


def health(store, *options, **more):
    return proc.run(["-m", "nbcache", "health", "--dir", store, *options], **{"cwd": "/", **more})


def health_asking(store, *, asked=True, slow="isn't imported|no end of", first=12, **more):
    """The same, given as long as it takes this machine to import Numba, and if it does that, to ask a daemon.

    It says one of *slow* where it was ended before it could say what is wrong.
    """
    for seconds in (first, 40, 130):
        done = health(store, "--timeout", str(seconds), **more)
        if not re.search(slow, done.stdout) and (not asked or "nothing was asked for" not in done.stdout):
            assert done.seconds < seconds + MUCH
            return replace(done, seconds=0)
        # Who is ended before he can say what is wrong can't take back his request either.
        for path in spool(store):
            path.unlink(missing_ok=True)
    raise AssertionError(done.stdout)


def entries(store):
    """What is in the store, by function."""
    done = proc.run(["-m", "nbcache", "ls", "--dir", store, "--json"])
    return [entry["function"] for entry in json.loads(done.stdout)]


def is_kept(store):
    """Whether an entry of a test lies there: told at once, since a daemon removes them soon."""
    with contextlib.suppress(FileNotFoundError):
        return any(b"selftest" in path.read_bytes() for path in store.glob("v1/objects/*/*.nbo"))
    return is_kept(store)


def unhealthy(done, *parts):
    assert done.status == 1, done.stdout + done.stderr
    assert done.stdout.startswith("unhealthy: ")
    assert (done.stdout.count("\n"), done.stderr) == (1, "")
    assert done.seconds < MUCH
    for part in parts:
        assert part in done.stdout


def test_all_is_well_and_nothing_stays(place):
    store = place / "store"
    with daemon(store) as running:
        for turn in range(3):
            done = health(store, *LONG)
            assert (done.status, done.stderr) == (0, ""), done.stdout
            assert done.stdout.startswith(HEALTHY)
            if turn == 0:
                first = entries(store)
        # What every program leaves behind is there once: Numba's own runtime, which the next one loads.
        assert entries(store) == first
        assert not any("selftest" in name for name in first)
        assert (spool(store), failures(store), list(usage.records(store))) == ([], [], [])
        assert [path for path in (store / "v1/trials").rglob("*") if path.is_file()] == []
        assert (
            json.loads(proc.run(["-m", "nbcache", "status", "--dir", store, "--json"]).stdout)["daemons"][0]["jobs"]
            == []
        )
        assert "selftest" not in running.log
        done = health(store, *LONG, "--json")
        said = json.loads(done.stdout)
        assert (said["healthy"], said["problem"], said["dir"]) == (True, "", str(store))
        assert 0 < said["seconds"] < 600
        assert running.stop() == 0
    assert entries(store) == first


@pytest.mark.long
@pytest.mark.skipif(os.getuid() != 0, reason="needs root: becomes somebody else")
def test_the_daemon_removes_what_others_may_not(place):
    python, store = proc.interpreter_for(54321), place / "store"
    if python is None:
        pytest.skip("no interpreter that an unprivileged user may execute")
    # The daemon runs with the same interpreter, so that the key is the same.
    with daemon(store, extra={**proc.packages(), "NBCACHE_TRUSTED_UIDS": "54321"}, python=python) as running:
        done = health(store, *LONG, user=54321, python=python, extra=proc.packages())
        assert done.stdout.startswith(HEALTHY), done.stdout + running.log
        assert is_kept(store)
        wait_for(lambda: not is_kept(store))
        done = health(store, *LONG, user=54321, python=python, extra=proc.packages())
        assert done.status == 0, done.stdout
        assert is_kept(store)
        running.stop()
    assert not is_kept(store)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: becomes somebody else")
def test_who_is_not_trusted_is_told_so(place):
    python, store = proc.interpreter_for(54321), place / "store"
    if python is None:
        pytest.skip("no interpreter that an unprivileged user may execute")
    with daemon(store):
        done = health(store, user=54321, python=python, extra=proc.packages())
        unhealthy(done, "no daemon takes requests of uid 54321", "NBCACHE_TRUSTED_UIDS")
    assert spool(store) == []


def test_what_is_not_there(place):
    store = place / "store"
    unhealthy(health(store), f"no cache in {store} yet", "nbcache serve")
    assert not store.exists()
    running = Daemon(store)
    running.kill()
    unhealthy(health(store), "no daemon is alive", "nbcache serve")
    store.chmod(0o777)
    unhealthy(health(store), "writable by others", "doctor")
    (place / "file").write_text("")
    unhealthy(health(place / "file"), "is not a directory")
    unhealthy(proc.run(["-m", "nbcache", "health"], extra={"HOME": str(place)}), "no cache directory")
    unhealthy(health(f"{place}/a\nb\x1b[2J"), "no cache in")


def test_wrong_usage(place):
    for timeout in ("0", "-1", "nan", "1e9"):
        done = health(place, "--timeout", timeout)
        assert (done.status, done.stdout) == (2, "")


@pytest.mark.long
def test_a_daemon_that_is_stopped(place):
    store = place / "store"
    with daemon(store) as running, stopped(running.process.pid):
        done = health_asking(store)
        unhealthy(done)
        assert "no answer within" in done.stdout or "no sign of life" in done.stdout
        assert spool(store) == []
        wait_for(lambda: "no sign of life" in health(store).stdout)


@pytest.mark.long
def test_interpreters_of_a_daemon_that_are_stopped(place):
    store = place / "store"
    with daemon(store) as running:
        assert health(store, *LONG).status == 0
        # Of an interpreter in namespaces, a second process works.
        with stopped(*descendants(running.process.pid)):
            done = health_asking(store)
            # Unless the daemon noticed, ended them and started others in time.
            if not done.stdout.startswith(HEALTHY):
                unhealthy(done, "no answer within")
                # One for each attempt that got as far as asking.
                assert re.search(r": [1-9]\d* of \d+ workers are busy", done.stdout), done.stdout
                assert "load of" in done.stdout or "more workers" in done.stdout
            assert spool(store) == []
        wait_for(lambda: health(store, *LONG).status == 0)


@pytest.mark.parametrize(
    ("busy", "queue", "advice"),
    [
        (1, 0, "it is being built, and this machine has a load of"),
        (2, 3, "more workers"),
        (0, 1, "restart the daemon if that doesn't change"),
    ],
)
def test_who_gets_no_answer_is_told_what_to_do(busy, queue, advice, monkeypatch):
    beat = heartbeats.Heartbeat("d", "host", 1, time.time(), time.time(), 2, busy, queue, 1.0, draining=False)
    monkeypatch.setattr(heartbeats, "read", lambda *_: [beat])
    problem = selftest._unanswered(types.SimpleNamespace(path="", trust=None), 3.5)
    assert f"{busy} of 2 workers are busy, {queue} requests wait" in problem.what
    assert advice in problem.advice


@pytest.mark.long
def test_a_daemon_that_dies_meanwhile(place):
    store = place / "store"
    with daemon(store) as running, hung(running):
        probe = proc.start(["-m", "nbcache", "health", "--dir", store, *LONG], cwd="/")
        wait_for(lambda: spool(store))
        running.kill()
        unhealthy(proc.finish(probe), "no daemon is alive")
        assert spool(store) == []


_NEVER_ASKS = """\
import sys, time
class Slow:
    def find_spec(self, name, *_):
        if name == "nbcache.glue.requests.requested":
            time.sleep(3600)
sys.meta_path.insert(0, Slow())
"""


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("module", "code", "said"),
    [
        ("numba", "import time\ntime.sleep(3600)", "Numba isn't imported within"),
        ("numba", "raise ImportError('no such luck')", "ImportError: no such luck"),
        ("numba", "import os\nos.abort()", "ended with status -6"),
        (
            "numba",
            'import os\nos.write(1, b\'x\' * 5000 + b\'\\n[1]\\n\\xff\\n{"stage": 7, "healthy": "yes"}\\n\')\nos._exit(3)',
            "ended with status 3",
        ),
        ("sitecustomize", _NEVER_ASKS, "nothing was asked for within"),
    ],
    ids=["hangs", "isn't there", "crashes", "ends", "is slow"],
)
def test_a_numba_that_is_broken(place, module, code, said):
    store = place / "store"
    with daemon(store):
        (place / f"{module}.py").write_text(code)
        path = {"PYTHONPATH": f"{place}{os.pathsep}{proc.search_path(proc.ROOT)}"}
        if "within" not in said:
            done = health(store, *LONG, extra=path)
        elif module == "numba":
            done = health_asking(store, asked=False, slow="no end of", first=5, extra=path)
        else:
            done = health_asking(store, asked=False, extra=path)
    unhealthy(done, said)


@pytest.mark.long
def test_a_full_disk(place):
    with disks.small_disk(place / "disk", "3m") as disk:
        store = disk / "store"
        with daemon(store, logs=place):
            assert health(store, *LONG).status == 0
            ballast = os.open(disk / "ballast", os.O_WRONLY | os.O_CREAT)
            with contextlib.suppress(OSError):
                while os.write(ballast, b"x" * 4096):
                    pass
            os.close(ballast)
            unhealthy(health(store))


@pytest.mark.long
def test_a_store_that_is_deleted_meanwhile(place):
    store = place / "store"
    with daemon(store) as running, hung(running):
        probe = proc.start(["-m", "nbcache", "health", "--dir", store, *LONG], cwd="/")
        wait_for(lambda: spool(store))
        shutil.rmtree(store)
        done = proc.finish(probe)
    unhealthy(done)


@pytest.mark.long
@pytest.mark.skipif(os.getuid() != 0, reason="needs root to mount a filesystem")
def test_a_filesystem_that_hangs(place):
    """Frozen: whoever writes to it waits in the kernel, where no signal reaches."""
    disk, point = place / "disk", place / "mounted"
    disk.write_bytes(b"")
    os.truncate(disk, 32 << 20)
    point.mkdir()
    if shutil.which("mkfs.ext4") is None or shutil.which("fsfreeze") is None:
        pytest.skip("needs mkfs.ext4 and fsfreeze")
    subprocess.run(["mkfs.ext4", "-q", disk], check=True)
    if subprocess.run(["mount", "-o", "loop", disk, point], capture_output=True).returncode:
        pytest.skip("can't mount a file")
    try:
        with daemon(point / "store", logs=place):
            assert health(point / "store", *LONG).status == 0
            subprocess.run(["fsfreeze", "-f", point], check=True)
            try:
                done = health_asking(point / "store")
            finally:
                subprocess.run(["fsfreeze", "-u", point], check=True)
            unhealthy(done, "no request could be written", "filesystem")
    finally:
        subprocess.run(["umount", "-l", point], check=True)


@pytest.mark.long
def test_a_probe_does_no_harm_to_a_busy_daemon(place):
    store = place / "store"
    (place / "main.py").write_text("from numba import njit\nprint(njit(lambda x: x + 1)(1))\n")
    with daemon(store, "--workers", "1"):
        probes = [proc.start(["-m", "nbcache", "health", "--dir", store, *LONG], cwd="/") for _ in range(4)]
        done = proc.run([place / "main.py"], store, WAITING)
        assert done.stdout == "2\n"
        for probe in probes:
            outcome = proc.finish(probe)
            assert outcome.status == 0, outcome.stdout


@pytest.mark.long
def test_what_the_command_was_told_not_to_heed_the_test_does_not(place):
    store = place / "store"
    (place / "numba.py").write_text("raise ImportError('not to be found')")
    extra = {"PYTHONPATH": f"{place}{os.pathsep}{proc.search_path(proc.ROOT)}"}
    with daemon(store):
        unhealthy(health(store, *LONG, extra=extra), "not to be found")
        done = proc.run(["-I", "-m", "nbcache", "health", "--dir", store, *LONG], extra=extra, cwd="/")
        assert done.status == 0, done.stdout + done.stderr
