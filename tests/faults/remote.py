"""Prints what a program of 40 trivial functions takes with default settings behind a broken remote cache.

    python tests/faults/remote.py [WORD...]

Each beside plain Numba, timed before and after; the shorter time counts, and `more` is what is promised to be 2 s at
most, on an idle machine. `waited` is what the program itself counts of its waiting; the rest is the machine's, what
asking and storing cost, and the helper's start. `lines` is how many lines it logged. The status is 1 if a program
printed anything else than plain Numba, took or waited longer, or logged more than one line.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "support"), str(Path(__file__).parents[2])]

from nbtest import badservers, breakage, proc, remotes  # noqa: E402  their place comes first

from nbcache.client.remote import PROCESS_SECONDS  # noqa: E402

COST_SECONDS = 2.0
SLACK = 0.5
"""What a process that was kept from running at the wrong moment may count beside [s]."""


def answering(answer):
    @contextmanager
    def broken(_scene, _fleet):
        with badservers.faulty(answer) as (_, address):
            yield address

    return broken


@contextmanager
def nobody(_scene, _fleet):
    yield "redis://127.0.0.1:1"


@contextmanager
def black_hole(_scene, _fleet):
    with badservers.black_hole() as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def name_server(_scene, _fleet):
    """In a namespace of mounts of its own, so that nobody else has this name server."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.53.0.1", 53))
        yield "http://cache.example.org/x"


@contextmanager
def full(scene, _fleet):
    with remotes.redis(scene.folder, "--maxmemory", "1kb") as (address, _):
        yield address


@contextmanager
def stopped(scene, fleet):
    with remotes.redis(scene.folder) as (address, server):
        scene.run(fleet.host("first", address), scene.folder / "store-first")
        server.send_signal(signal.SIGSTOP)
        yield address


@contextmanager
def helper_killed(scene, fleet):
    with remotes.redis(scene.folder) as (address, _):
        over, hit = threading.Event(), set()

        def strike():
            while not over.wait(0.05):
                for pid in set(fleet.helpers()) - hit:
                    hit.add(pid)
                    os.kill(pid, signal.SIGKILL)

        thread = threading.Thread(target=strike)
        thread.start()
        try:
            yield address
        finally:
            over.set()
            thread.join()


FAULTS = {
    "nothing is wrong, and it is empty": remotes.redis,
    "nobody listens": nobody,
    "server stopped": stopped,
    "black hole": black_hole,
    "5 s latency": answering(badservers.late),
    "never answers": answering(badservers.never),
    "500": answering(badservers.status(500)),
    "429": answering(badservers.status(429)),
    "503": answering(badservers.status(503)),
    "403": answering(badservers.status(403)),
    "cut off in mid-transfer": answering(badservers.half),
    "a byte at a time": answering(badservers.drip),
    "full": full,
    "helper killed": helper_killed,
    "name server silent": name_server,
}


def behind(scene, name, fleet):
    """Run the program behind a broken cache."""
    made = FAULTS[name]
    with made(scene.folder) if made is remotes.redis else made(scene, fleet) as given:
        host = fleet.host("host", given[0] if made is remotes.redis else given, patient=False)
        if made is not name_server:
            return scene.run(host, Path(host["NBCACHE_DIR"]))
        (scene.folder / "resolv.conf").write_text("nameserver 127.53.0.1\n")
        script = f"mount --bind {scene.folder}/resolv.conf /etc/resolv.conf && exec {sys.executable} {scene.main}"
        environment = proc.environment(None, host)
        began = time.monotonic()
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", script], env=environment, cwd=scene.folder,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return proc.Outcome(done.returncode, done.stdout, done.stderr, time.monotonic() - began)


def row(name):
    """Print the row of a fault; return whether it is as it should be."""
    with tempfile.TemporaryDirectory(prefix="nbcache-faults-") as folder:
        scene = breakage.Scene(Path(folder))
        fleet = remotes.Fleet(Path(folder))
        try:
            before = scene.plain()
            outcome = behind(scene, name, fleet)
            after = scene.plain()
        finally:
            fleet.close()
    *said, told = outcome.stderr.splitlines()
    waited = json.loads(told)["waited_seconds"]
    same = outcome.stdout == before.stdout
    plain = min(before.seconds, after.seconds)
    more = outcome.seconds - plain
    good = same and more <= COST_SECONDS and waited <= PROCESS_SECONDS + SLACK and len(said) <= 1
    words = said[0].rpartition(": ")[2] if said else ""
    print(
        f"{name:34} {plain:6.2f} s {outcome.seconds:6.2f} s {more:6.2f} s {waited:6.2f} s {len(said):5}  "
        f"{'ok' if good else 'BAD' if same else 'ANOTHER OUTPUT'}  {words}",
        flush=True,
    )
    return good


def main():
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", metavar="WORD", help="faults whose name holds one of these (default: all)")
    args = parser.parse_args()
    names = [name for name in FAULTS if not args.words or any(word in name for word in args.words)]
    print(f"{'fault':34} {'plain':>8} {'nbcache':>8} {'more':>8} {'waited':>8} lines")
    bad = [name for name in names if not row(name)]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
