"""A daemon that hears several users, and what these do: real uids, real processes. All of it needs root."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from storekit import SECTIONS, header, open_store

from nbcache.protocol import requests, spool
from nbcache.store import entry, first_calls, quarantine
from nbtest import daemons, proc, users
from nbtest.spoiling import condemn

BOB, MALLORY, CAROL = 54321, 54322, 54323
TRUSTED = frozenset({BOB, MALLORY, CAROL})
WORKER = "import sys\nif not sys.argv[0].endswith('main.py'):\n"
BODY = "from numba import njit\n@njit\ndef f(x):\n    return x * 3 + 1\n"
FORGING = """
from nbcache.daemon import job_side
from nbcache.store import entry
with open({copy!r}, "rb") as file:
    found = entry.parse(file.read())
sections = {{name: found.section(name) for name in found.section_sizes}}
forged = found.header._replace(build="forged")
done = job_side.HandingStore({store!r}, job_side.rule(), writable=True).publish(forged, sections)
print("forgery:", done.ok, done.reason, file=sys.stderr)
"""
FILLING = """
from nbcache.daemon import job_side
from nbcache.store.entry import Header
import os
for number in range(12):
    header = Header(os.urandom(32).hex(), "dispatcher", "big:g", "", "", 0.0, 0.0, "b" * 16, "", {{}})
    job_side.HandingStore({store!r}, job_side.rule(), writable=True).publish(header, {{"object": os.urandom(1 << 20)}})
"""


def indented(text):
    return "".join(f"    {line}\n" for line in text.strip().split("\n"))


def as_user(uid, work):
    return users.become(work, uid, uid)


def crash_with(store, digest, of, uid, deaths=first_calls.PLACES):
    """Have a user say that so many of his processes died in an entry."""
    as_user(uid, lambda: condemn(store, digest, of, deaths))


class Town:
    """A daemon that hears Bob and Mallory, and what they do."""

    def __init__(self, place, python):
        self.place, self.python, self.store = place, python, place / "store"
        self.packages = proc.packages()
        for name, uid in (("bob", BOB), ("mallory", MALLORY)):
            (place / name).mkdir()
            os.chown(place / name, uid, uid)

    def daemon(self, *options, **extra):
        return daemons.daemon(self.store, *options, python=self.python, extra=self._environment(extra))

    def start(self, *options, **extra):
        """Start a daemon that whoever wants it ended ends."""
        return daemons.Daemon(self.store, *options, python=self.python, extra=self._environment(extra))

    def _environment(self, extra):
        trusted = {"NBCACHE_TRUSTED_UIDS": ",".join(map(str, sorted(TRUSTED)))}
        return {**self.packages, **trusted, "NBTEST_TURN": "0.5", **extra}

    def write(self, owner, name, does=""):
        """Write a module into somebody's directory, and a program that calls its function."""
        folder = self.place / owner
        (folder / f"{name}.py").write_text((WORKER + indented(does) if does else "import sys\n") + BODY)
        (folder / f"{name}-main.py").write_text(f"import {name}\nprint({name}.f(1))\n")
        return folder / f"{name}-main.py"

    def run(self, uid, main, **more):
        outcome = proc.run(
            [main], self.store, {**daemons.WAITING, **self.packages, **more}, python=self.python, user=uid
        )
        assert (outcome.status, outcome.stdout) == (0, "4\n"), outcome.stderr
        return outcome

    def entry(self, function="good:f"):
        """Return where the entry of a function is that is for all."""
        found = [path for path in self.store.glob("v1/objects/*/*.nbo") if self.parsed(path).function == function]
        (path,) = [path for path in found if "of" not in self.parsed(path).extra]
        return path

    @staticmethod
    def parsed(path):
        return entry.parse(path.read_bytes()).header

    def recorded(self, main):
        """Return what Bob's program asks for."""
        warm = self.place / "list"
        extra = {"NBCACHE_RECORD": str(warm), **self.packages}
        assert proc.run([main], self.place / "elsewhere", extra, python=self.python).status == 0
        return [requests.read(line) for line in warm.read_bytes().splitlines()]

    def claim(self, asked, name="good"):
        """Have Mallory ask for what Bob asked for, in a job of hers that forges it; return her requests."""
        copy = self.place / "copy"
        if not copy.exists():
            copy.write_bytes(self.entry().read_bytes())
        self.write("mallory", name, FORGING.format(copy=str(copy), store=str(self.store)))
        hers = [each._replace(path=(str(self.place / "mallory"), *each.path)) for each in asked]
        return as_user(MALLORY, lambda: [spool.submit(str(self.store), each) for each in hers])

    def audited(self):
        """Return the lines of the audit logs, of all users, in the order of time."""
        logs = (self.place / "store-one.state").glob("*/audit*.jsonl")
        lines = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
        return sorted(lines, key=lambda line: line["time"])

    def keep_house(self):
        """Wait until the daemon has kept house: it approves of entries right before it looks at marks."""
        for _ in range(2):
            path = open_store(self.store).publish(header(f"turn {time.time()}"), SECTIONS).path
            found = entry.parse(Path(path).read_bytes())
            quarantine.vouch(str(self.store), [(found.digest, found.header.key)])
            daemons.wait_for(lambda path=path: os.stat(path).st_mode & quarantine.PROVEN)
