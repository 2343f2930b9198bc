"""Processes of every kind beside a remote cache in use: fork, spawn, threads; and what a client loads for it."""

import json
import os
import socket
import threading
from pathlib import Path

import pytest
from nbtest import daemons, proc, remotes

from nbcache.config import Settings
from nbcache.protocol import helper
from nbcache.setting_syntax import read

RUNS = 2
LONG_RUNS = 200
HEAD = "import json, os, sys, threading, time\nfrom numba import njit\nimport nbcache\n" + "".join(
    f"@njit\ndef f{n}(x):\n    return x * {n} + 1\n" for n in range(12)
)
BODIES = {
    # The parent has asked; its children ask, and so do theirs.
    "fork": """
f0(1)
pids = []
for n in range(1, 7):
    pid = os.fork()
    if pid == 0:
        f1(n); globals()[f"f{n}"](1)
        if n == 1 and os.fork() == 0:
            f11(1)
        os._exit(0)
    pids.append(pid)
for pid in pids:
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
try:
    print(os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print("no child is left")
""",
    # Threads ask at once, then children of a process whose threads have asked. (Nobody forks while Numba compiles.)
    "threads": """
def ask(n):
    globals()[f"f{n}"](1)
threads = [threading.Thread(target=ask, args=(n,)) for n in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
pids = []
for n in range(6, 9):
    pid = os.fork()
    if pid == 0:
        ask(n)
        os._exit(0)
    pids.append(pid)
for pid in pids:
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
print("no child is left")
""",
    "spawn": """
if __name__ == "__main__":
    import multiprocessing
    f0(1)
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        assert pool.map(f1, range(4)) == [1, 2, 3, 4]
    print("no child is left")
""",
}


@pytest.mark.every(8)
@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("full", [False, True], ids=["empty remote", "full remote"])
def test_processes_of_every_kind(fleet, tmp_path, command, kind, full):
    hang(fleet, tmp_path, command, kind, full, RUNS)


@pytest.mark.long
@pytest.mark.parametrize("kind", BODIES)
def test_two_hundred_runs_without_a_hang(fleet, tmp_path, command, kind):
    hang(fleet, tmp_path, command, kind, full=True, runs=LONG_RUNS)


def hang(fleet, tmp_path, command, kind, full, runs):
    path = tmp_path / "program.py"
    path.write_text(HEAD + BODIES[kind])
    with remotes.redis(tmp_path) as (address, _):
        if full:
            filled = fleet.host("filled", address)
            assert proc.run([path], extra=filled).stdout == "no child is left\n"
            remotes.settle(filled, command)
        for n in range(runs):
            host = fleet.host(f"host{n}", address)
            outcome = proc.run([path], extra=host)
            assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "no child is left\n", ""), outcome
            fleet.close()


IMPORTS = """
import json, sys
from numba import njit

@njit
def f(x):
    return x + 1

f(1)
import threading
names = ("opendal", "nacl", "nbcache.remote", "nbcache.client.remote", "nbcache.protocol.helper",
         "nbcache.server_addresses", "asyncio", "ssl")
print(json.dumps([[name for name in names if name in sys.modules], threading.active_count()]))
"""


@pytest.mark.long
def test_what_a_client_loads_for_it(fleet, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(IMPORTS)
    with remotes.redis(tmp_path) as (address, _):
        host = fleet.host("host", address, patient=False)
        missed, hit = (json.loads(proc.run([path], extra=host).stdout) for _ in range(2))
        assert missed == [["nbcache.client.remote", "nbcache.protocol.helper", "nbcache.server_addresses"], 1]
        assert hit == [["nbcache.server_addresses"], 1]


def test_many_processes_at_once_have_one_helper(fleet, tmp_path, command):
    path = tmp_path / "program.py"
    path.write_text(HEAD + "f0(1); f1(1); print('done')")
    with remotes.redis(tmp_path) as (address, _):
        host = fleet.host("host", address)
        started = [proc.start([path], extra=host) for _ in range(4)]
        assert [process.communicate()[0] for process in started] == ["done\n"] * 4
        assert len(fleet.helpers()) == 1
        assert remotes.status(host, command)["pid"] == fleet.helpers()[0]


@pytest.mark.long
def test_a_helper_of_other_settings_is_another_one(fleet, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(HEAD + "f0(1)")
    with remotes.redis(tmp_path) as (address, _):
        host = fleet.host("host", address)
        others = ({"NBCACHE_TRUSTED_KEYS": fleet.public(fleet.make_key("other"))}, {"AWS_ACCESS_KEY_ID": "somebody"})
        for n, other in enumerate(({}, {}, *others)):
            path.write_text(HEAD + f"f{n}(1)")
            proc.run([path], extra={**host, **other})
        assert len(fleet.helpers()) == 3


@pytest.mark.long
def test_a_helper_is_met_in_a_place_of_its_users_own(fleet, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(HEAD + "print(f0(1))")
    host = fleet.host("host", "redis://127.0.0.1:1")
    folder = Path(host["XDG_RUNTIME_DIR"]) / "nbcache"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    outcome = proc.run([path], extra=host)
    assert outcome.stdout == "1\n"
    assert "is not a directory of this user alone" in outcome.stderr and len(outcome.stderr.splitlines()) == 1
    assert list(folder.iterdir()) == []
    folder.rmdir()
    folder.symlink_to(tmp_path)
    path.write_text(HEAD + "print(f1(1))")
    assert "is not a directory of this user alone" in proc.run([path], extra=host).stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
def test_others_are_not_answered_and_not_believed(fleet, place, tmp_path, monkeypatch):
    """Where the directory's mode doesn't keep them away, both ends still ask whose process the other is."""
    with remotes.redis(tmp_path) as (address, _):
        host = fleet.host("host", address)
        path = tmp_path / "program.py"
        path.write_text(HEAD + "f0(1)")
        proc.run([path], extra=host)
        found = next(Path(host["XDG_RUNTIME_DIR"]).glob("nbcache/*.sock"))
        question = helper.Question("status").said()

        def ask():
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
                line.settimeout(600)
                line.connect(str(found))
                try:
                    line.send(question)
                    return line.recv(1 << 16)
                except ConnectionError:
                    return b""

        assert ask()
        answers = []

        def as_somebody_else():
            # The kernel notes who connects, by the thread's own effective uid.
            import ctypes

            libc = ctypes.CDLL(None, use_errno=True)
            assert libc.syscall(117, -1, 12345, -1) == 0  # setresuid of this thread alone
            try:
                answers.append(ask())
            except PermissionError:
                answers.append(b"")

        for each in (found, *list(found.parents)[:3]):
            each.chmod(0o777)
        thread = threading.Thread(target=as_somebody_else)
        thread.start()
        thread.join()
        assert answers == [b""]


def test_what_a_helper_is_told_of_settings_is_what_they_are(tmp_path):
    settings = Settings(
        dir=str(tmp_path),
        remote=read("remote", "redis://:hush@a"),
        trusted_keys=read("trusted_keys", "unsigned"),
        signing_key=read("signing_key", "/key"),
        trusted_uids=frozenset({1, 2}),
        umask=0o22,
    )
    again = helper.read_settings(helper.written(settings))
    for name in ("dir", "remote", "trusted_keys", "signing_key", "trusted_uids", "umask"):
        assert getattr(again, name) == getattr(settings, name)
    with pytest.raises(ValueError):
        helper.read_settings(helper.written(settings).replace(b'"v": 3', b'"v": 2'))


@pytest.mark.long
def test_a_helper_ends_when_it_is_told_to(fleet, tmp_path):
    with remotes.redis(tmp_path) as (address, _):
        host = fleet.host("host", address)
        path = tmp_path / "program.py"
        path.write_text(HEAD + "f0(1)")
        proc.run([path], extra=host)
        assert len(fleet.helpers()) == 1
        assert proc.run(["-m", "nbcache", "remote", "stop"], extra=host).status == 0
        daemons.wait_for(lambda: not fleet.helpers())
        assert "no helper runs" in proc.run(["-m", "nbcache", "remote"], extra=host).stdout
