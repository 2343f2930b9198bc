"""Bad days of a daemon: a full disk, the store deleted under it, clocks that jump, its name or its pid taken.

Each is said once and survived: clients end with the right output, and once it is over the daemon serves again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from nbtest import daemons, disks, proc, usage
from nbtest.processes import stopped
from nbtest.programs import held_back

from nbcache.protocol import requests, spool

YEAR = 365 * 86400
BOUND = daemons.MUCH  # [s] what a client of `PATIENT` would not end within if it waited
PATIENT = {**daemons.WAITING, "NBCACHE_WAIT_SECONDS": "3600"}


class Programs:
    """Programs that each call one function, of a module of its own."""

    def __init__(self, folder):
        self.folder = folder

    def write(self, name, before=""):
        """Write a module ``name`` and its program; return the arguments that run it, and what it prints."""
        k = len(name) + ord(name[0])
        (self.folder / f"{name}.py").write_text(
            f"{before}\nfrom numba import njit\n@njit\ndef f(x):\n    return x * {k} + {k}\n"
        )
        main = self.folder / f"{name}-main.py"
        main.write_text(f"import {name}\nprint({name}.f(1))\n")
        return main, f"{2 * k}\n"

    def ask(self, store, name, before="", **extra):
        """A client of ``store`` from its start to its end: it must end soon, with the right output and no fault."""
        main, expected = self.write(name, before)
        return checked(proc.run([main], store, {**PATIENT, **extra}, timeout=BOUND), expected)

    def served(self, daemon, name):
        """Have something built, by the daemon."""
        outcome = self.ask(daemon.store, name)
        daemon.says(f"built {name}:f")
        assert not re.search("can't be asked|not built|not asked|no daemon", outcome.stderr), outcome.stderr
        # A heartbeat may say for a moment longer that it is busy.
        daemons.wait_for(lambda: daemon.heartbeat().get("busy") == 0, lambda: daemon.log)

    def start(self, store, name, go):
        """Start a client of a function that no worker can build before the file ``go`` is there."""
        main, expected = self.write(name, held_back(go))
        return proc.start([main], store, PATIENT), expected


def checked(outcome, expected):
    assert (outcome.status, outcome.stdout) == (0, expected), outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert "fault" not in outcome.stderr
    return outcome


@pytest.fixture
def programs(place):
    return Programs(place)


@pytest.fixture
def disk(place):
    """A small filesystem."""
    with disks.small_disk(place / "disk", "3m") as point:
        yield point


def fill(disk, leave=0):
    """Leave so many bytes; return the file that takes the others."""
    filler = disk / "filler"
    with filler.open("ab", buffering=0) as file:
        for size in (1 << 16, 1):
            with suppress(OSError):
                while True:
                    file.write(b"x" * size)
        file.truncate(file.tell() - leave)
    return filler


def tries(daemon, times):
    """Wait until the daemon tried so many times more to give a sign of life."""
    for _ in range(times):
        last = (daemon.store / "v1/daemon").stat().st_mtime_ns
        daemons.wait_for(lambda last=last: (daemon.store / "v1/daemon").stat().st_mtime_ns != last)


def assert_calm(daemon, *said):
    """The daemon lives, said each of ``said`` in one line of its log, and nothing twice but what was over meanwhile."""
    for each in said:
        # What a job says of itself comes by a pipe of its own, and may come after the job's answer.
        daemon.says(each)
    assert daemon.process.poll() is None
    assert "Traceback" not in daemon.log, daemon.log
    assert "fault" not in daemon.log, daemon.log
    lines = [re.sub(r"^\S+ \S+ nbcache\[\d+\] ", "", line) for line in daemon.log.splitlines()]
    lasting = set()
    for line in lines:
        _, over, problem = line.partition("INFO resolved: ")
        if over:
            # What begins again once it is over is said again: an entry that is written takes the last of a disk's room
            # for a moment, and a heartbeat may be due just then.
            lasting.discard(f"WARNING {problem}")
        else:
            assert line not in lasting, daemon.log
            lasting.add(line)
    for each in said:
        assert sum(each in line for line in set(lines)) == 1, daemon.log


def beats(daemon, times=2):
    """Wait until the daemon gave some more signs of life."""
    for _ in range(times):
        last = daemon.heartbeat().get("beat")
        daemons.wait_for(lambda last=last: daemon.heartbeat().get("beat") not in {None, last}, lambda: daemon.log)


def status(store):
    """What ``nbcache status`` says of each daemon, by name; and as text."""
    patient = {"NBTEST_PATIENT": "1"}
    done = proc.run(["-m", "nbcache", "status", "--json"], store, patient)
    assert done.status == 0, done.stderr
    text = proc.run(["-m", "nbcache", "status"], store, patient)
    assert text.status == 0, text.stderr
    return {each["name"]: each for each in json.loads(done.stdout)["daemons"]}, text.stdout


# -- a full disk -----------------------------------------------------------------------------------


@pytest.mark.long
def test_the_store_s_disk_is_full(place, programs, disk):
    store, go = disk / "store", place / "go"
    with daemons.daemon(store, logs=place) as daemon:
        programs.served(daemon, "before")
        waiting, expected = programs.start(store, "amid", go)
        daemons.wait_for(lambda: daemon.heartbeat().get("busy"), lambda: daemon.log)
        # Enough for what is said of it, and not for an entry.
        filler = fill(disk, leave=3 * 4096)
        go.touch()
        checked(proc.finish(waiting, BOUND), expected)
        assert_calm(daemon, "amid:f could not be stored: no space left in the store", "could not build amid:f (int64)")
        # A heartbeat that is being replaced while it is filled leaves the room of one behind.
        daemons.wait_for(lambda: fill(disk) and shutil.disk_usage(disk).free == 0)
        programs.ask(store, "during")
        tries(daemon, 3)
        outcome = programs.ask(store, "during", NBCACHE_READONLY="0", NBCACHE_LOG_FILE=f"{disk}/log")
        assert outcome.stderr == f"NBCACHE_LOG_FILE={disk}/log can't be written: No space left on device\n"
        assert_calm(daemon, "WARNING the heartbeat can't be written, so no client will ask this daemon: No space left")
        filler.unlink()
        beats(daemon)
        # That there was no room for it is not the function's fault.
        programs.served(daemon, "amid")
        programs.served(daemon, "during")
        assert_calm(daemon, "INFO resolved: the heartbeat can't be written")
        assert daemon.stop() == 0
    proc.verify(store)


@pytest.mark.long
def test_the_state_s_disk_is_full(place, programs, disk):
    store = place / "store"
    with daemons.daemon(store, "--state", str(disk / "state")) as daemon:
        fill(disk)
        programs.served(daemon, "first")
        programs.served(daemon, "second")
        assert_calm(daemon, "the audit log in")
        assert daemon.log.count("can't be written: No space left") == 1, daemon.log
        jobs = daemons.wait_for(lambda: len(found := daemon.heartbeat()["jobs"]) == 2 and found)
        assert {what.partition(":")[0] for what, *_ in jobs} == {"first", "second"}
        assert daemon.stop() == 0


# -- the store deleted -----------------------------------------------------------------------------


def seconds_used(process):
    """Processor time [s] that a process took so far."""
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_the_store_is_deleted(place, programs):
    store, go = place / "store", place / "go"
    with daemons.daemon(store) as daemon:
        programs.served(daemon, "before")
        waiting, expected = programs.start(store, "amid", go)
        daemons.wait_for(lambda: daemon.heartbeat().get("busy"), lambda: daemon.log)
        # Away all at once: what a slow `rm -r` leaves meanwhile is another test's.
        store.rename(place / "old")
        checked(proc.finish(waiting, BOUND), expected)
        shutil.rmtree(place / "old")
        daemons.wait_for(daemon.is_serving, lambda: daemon.log)
        go.touch()
        programs.served(daemon, "after")
        assert_calm(daemon, f"recreated what was missing: {store}")
        assert daemon.stop() == 0
    proc.verify(store)


@pytest.mark.long
def test_the_store_is_deleted_and_what_it_lay_in(place, programs):
    """An unmounted filesystem, say: nothing is made where it isn't."""
    place = place / "deep"
    (place / "shared").mkdir(parents=True)
    store = place / "shared/store"
    with daemons.daemon(store, logs=place) as daemon:
        # Away all at once, as a mount is: of a slow `rm -r`, the daemon would make a part again, and say so, each time.
        (place / "shared").rename(place / "old")
        shutil.rmtree(place / "old")
        daemon.says("is missing, and so is")
        before, started = seconds_used(daemon.process), time.monotonic()
        programs.ask(store, "during")
        assert seconds_used(daemon.process) - before < 0.3 * (time.monotonic() - started)
        assert not (place / "shared").exists()
        assert_calm(
            daemon,
            f"WARNING {store} is missing, and so is {place}/shared: nothing is served until {place}/shared exists",
        )
        (place / "shared").mkdir()
        daemons.wait_for(daemon.is_serving, lambda: daemon.log)
        programs.served(daemon, "after")
        assert_calm(daemon, f"INFO resolved: {store} is missing")
        assert daemon.stop() == 0


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: changes owners")
def test_the_store_is_a_stranger_s_now(place, programs):
    """Whoever deletes it in a place like /tmp may put theirs there."""
    store = place / "store"
    with daemons.daemon(store) as daemon:
        (place / "theirs").mkdir()
        os.chown(place / "theirs", 4321, 4321)
        # In between, the daemon would make its own again.
        with stopped(daemon.process.pid):
            store.rename(place / "old")
            (place / "theirs").rename(store)
        daemons.wait_for(lambda: "who isn't trusted" in daemon.log, lambda: daemon.log)
        programs.ask(store, "during")
        assert os.listdir(store) == []
        assert_calm(daemon, "is owned by uid 4321, who isn't trusted")
        os.chown(store, 0, 0)
        programs.ask(store, "after", NBCACHE_READONLY="0")
        daemons.wait_for(daemon.is_serving, lambda: daemon.log)
        programs.served(daemon, "later")


@pytest.mark.long
def test_parts_of_the_store_are_deleted(place, programs):
    store = place / "store"
    with daemons.daemon(store) as daemon:
        modes = {path: path.stat().st_mode for path in (store / "v1").iterdir() if path.is_dir()}
        assert len(modes) == 9
        for path in modes:
            # Away all at once, or what is made again while `rm -r` goes on may be deleted with it; and one after the
            # other, or what goes while another is made again is made with that one, and only that one is said.
            path.rename(place / f"old-{path.name}")
            daemon.says(f"recreated what was missing: {path}")
            assert path.is_dir()
        daemons.wait_for(daemon.is_serving, lambda: daemon.log)
        assert {path: path.stat().st_mode for path in modes} == modes
        programs.served(daemon, "after")
        assert_calm(daemon, *(f"recreated what was missing: {path}" for path in modes))
        # It is woken by what arrives, as before.
        assert daemon.stop() == 0


# -- clocks ----------------------------------------------------------------------------------------

CLOCK = """
import runpy, time
from nbcache import process
real = time.time
def wrong():
    with open({path!r}) as file:
        return real() + float(file.read())
time.time = process.time.time = wrong
runpy.run_path({then!r})
"""


@pytest.fixture
def clock(place):
    """What sets the clock of processes that have ``clock.environment``."""

    class Clock:
        environment = {"PYTHONPATH": f"{place}/clock:{proc.ROOT}"}  # and so for the daemon's workers

        def set(self, seconds):
            (place / "ahead.tmp").write_text(str(seconds))
            (place / "ahead.tmp").replace(place / "ahead")

    (place / "clock").mkdir()
    (place / "clock/sitecustomize.py").write_text(
        CLOCK.format(path=str(place / "ahead"), then=str(proc.INJECT / "sitecustomize.py"))
    )
    Clock().set(0)
    return Clock()


@pytest.mark.long
def test_the_daemon_s_clock_jumps(place, programs, clock):
    store = place / "store"
    with daemons.daemon(store, extra=clock.environment) as daemon:
        for name, ahead in (("ahead", YEAR), ("behind", -YEAR)):
            clock.set(ahead)
            daemons.wait_for(lambda ahead=ahead: abs(daemon.heartbeat()["beat"] - time.time() - ahead) < 60)
            programs.served(daemon, name)
            assert status(store)[0]["one"]["alive"]
        clock.set(YEAR)
        programs.ask(store, "as_wrong", **clock.environment)
        assert_calm(daemon)
        assert daemon.stop() == 0


@pytest.mark.long
def test_requests_and_failures_with_wrong_dates(place, programs, clock):
    """They are carried out, and they expire."""
    store = place / "store"
    refused = "import sys\nassert sys.argv[0].endswith('main.py'), 'no'\n"
    # Their daemon's clock is a year ahead of ours.
    clock.set(YEAR)
    with daemons.daemon(store, extra=clock.environment) as daemon:
        programs.ask(store, "refused", refused)
        (failure,) = daemons.failures(store)
        assert failure["created"] > time.time() + YEAR / 2
        assert "AssertionError: no" in failure["reason"]
        clock.set(0)
        assert "was not built by the daemon" in programs.ask(store, "refused", refused).stderr
        (failure,) = daemons.failures(store)
        assert failure["created"] < time.time() + 60

        with daemons.hung(daemon):
            for name in ("coming", "past"):
                programs.ask(store, name, NBCACHE_WAIT_SECONDS="1")
            for path in daemons.spool(store):
                year = YEAR if "coming" in path.read_text() else -YEAR
                os.utime(path, (time.time() + year,) * 2)
        daemons.wait_for(lambda: not daemons.spool(store), lambda: daemon.log)
        daemon.says("built coming:f")
        daemon.says("older than a day")


def test_the_next_daemon_removes_the_folder_that_a_killed_one_left(place, programs):
    temporary = place / "temporary"
    temporary.mkdir(mode=0o777)
    there = {"TMPDIR": str(temporary)}

    def folders():
        return set(temporary.glob("nbcache-jobs-*"))

    with daemons.daemon(place / "other", extra=there) as other:
        programs.served(other, "other")
        alive = folders()
        killed = daemons.Daemon(place / "store", extra=there)
        programs.served(killed, "first")
        killed.kill()
        left = folders() - alive
        young, strangers = temporary / "nbcache-jobs-young", temporary / "nbcache-jobs-strangers"
        young.mkdir()
        strangers.mkdir()
        if os.geteuid() == 0:
            os.chown(strangers, 65534, 65534)
        for each in (*alive, *left, *([strangers] if os.geteuid() == 0 else [])):
            os.utime(each, (time.time() - 3600,) * 2)
        with daemons.daemon(place / "store", extra=there) as again:
            programs.served(again, "second")
            now = folders()
            assert again.stop() == 0
        assert other.stop() == 0
    assert len(alive) == len(left) == 1
    assert not left & now
    assert {*alive, young, strangers} < now
    assert folders() == {young, strangers}


@pytest.mark.long
@pytest.mark.parametrize("host", ["here", "elsewhere"])
def test_a_dead_daemon_s_date_is_in_the_future(place, programs, host):
    store = place / "store"
    daemon = daemons.Daemon(store)
    daemon.kill()
    rewrite(daemon, beat=time.time() + YEAR, **({} if host == "here" else {"host": host, "place": host}))
    if host == "elsewhere":
        os.utime(store / "v1/daemon/one.json", (time.time() + YEAR,) * 2)
    programs.ask(store, "alone")
    assert not daemons.spool(store)
    assert not status(store)[0]["one"]["alive"]


def rewrite(daemon, **changes):
    """Change what a heartbeat says."""
    path = daemon.store / "v1/daemon/one.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


# -- names and pids --------------------------------------------------------------------------------


class Namesake(daemons.Daemon):
    """A daemon that may be called otherwise than it was asked to be."""

    def heartbeat(self):
        found = (json.loads(path.read_text()) for path in (self.store / "v1/daemon").glob("*.json"))
        return next((each for each in found if each["pid"] == self.process.pid), {})

    @property
    def said(self):
        """What this one said of the log that both write."""
        return [line for line in self.log.splitlines() if f"nbcache[{self.process.pid}]" in line]


@pytest.mark.long
def test_two_daemons_of_one_name(place, programs):
    """The second one takes another name, and neither takes anything from the first."""
    store = place / "store"
    first = Namesake(store)
    second = Namesake(store)
    try:
        name = second.heartbeat()["name"]
        assert first.heartbeat()["name"] == "one" != name
        (line,) = (line for line in second.said if "another daemon named one" in line)
        assert line.endswith(f"another daemon named one serves this store; this one is named {name}")
        beats(first)
        assert {each: told["alive"] for each, told in status(store)[0].items()} == {"one": True, name: True}
        programs.ask(store, "work")
        for each in (first, second):
            each.settle()
        assert list(usage.read(store).builds_in("work").values()) == [1]
        assert second.stop() == 0
        assert list(status(store)[0]) == ["one"]
        programs.served(first, "more")
        assert len([line for line in first.said if "jobs run" not in line]) <= 3
        assert first.stop() == 0
    finally:
        for each in (first, second):
            if each.process.poll() is None:
                each.kill()


@pytest.mark.long
def test_two_daemons_that_learn_late_of_having_one_name(place):
    store = place / "store"
    first = Namesake(store)
    second = None
    try:
        # As if both had begun at the same moment, or couldn't see each other. Not while it writes a heartbeat, which
        # would replace the other one's before it looks whose that is: the next one is due in two seconds.
        beats(first, 1)
        first.process.send_signal(signal.SIGSTOP)
        (store / "v1/daemon/one.json").unlink()
        second = Namesake(store)
        assert second.heartbeat()["name"] == "one"
        first.process.send_signal(signal.SIGCONT)
        daemons.wait_for(lambda: first.heartbeat().get("name", "one") != "one", lambda: first.log)
        for each in (first, second):
            beats(each)
        assert second.heartbeat()["name"] == "one"
        assert first.stop() == 0
        assert second.heartbeat()["name"] == "one"
        assert second.stop() == 0
        assert os.listdir(store / "v1/daemon") == []
    finally:
        for each in filter(None, (first, second)):
            if each.process.poll() is None:
                each.kill()


@pytest.mark.long
def test_a_stale_pid(place, programs):
    store = place / "store"
    daemon = daemons.Daemon(store)
    daemon.kill()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as sleeper:
        rewrite(daemon, pid=sleeper.pid, beat=time.time())
        told, text = status(store)
        assert not told["one"]["alive"]
        assert re.search(rf"one +{sleeper.pid} +dead, silent for", text), text
        rewrite(daemon, pid=sleeper.pid, beat=time.time() + 1)
        programs.ask(store, "alone")
        assert not daemons.spool(store)
        rewrite(daemon, pid=sleeper.pid, beat=time.time() + 1)
        with daemons.daemon(store) as again:
            assert again.heartbeat()["name"] == "one"
            programs.served(again, "work")
            assert again.stop() == 0
        sleeper.communicate(b"\n")


@pytest.mark.long
def test_a_filesystem_hangs_that_requests_name(place, programs):
    """To look at an interpreter there waits for ever; that takes no worker, and nobody else waits."""
    store, warm = place / "store", place / "warm"
    main, expected = programs.write("recorded")
    checked(proc.run([main], place / "other", {"NBCACHE_RECORD": str(warm)}), expected)
    line = warm.read_bytes().splitlines()[0]
    impatient = {"NBTEST_PATIENT": ""}
    with daemons.daemon(store, "--workers", "1", extra=impatient) as daemon, disks.hanging_disk(place / "disk") as disk:
        for number in range(1, 7):  # zeros alone are no key
            asked = requests.read(line)._replace(key=f"{number:064x}", interpreter=f"{disk}/{number}/bin/python")
            assert spool.submit(str(store), asked)
        programs.served(daemon, "meanwhile")
        daemons.wait_for(lambda: not daemons.spool(store), lambda: daemon.log)
        assert daemon.log.count("can't be looked at: its filesystem doesn't answer") == 6, daemon.log
        programs.served(daemon, "later")
        assert daemon.stop() == 0
