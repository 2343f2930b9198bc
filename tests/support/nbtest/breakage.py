"""Things that are broken around a program that uses nbcache: each is brought about for real, and taken back.

A fault is a context manager: ``with FAULTS[name](scene) as environment:`` runs its body with that broken, under that
environment.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from nbcache.config import Settings
from nbcache.store.directory import Store
from nbtest import daemons, disks, proc, programs
from nbtest.processes import descendants, meanwhile, stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

STRANGER = 54321
FUNCTIONS = 40
_TELL = (
    "import json, nbcache\nprint(json.dumps({name: nbcache.stats()[name] for name in ('waits', 'waited_seconds')}), "
    "file=sys.stderr)\n"
)
_IN_A_WORKER = "import os, sys, time\nif not sys.argv[0].endswith('main.py'):\n"


@dataclass
class Scene:
    """A program of many trivial functions, and a store."""

    folder: Path
    functions: int = FUNCTIONS

    def __post_init__(self) -> None:
        self.store = self.folder / "store"
        self.main = self.folder / "main.py"
        self.main.write_text(programs.caller("work") + _TELL)
        (self.folder / "before.py").write_text("")
        (self.folder / "work.py").write_text("import before\n" + programs.functions(self.functions))

    def run(self, extra: dict[str, str] | None = None, store: Path | None = None) -> proc.Outcome:
        """Run the program with its store, with default settings but for ``extra``."""
        return proc.run([self.main], self.store if store is None else store, extra, cwd=self.folder)

    def plain(self) -> proc.Outcome:
        """Run it without nbcache."""
        return proc.run([self.main], cwd=self.folder)

    def in_a_worker(self, action: str) -> None:
        """Have a daemon's workers do something when they import the module."""
        (self.folder / "before.py").write_text(_IN_A_WORKER + "".join(f"    {line}\n" for line in action.splitlines()))

    def use(self) -> None:
        """Make the store by using it for something else."""
        (self.folder / "other.py").write_text("from numba import njit\n@njit\ndef g(x):\n    return x + 1000\n")
        (self.folder / "first.py").write_text("import other\nprint(other.g(1))\n")
        outcome = proc.run([self.folder / "first.py"], self.store, daemons.WAITING if self.heartbeats else None)
        assert outcome.stdout == "1001\n", outcome.stderr

    @property
    def heartbeats(self) -> bool:
        return any((self.store / "v1/daemon").glob("*.json"))


def waits(outcome: proc.Outcome) -> dict[str, int]:
    """How often a program of a scene waited, by what it said of itself."""
    return dict(json.loads(outcome.stderr.splitlines()[-1])["waits"])


def waited_seconds(outcome: proc.Outcome) -> float:
    """How long it waited; 0 without nbcache."""
    return float(json.loads(outcome.stderr.splitlines()[-1])["waited_seconds"])


FAULTS: dict[str, Callable[[Scene], AbstractContextManager[dict[str, str]]]] = {}


def fault(function: Callable[[Scene], Iterator[dict[str, str]]]) -> Callable[[Scene], Iterator[dict[str, str]]]:
    FAULTS[function.__name__.replace("_", " ")] = contextmanager(function)
    return function


@contextmanager
def serving(scene: Scene, *options: str, patient: bool = False) -> Iterator[daemons.Daemon]:
    """A daemon that has built something. A *patient* one gives up no interpreter of its own."""
    with daemons.daemon(scene.store, *options, extra={"NBTEST_PATIENT": "1" if patient else ""}) as daemon:
        scene.use()
        daemons.wait_for(lambda: daemon.heartbeat().get("busy") == 0, lambda: daemon.log)
        yield daemon


# -- a daemon that doesn't get on ------------------------------------------------------------------


@fault
def a_healthy_daemon(scene):
    with serving(scene):
        yield {}


@fault
def a_daemon_that_just_began(scene):
    with daemons.daemon(scene.store):
        yield {}


@fault
def a_stopped_zygote(scene):
    # Else another one takes its place after ten seconds, gets on, and is asked: a slow program would wait in vain again.
    with serving(scene, patient=True) as daemon, stopped(*descendants(daemon.process.pid)):
        yield {}


@fault
def a_stopped_daemon(scene):
    with serving(scene) as daemon, stopped(daemon.process.pid):
        yield {}


@fault
def workers_that_stop(scene):
    with serving(scene):
        scene.in_a_worker("import signal\nos.kill(os.getpid(), signal.SIGSTOP)")
        yield {}


@fault
def workers_that_sleep(scene):
    with serving(scene):
        scene.in_a_worker("time.sleep(3600)")
        yield {}


@fault
def workers_in_uninterruptible_sleep(scene):
    fifo = scene.folder / "fifo"
    os.mkfifo(fifo)
    # Whoever starts a process by vfork sleeps so until that has executed something, which this one never does.
    with serving(scene):
        scene.in_a_worker(
            f"os.posix_spawn('/bin/true', ['true'], {{}}, "
            f"file_actions=[(os.POSIX_SPAWN_OPEN, 9, {str(fifo)!r}, os.O_RDONLY, 0)])"
        )
        try:
            yield {}
        finally:
            with suppress(OSError):
                os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))


@fault
def workers_that_crash(scene):
    with serving(scene):
        scene.in_a_worker("import ctypes\nctypes.string_at(1)")
        yield {}


@fault
def workers_that_leave_something_behind(scene):
    with serving(scene):
        scene.in_a_worker("import subprocess\nsubprocess.Popen(['sleep', '60'], close_fds=False)")
        yield {}


@fault
def a_queue_of_10000_requests(scene):
    from nbcache.protocol import requests, spool

    with serving(scene, "--workers", "1"):
        (scene.folder / "slow.py").write_text("import time\ntime.sleep(0.2)\n")
        like = requests.Request(
            key="0" * 64, kind="dispatcher", function="slow:f", signature="()", types={}, source="0" * 32, value=None,
            modules=(), path=(str(scene.folder),), interpreter=sys.executable, settings={}, toolchain="", components=(),
            created=time.time(), host="host", pid=1,
        )  # fmt: skip
        for number in range(10_000):
            assert spool.submit(str(scene.store), like._replace(key=f"{number:064x}"))
        yield {}


# -- what lies in the store ------------------------------------------------------------------------


def _heartbeat(scene, name="false", **more):
    from nbcache.protocol import heartbeats
    from nbcache.protocol.heartbeats import Heartbeat

    sign = Heartbeat(name, "elsewhere", 1, 1.0, time.time(), 2, 0, 0, 1.0, draining=False, **more)
    with suppress(FileNotFoundError):
        heartbeats.write(str(scene.store), sign)


@fault
def signs_of_life_and_no_daemon(scene):
    scene.use()
    with meanwhile(lambda: _heartbeat(scene), 0.2):
        yield {}


@fault
def malformed_heartbeats(scene):
    scene.use()
    _heartbeat(scene)
    folder = scene.store / "v1/daemon"
    good = (folder / "false.json").read_text()
    for number, (old, new) in enumerate(
        [('"workers": 2', '"workers": 1e999'), ('"seconds": 1.0', '"seconds": NaN'), ('"working": []', '"working": 5'),
         ('"queues": {}', '"queues": {"x": []}'), ("}", ""), ('"trusts": null', '"trusts": "x"')]
    ):  # fmt: skip
        (folder / f"bad{number}.json").write_text(good.replace(old, new))
    (folder / "long.json").write_bytes(b"[" * 100_000)
    (folder / "directory.json").mkdir()
    os.mkfifo(folder / "fifo.json")
    yield {}


@fault
def heartbeats_of_100_dead_daemons(scene):
    scene.use()
    for number in range(100):
        _heartbeat(scene, f"dead{number}")
        os.utime(scene.store / f"v1/daemon/dead{number}.json", (1, 1))
    yield {}


@contextmanager
def _locked(scene, mode, user=None):
    """Every lease of the program, under a lock of a process that does nothing."""
    found = scene.folder / "found"
    assert scene.run(store=found).status == 0
    keys = [path.parent.name + path.name.partition(".")[0] for path in (found / "v1/objects").glob("??/*.nbo")]
    assert len(keys) > scene.functions
    scene.use()
    paths = [str(scene.store / f"v1/leases/{key}.flock") for key in keys]
    for path in paths:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, mode))
        os.chmod(path, mode)
    code = (
        "import fcntl, sys, time\nfiles = [open(path, 'rb') for path in sys.stdin.read().split()]\n"
        "for file in files:\n    fcntl.flock(file, fcntl.LOCK_EX)\nprint('ready', flush=True)\ntime.sleep(3600)\n"
    )
    python = sys.executable if user is None else proc.interpreter_for(user)
    if python is None:
        pytest.skip("no interpreter that an unprivileged user may execute")
    holder = subprocess.Popen(
        [python, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, user=user, cwd="/"
    )
    try:
        holder.stdin.write("\n".join(paths))
        holder.stdin.close()
        assert holder.stdout.readline() == "ready\n"
        yield
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


@fault
def a_stranger_s_locks_on_leases(scene):
    if os.getuid() != 0:
        pytest.skip("needs root: becomes another user")
    with _locked(scene, 0o644, STRANGER):
        yield {}


@fault
def leases_of_a_process_that_does_nothing(scene):
    with _locked(scene, 0o600):
        yield {}


@fault
def leases_of_a_process_that_is_stopped(scene):
    with ExitStack() as stack:
        stack.enter_context(_locked(scene, 0o600))
        stack.enter_context(stopped(*descendants(os.getpid())))
        yield {}


@fault
def first_calls_that_are_stopped(scene):
    """Two processes of the same user have begun with each entry, which nobody has got through, and don't get on."""
    assert scene.run().status == 0
    store = Store.open(Settings(dir=str(scene.store)))
    found = [found for info in store.scan() for found in store.find(info.key)]
    assert len(found) > scene.functions
    assert not any(each.proven for each in found)
    code = (
        "import sys, time\nfrom nbcache.client.trials import Trials\nfrom nbcache.config import Settings\n"
        "from nbcache.store.directory import Store\nstore = Store.open(Settings(dir=sys.argv[1]))\ntrials = Trials(store)\n"
        "assert all(trials.begin(each) for info in store.scan() for each in store.find(info.key))\n"
        "print('ready', flush=True)\ntime.sleep(3600)\n"
    )
    with ExitStack() as stack:
        for _ in range(2):
            holder = subprocess.Popen(
                [sys.executable, "-c", code, str(scene.store)],
                env=proc.environment(), stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            stack.callback(holder.stdout.close)
            stack.callback(holder.wait)
            stack.callback(holder.kill)
            assert holder.stdout.readline() == "ready\n"
            stack.enter_context(stopped(holder.pid))
        yield {}


@fault
def usage_records_of_a_stranger(scene):
    scene.use()
    record = {"version": 1, "misses": {"x" * 250 + str(number): 1 for number in range(3000)}}
    text = json.dumps(record)
    for number in range(300):
        path = scene.store / f"v1/usage/{number}.json"
        path.write_text(text)
        if os.getuid() == 0:
            os.chown(path, STRANGER, STRANGER)
        os.utime(path, (1, 1))
    for number in range(20_000):
        (scene.store / f"v1/usage/small{number}.json").write_text('{"version": 1}')
    os.utime(scene.store / "v1/swept", (1, 1))
    yield {}


def _by_a_stranger(path, inside, beside):
    """A stranger makes a directory that is named after this user first, and many others in it and beside it.

    A daemon may take them away meanwhile.
    """
    if os.getuid() != 0:
        pytest.skip("needs root: becomes another user")
    shutil.rmtree(path, ignore_errors=True)
    code = (
        "import contextlib, os, sys\npath, inside, beside = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])\n"
        "for number in range(inside):\n    with contextlib.suppress(FileNotFoundError):\n"
        "        os.makedirs(f'{path}/{number}', exist_ok=True)\n"
        "for number in range(beside):\n    os.mkdir(f'{path}-{number:08x}')\n"
    )
    python = proc.interpreter_for(STRANGER)
    if python is None:
        pytest.skip("no interpreter that an unprivileged user may execute")
    command = [python, "-c", code, str(path), str(inside), str(beside)]
    subprocess.run(command, user=STRANGER, group=STRANGER, extra_groups=[], check=True, cwd="/")


@fault
def a_place_for_requests_that_a_stranger_has(scene):
    with serving(scene):
        _by_a_stranger(scene.store / "v1/requests/0", 1000, 200_000)
        yield {}


@fault
def a_place_for_trials_that_a_stranger_has(scene):
    """All that is there is on trial."""
    assert scene.run().status == 0
    for path in (scene.store / "v1/objects").glob("??/*.nbo"):
        path.chmod(0o644)
    _by_a_stranger(scene.store / "v1/trials/0", 60_000, 60_000)
    yield {}


@fault
def damaged_entries(scene):
    assert scene.run().status == 0
    for path in (scene.store / "v1/objects").glob("??/*.nbo"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    yield {}


@fault
def entries_that_are_fifos(scene):
    assert scene.run().status == 0
    for path in (scene.store / "v1/objects").glob("??/*.nbo"):
        path.unlink()
        os.mkfifo(path)
    yield {}


@fault
def a_full_disk(scene):
    with disks.small_disk(scene.folder / "disk", "1m") as disk:
        scene.store = disk / "store"
        scene.use()
        with (disk / "filler").open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"x" * 4096)
        yield {}


@fault
def a_store_that_is_read_only(scene):
    with disks.small_disk(scene.folder / "disk", "4m") as disk:
        scene.store = disk / "store"
        scene.use()
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        yield {}


@fault
def a_store_without_its_folders(scene):
    scene.use()
    for name in ("requests", "leases", "failed", "daemon", "usage"):
        (scene.store / "v1" / name).rename(scene.store / f"v1/{name}.old")
        (scene.store / "v1" / name).write_text("")
    yield {}


@fault
def a_store_that_is_a_file(scene):
    scene.store.write_text("")
    yield {}


# -- what settings name ----------------------------------------------------------------------------


def _fifo(scene, setting):
    os.mkfifo(scene.folder / "named")
    yield {setting: str(scene.folder / "named")}


@fault
def a_fifo_as_log_file(scene):
    yield from _fifo(scene, "NBCACHE_LOG_FILE")


@fault
def a_fifo_as_record(scene):
    yield from _fifo(scene, "NBCACHE_RECORD")


@fault
def a_fifo_as_tally(scene):
    yield from _fifo(scene, "NBCACHE_COUNT")


@fault
def a_fifo_as_layer(scene):
    yield from _fifo(scene, "NBCACHE_LAYERS")


@fault
def a_fifo_as_signing_key(scene):
    tier = scene.folder / "tier"
    tier.mkdir()
    for environment in _fifo(scene, "NBCACHE_SIGNING_KEY"):
        yield {"NBCACHE_REMOTE": f"file://{tier}", "NBCACHE_TRUSTED_KEYS": "unsigned", **environment}


@fault
def a_fifo_as_store(scene):
    yield from _fifo(scene, "NBCACHE_DIR")
