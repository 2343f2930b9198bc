"""Prints how a daemon does with a spool of a million requests, some of them a stranger's.

    python tests/faults/spool.py [--requests 1000000] [--strangers 20000]

Needs root, to be several users, and some 5 GB of disk. The status is 1 if the daemon takes longer than 5 s to start, leaves
its watchdog without a ping for 10 s, takes longer than 2 s for a trusted user's request, or if its log grows by 1 MB.
"""

import argparse
import contextlib
import itertools
import os
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "support"), str(Path(__file__).parents[2])]

from nbtest import daemons, proc  # noqa: E402  its place comes first

from nbcache.protocol.requests import Request  # noqa: E402

TRUSTED, STRANGER = 1234, 54321
LIMITS = {"start": 5.0, "longest time without a ping": 10.0, "request": 2.0, "log": 1e6}


def request(number):
    return Request(
        key=f"{number:064x}", kind="dispatcher", function=f"gone{number}:f", signature="(int64)",
        types={"version": 1, "args": ["int64"], "returns": None}, source="0" * 32, value=None, modules=(),
        path=("/nowhere",), interpreter=sys.executable, settings={}, toolchain="", components=(), created=1.0,
        host="host", pid=1,
    )  # fmt: skip


def fill(drop, uid, count):
    """Put requests into a directory, as their user: one text with another key in each."""
    drop.mkdir(parents=True, exist_ok=True)
    os.chown(drop, uid, uid)
    text = request(0).line()
    asked = int((time.time() - 3600) * 1000)
    folder = os.open(drop, os.O_RDONLY)
    for number in range(count):
        key = f"{number + 1:064x}"
        name = f"{key}.{asked + number % 1000:012x}-{number:016x}.json"
        fd = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=folder)
        os.write(fd, text.replace(b"0" * 64, key.encode()))
        os.fchown(fd, uid, uid)
        os.close(fd)
    os.close(folder)


class Manager:
    """Stands in for systemd: hears the pings of a service."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.heard = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        while True:
            self.heard.append((time.monotonic(), self.socket.recv(4096)))

    def longest_gap(self, since, until):
        """The longest time [s] in which it heard nothing."""
        times = [since, *(when for when, said in self.heard if since <= when <= until), until]
        return max(after - before for before, after in itertools.pairwise(times))


@contextlib.contextmanager
def measured(folder, requests, strangers):
    """A daemon over such a spool, and the figures as far as they are known."""
    store = folder / "store"
    (folder / "lib.py").write_text("from numba import njit\n@njit\ndef f(x):\n    return x + 1\n")
    (folder / "main.py").write_text("import lib\nprint(lib.f(1))\n")
    with daemons.daemon(store, name="first") as first:
        assert first.stop() == 0
    begun = time.monotonic()
    fill(store / f"v1/requests/{TRUSTED}", TRUSTED, requests - strangers)
    half = strangers // 2
    fill(store / f"v1/requests/{STRANGER}", STRANGER, strangers - half)
    fill(folder / "flat", STRANGER, half)
    for item in os.listdir(folder / "flat"):
        os.rename(folder / "flat" / item, store / "v1/requests" / item)
    print(f"{requests} requests made in {time.monotonic() - begun:.0f} s", flush=True)
    manager = Manager(str(folder / "notify"))
    extra = {
        "NBCACHE_TRUSTED_UIDS": str(TRUSTED), "NOTIFY_SOCKET": str(folder / "notify"), "WATCHDOG_USEC": "20000000"
    }  # fmt: skip
    begun = time.monotonic()
    with daemons.daemon(store, "--workers", "2", extra=extra) as daemon:
        yield {"start": time.monotonic() - begun}, daemon, manager


def ask(folder, number, user=None):
    """How long a client waited for its function [s], by its own account."""
    name = f"lib{number}"
    (folder / f"{name}.py").write_text(f"from numba import njit\n@njit\ndef f(x):\n    return x + {number}\n")
    main = folder / f"main{number}.py"
    main.write_text(
        f"import nbcache, {name}, sys\nprint({name}.f(1))\ns = nbcache.stats()\n"
        "print(s['waited_seconds'], s['builds_count'], file=sys.stderr)\n"
    )
    python = sys.executable if user is None else proc.interpreter_for(user)
    more = {} if user is None else proc.packages()
    outcome = proc.run(
        [main], folder / "store", {**daemons.WAITING, "NBCACHE_LOG": "warning", **more}, user=user, python=python
    )
    assert outcome.stdout == f"{number + 1}\n", outcome.stderr
    waited, builds = outcome.stderr.split()[-2:]
    return float(waited), int(builds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--strangers", type=int, default=20_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nbcache-spool-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with measured(folder, args.requests, args.strangers) as (figures, daemon, manager):
            since = time.monotonic()
            # The first one has the interpreter started that forks the workers, which takes what it takes.
            first, _ = ask(folder, 0)
            waited, builds = zip(*(ask(folder, number) for number in range(1, 6)), strict=True)
            ask(folder, 100, TRUSTED)
            by_other, _ = ask(folder, 101, TRUSTED)
            time.sleep(10)
            until = time.monotonic()
            assert daemon.process.poll() is None, daemon.log
            figures["longest time without a ping"] = manager.longest_gap(since, until)
            figures["request"] = max(*waited, by_other)
            figures["log"] = daemon.log_path.stat().st_size
            cpu = sum(os.times()[2:4])
            left = sum(1 for _ in os.scandir(daemon.store / f"v1/requests/{TRUSTED}"))
            outside = sum(1 for _ in os.scandir(daemon.store / "v1/requests"))
            memory = next(
                line for line in Path(f"/proc/{daemon.process.pid}/status").read_text().splitlines() if "VmHWM" in line
            )
        print(f"start                        {figures['start']:8.2f} s")
        print(f"longest time without a ping  {figures['longest time without a ping']:8.2f} s")
        print(f"first request                {first:8.2f} s   (its interpreter begins to import Numba)")
        print(
            f"further requests             {', '.join(f'{each:.2f}' for each in waited)} s, built here: {sum(builds)}"
        )
        print(f"of the user with the backlog {by_other:8.2f} s")
        print(f"log                          {figures['log']:8d} bytes")
        print(f"left in the spool            {left:8d}, beside directories {outside}; {memory.strip()}; {cpu:.0f} s")
    over = [what for what, limit in LIMITS.items() if figures[what] > limit]
    print(f"over the limit: {', '.join(over) or 'nothing'}")
    return bool(over)


if __name__ == "__main__":
    sys.exit(main())
