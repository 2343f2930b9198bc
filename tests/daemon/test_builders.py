"""Jobs that don't do as they are told, for real: each is the import of a client's module in a worker.

They try to write where they have no business, to answer for others, to wedge what supervises them, to outlive their job.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from nbtest import daemons, denials, disks, proc, users

from nbcache.protocol import requests, spool

WORKER = "import sys\nif not sys.argv[0].endswith('main.py'):\n"
BODY = "\nfrom numba import njit\n@njit\ndef f(x):\n    return x * {k} + 1\n"
PATIENT = daemons.WAITING
IMPATIENT = {"NBTEST_PATIENT": ""}


def until(gate):
    """What a job does that ends once there is a file at *gate*, and not before."""
    return f"import os, time\nwhile not os.path.exists({str(gate)!r}):\n    time.sleep(0.02)"


def write(place, name, does="pass", k=3):
    """Write a module that *does* something in a worker, and a program that calls its function."""
    lines = "".join(f"    {line}\n" for line in does.strip().split("\n"))
    (place / f"{name}.py").write_text(WORKER + lines + BODY.format(k=k))
    main = place / f"{name}-main.py"
    main.write_text(f"import {name}\nprint({name}.f(1))\n")
    return main, f"{k + 1}\n"


def ask(place, store, name, does="pass", k=3, **more):
    main, expected = write(place, name, does, k)
    outcome = proc.run([main], store, PATIENT, **more)
    assert (outcome.status, outcome.stdout) == (0, expected), outcome.stderr
    return outcome


def served(place, daemon, name, **more):
    """Have something built, by the daemon."""
    ask(place, daemon.store, name, **more)
    daemon.says(f"built {name}:f")


def processes(marker):
    """The pids of processes with a word in their command line."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
            if marker.encode() in file.read():
                found.append(int(pid))
    return found


def workers(daemon):
    """The interpreters of a daemon that have no children but jobs, by their parents: [(pid, parent)]."""
    found, below = [], {daemon.process.pid}
    for _ in range(4):
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            with suppress(OSError):
                with open(f"/proc/{pid}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
                if parent in below and pid not in below:
                    below.add(pid)
                    found.append((pid, parent))
    return found


def job_of(daemon, quiet):
    """The job that was begun since the pids *quiet* were there, and who forked it: (pid, parent).

    No job is told by being there: one whose answer was logged is killed, and buried by who forked it, after that.
    """
    (found,) = daemons.wait_for(
        lambda: [each for each in workers(daemon) if each[0] not in quiet and each[1] in quiet], lambda: daemon.log
    )
    return found


def tree(folder):
    """Everything below a folder, with what is in it."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def report(daemon):
    """What jobs said in the log: each line begins with a word of its own."""
    return {line.split(" says: ")[1].strip() for line in daemon.log.splitlines() if " says: " in line}


# -- supervision -----------------------------------------------------------------------------------

BABBLE = r"""
import os, socket
for fd in range(3, 60):
    for text in (b'{{{', b'\xff\xfe', b'[1]', b'{"job": 1, "result": null}', b'{"ready": 3}', b'{"judge": 1}', b'x' * 60000,
                 b'{"ended": 1, "status": 0}', b'{"result": {"a": []}}', b'{"started": true}', b'{"done": 1}', b'[' * 50000):
        try:
            socket.socket(fileno=os.dup(fd)).send(text, socket.MSG_DONTWAIT)
        except OSError:
            pass
"""


@pytest.mark.long
def test_what_a_job_babbles_costs_that_job_alone(place):
    store = place / "store"
    with daemons.daemon(store, "--workers", "2") as daemon:
        slow, expected = write(place, "slow", until(place / "gate"), k=5)
        waiting = proc.start([slow], store, PATIENT)
        daemons.wait_for(lambda: daemon.heartbeat().get("busy"), lambda: daemon.log)
        ask(place, store, "babbler", BABBLE)
        (place / "gate").touch()
        outcome = proc.finish(waiting)
        assert (outcome.status, outcome.stdout) == (0, expected), outcome.stderr
        daemon.says("built slow:f")
        assert "Traceback" not in daemon.log, daemon.log
        served(place, daemon, "after")
        assert daemon.stop() == 0
    assert "babbler:f" not in "".join(re.findall("INFO built .*", daemon.log))


def hung(daemon, sign):
    """Stop the process that forks, or a job; return its pid."""
    pid = sign()
    os.kill(pid, signal.SIGSTOP)
    return pid


@pytest.mark.long
def test_a_stopped_interpreter_keeps_nobody_waiting(place):
    """Its jobs go on, and what it doesn't begin is begun by another one."""
    store = place / "store"
    with daemons.daemon(store, "--workers", "2", extra=IMPATIENT) as daemon:
        served(place, daemon, "before")
        quiet = {pid for pid, _ in workers(daemon)}
        slow, expected = write(place, "slow", until(place / "gate"), k=5)
        waiting = proc.start([slow], store, PATIENT)
        _, forks = job_of(daemon, quiet)
        os.kill(forks, signal.SIGSTOP)
        served(place, daemon, "during")
        assert "doesn't begin its jobs" in daemon.log
        (place / "gate").touch()
        outcome = proc.finish(waiting)
        assert (outcome.status, outcome.stdout) == (0, expected), outcome.stderr
        daemon.says("built slow:f")
        daemons.wait_for(lambda: not os.path.exists(f"/proc/{forks}"))
        assert daemon.stop() == 0
    assert "trying once more" not in daemon.log


@pytest.mark.long
def test_a_stopped_job_costs_its_slot(place):
    store = place / "store"
    with daemons.daemon(store, "--workers", "2") as daemon:
        served(place, daemon, "before")
        quiet = {pid for pid, _ in workers(daemon)}
        slow, _ = write(place, "slow", until(place / "never"), k=5)
        waiting = proc.start([slow], store, PATIENT)
        job, _ = job_of(daemon, quiet)
        os.kill(job, signal.SIGSTOP)
        served(place, daemon, "during")
        assert os.path.exists(f"/proc/{job}")
        assert waiting.poll() is None
        assert daemon.stop() == 0
        # It is killed before the daemon ends, and buried by who is left to do so.
        daemons.wait_for(lambda: not os.path.exists(f"/proc/{job}"))
    assert proc.finish(waiting).status == 0


@pytest.mark.long
def test_a_stopped_job_is_ended_when_its_time_is_over(place):
    store = place / "store"
    with daemons.daemon(store, "--workers", "1", "--job-seconds", "12") as daemon:
        ask(place, store, "before")
        daemon.settle()
        quiet = {pid for pid, _ in workers(daemon)}
        slow, expected = write(place, "slow", until(place / "gate"), k=5)
        waiting = proc.start([slow], store, PATIENT)
        job, _ = job_of(daemon, quiet)
        os.kill(job, signal.SIGSTOP)
        daemon.says("slow:f (int64): it took longer than 12 s; trying once more")
        (place / "gate").touch()
        daemons.wait_for(lambda: not os.path.exists(f"/proc/{job}"))
        outcome = proc.finish(waiting)
        assert (outcome.status, outcome.stdout) == (0, expected), outcome.stderr
        assert daemon.stop() == 0


HANGING = """
import os
from nbcache.daemon import job_side
job_side._current.link.ask({{"judge": "owner"}}, os.open({disk!r}, os.O_PATH))
"""


@pytest.mark.long
@pytest.mark.skipif(os.getuid() != 0, reason="needs root: becomes another user")
def test_a_job_that_has_something_judged_that_hangs_costs_its_slot(place):
    """Whose a file is, its server has to say; where it doesn't, only the jobs of whoever brought that wait."""
    python = proc.interpreter_for(54321)
    if python is None:
        pytest.skip("no interpreter that an unprivileged user may execute")
    store, packages, theirs = place / "store", proc.packages(), place / "theirs"
    theirs.mkdir()
    os.chown(theirs, 54321, 54321)
    extra = {**packages, "NBCACHE_TRUSTED_UIDS": "54321"}
    with disks.hanging_disk(place / "disk") as disk:
        with daemons.daemon(store, "--workers", "2", python=python, extra=extra) as daemon:
            main, expected = write(theirs, "hanging", HANGING.format(disk=str(disk)), k=5)
            waiting = proc.start([main], store, {**PATIENT, **packages}, python=python, user=54321)
            daemons.wait_for(lambda: daemon.heartbeat().get("busy"), lambda: daemon.log)
            for name in ("one", "two"):
                main, _ = write(place, name)
                proc.run([main], store, {**PATIENT, **packages}, python=python)
                daemon.says(f"built {name}:f")
            daemons.wait_for(lambda: daemon.heartbeat().get("busy") == 1, lambda: daemon.log)
            assert waiting.poll() is None
            assert daemon.stop() == 0
        outcome = proc.finish(waiting)
        assert (outcome.status, outcome.stdout) == (0, expected), outcome.stderr


FREEZER = "/sys/fs/cgroup/freezer"


@pytest.fixture
def frozen(place):
    """Freezes a process, so that not even SIGKILL ends it, as in a wait for a disk that doesn't answer; or thaws all."""
    group = f"{FREEZER}/nbtest{os.getpid()}"
    try:
        os.mkdir(group)
    except OSError as error:
        pytest.skip(f"needs a cgroup that freezes (version 1): {error}")

    def freeze(pid):
        for name, text in (
            (("cgroup.procs", f"{pid}"), ("freezer.state", "FROZEN")) if pid else (("freezer.state", "THAWED"),)
        ):
            with open(f"{group}/{name}", "w") as file:
                file.write(text)

    yield freeze
    freeze(0)
    daemons.wait_for(lambda: not Path(group, "cgroup.procs").read_text())
    os.rmdir(group)


@pytest.mark.long
def test_a_job_that_can_t_be_killed_costs_its_slot_and_no_other(place, frozen):
    store = place / "store"
    with daemons.daemon(store, "--workers", "2", "--job-seconds", "30") as daemon:
        served(place, daemon, "before")
        quiet = {pid for pid, _ in workers(daemon)}
        slow, expected = write(place, "slow", until(place / "gate"), k=5)
        waiting = proc.start([slow], store, PATIENT)
        job, _ = job_of(daemon, quiet)
        frozen(job)
        daemon.says("trying once more")
        (place / "gate").touch()
        outcome = proc.finish(waiting)
        assert (outcome.status, outcome.stdout) == (0, expected), outcome.stderr
        daemons.wait_for(lambda: "its process can't be killed" in daemon.log, lambda: daemon.log)
        for name in ("one", "two", "three"):
            served(place, daemon, name)
        assert os.path.exists(f"/proc/{job}")
        frozen(0)
        daemons.wait_for(lambda: not os.path.exists(f"/proc/{job}"))
        served(place, daemon, "after")
        frozen(0)
        assert daemon.stop() == 0


ESCAPES = """
import os, subprocess, time
for session in (False, True):
    subprocess.Popen(["sleep", "{seconds}"], start_new_session=session)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 2)
        os.execvp("sleep", ["sleep", "{seconds}"])
    os._exit(0)
"""


@pytest.fixture
def python_for(place):
    return denials.pythons(place)


SAYS = {
    "namespaces": "",
    "landlock": ", without namespaces, under Landlock (",
    "neither": ", without namespaces: they can",
}


@pytest.mark.long
@pytest.mark.parametrize("way", denials.WAYS)
def test_what_an_import_starts_ends_with_the_job(place, way, python_for):
    """Children, sessions of their own, daemons that hold everything open: nobody waits for them, and they are gone."""
    store, seconds = place / "store", f"{40000 + os.getpid()}{denials.WAYS.index(way)}"
    with daemons.daemon(store, python=python_for[way]) as daemon:
        served(place, daemon, "before")
        served(place, daemon, "parent", does=ESCAPES.format(seconds=seconds))
        daemons.wait_for(lambda: not processes(seconds), lambda: str(processes(seconds)))
        assert SAYS[way] in daemon.log
        assert ("without namespaces" in daemon.log) is not (way == "namespaces")
        assert daemon.stop() == 0


@pytest.mark.every(6)
@pytest.mark.parametrize("way", denials.WAYS)
@pytest.mark.parametrize("who", ["daemon", "interpreter"])
def test_who_is_killed_leaves_no_process(place, who, way, python_for):
    store, seconds = place / "store", f"{50000 + os.getpid()}{denials.WAYS.index(way)}{len(who)}"
    with daemons.daemon(store, python=python_for[way]) as daemon:
        served(place, daemon, "before")
        quiet = {pid for pid, _ in workers(daemon)}
        main, _ = write(place, "parent", ESCAPES.format(seconds=seconds) + until(place / "never"))
        waiting = proc.start([main], store, PATIENT)
        daemons.wait_for(lambda: len(processes(seconds)) == 3, lambda: daemon.log)
        _, forks = job_of(daemon, quiet)
        left = [pid for pid, _ in workers(daemon)]
        (place / "never").touch() if who == "interpreter" else None
        daemon.kill() if who == "daemon" else os.kill(forks, signal.SIGKILL)
        daemons.wait_for(lambda: not processes(seconds), lambda: str(processes(seconds)))
        if who == "daemon":
            daemons.wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in left))
        assert proc.finish(waiting).status == 0


# -- what a job may write --------------------------------------------------------------------------

ATTACK = """
import os, json, ctypes, signal, socket, subprocess
def attempt(name, what):
    try:
        what()
    except BaseException as error:
        print(name, "fails:", type(error).__name__, file=sys.stderr)
    else:
        print(name, "SUCCEEDS", file=sys.stderr)
def put(path):
    with open(path, "w") as file:
        file.write("forged")
def connected(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as end:
        end.connect(path)
def told(path):
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"READY=1", path)
def must(result):
    assert result == 0
store, state, victim, daemon, zygote = {store!r}, {state!r}, {victim!r}, {daemon}, os.getppid()
libc = ctypes.CDLL(None)
attempt("entry", lambda: put(victim))
attempt("truncate", lambda: os.truncate(victim, 0))
attempt("remove", lambda: os.unlink(victim))
attempt("chmod", lambda: os.chmod(victim, 0o777))
attempt("utime", lambda: os.utime(victim, (1, 1)))
attempt("new", lambda: put(store + "/v1/objects/new"))
attempt("failed", lambda: put(store + "/v1/failed/new.json"))
attempt("lease", lambda: put(store + "/v1/leases/new"))
attempt("request", lambda: put(store + "/v1/requests/new.json"))
attempt("heartbeat", lambda: put(store + "/v1/daemon/one.json"))
attempt("state", lambda: put(state + "/new"))
attempt("beside", lambda: put(os.path.dirname(store) + "/new"))
attempt("tmp", lambda: put("/tmp/nbcache-escaped"))
attempt("mount", lambda: must(subprocess.call(["mount", "-o", "remount,rw,bind", "/"], stderr=-3)))
attempt("unshare", lambda: must(subprocess.call(
    ["unshare", "-Urm", "sh", "-c", "mount -o remount,rw,bind / ; echo forged >" + victim], stderr=-3)))
attempt("namespace", lambda: must(libc.unshare(0x10000000)))
attempt("cgroup", lambda: must(libc.unshare(0x02000000)))
attempt("setting", lambda: os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
attempt("sys", lambda: os.open("/sys/kernel/uevent_helper", os.O_WRONLY))
attempt("oom", lambda: put(f"/proc/{{daemon}}/oom_score_adj"))
attempt("network", lambda: socket.create_connection(("127.0.0.1", {port}), 2).close())
attempt("kill", lambda: os.kill(daemon, signal.SIGKILL))
attempt("trace", lambda: must(libc.ptrace(16, daemon, 0, 0)))
attempt("memory", lambda: open(f"/proc/{{daemon}}/mem", "rb+").close())
attempt("through", lambda: put(f"/proc/{{daemon}}/root" + victim))
attempt("zygote", lambda: os.kill(zygote or daemon, signal.SIGSTOP))
attempt("socket", lambda: connected({bus!r}))
attempt("datagram", lambda: told({bus!r} + ".dgram"))
attempt("disk", lambda: os.open({disk!r}, os.O_RDWR))
def secret():
    with open({key!r}) as file:
        must(0 if file.read() else 1)
attempt("key", secret)
with open(os.environ["TMPDIR"] + "/mine", "w") as file:
    file.write("fine")
print("scratch fine", file=sys.stderr)
"""


@pytest.fixture
def bus(place):
    """A socket of a helpful service of the same user, which would do as told."""
    path = str(place / "bus")
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram,
    ):
        stream.bind(path)
        stream.listen()
        datagram.bind(f"{path}.dgram")
        for name in (path, f"{path}.dgram"):
            os.chmod(name, 0o777)
        yield path


def attack(place, bus, user=None, python=None, script=None, but=None):
    """Run a daemon, as *user*, whose job tries everything; return the daemon's log.

    *script* is a Python that becomes that user by itself; *but* is what a job may do all the same.
    """
    store = place / "store"
    key = place / "signing.key"
    key.write_text("secret\n")
    key.chmod(0o600)
    os.chown(key, user or 0, user or 0)
    more = {"extra": {"NBCACHE_SIGNING_KEY": str(key)}}
    if user is not None:
        who = {"user": user, "python": python} if script is None else {"python": script}
        more = {**who, "extra": {**proc.packages(), **more["extra"]}}
    asker = {} if user is None else {"user": user, "python": python}
    packages = {} if user is None else proc.packages()
    with daemons.daemon(store, **more) as daemon:
        main, expected = write(place, "good")
        good = proc.run([main], store, {**PATIENT, **packages}, **asker)
        assert (good.stdout, good.status) == (expected, 0), good.stderr
        daemon.says("built good:f")
        (victim,) = (str(path) for path in store.glob("v1/objects/*/*.nbo") if b'"good:f"' in path.read_bytes())
        kept = tree(store / "v1/objects")
        state = str(daemon.log_path.with_suffix(".state"))
        disk = next(
            (f"/dev/{name}" for name in ("vda", "sda", "nvme0n1", "loop0") if os.path.exists(f"/dev/{name}")), ""
        )
        with socket.create_server(("127.0.0.1", 0)) as listening:
            told = {
                "port": listening.getsockname()[1],
                "daemon": daemon.process.pid,
                "bus": bus,
                "disk": disk,
                "key": str(key),
            }
            does = ATTACK.format(store=str(store), state=state, victim=victim, **told)
            does = does.replace(f'attempt("{but}"', "pass  # ") if but else does
            main, expected = write(place, "attacker", does, k=7)
            outcome = proc.run([main], store, {**PATIENT, **packages}, **asker)
        assert (outcome.stdout, outcome.status) == (expected, 0), outcome.stderr
        daemon.says("built attacker:f")
        now = tree(store / "v1/objects")
        assert {name: now[name] for name in kept} == kept
        # The last of what it said, which comes by a pipe of its own.
        daemon.says("scratch fine")
        said = report(daemon)
        assert daemon.stop() == 0
    proc.verify(store) if user is None else None
    assert not [line for line in said if "SUCCEEDS" in line], said
    assert len([line for line in said if "fails:" in line]) == ATTACK.count("attempt(") - (2 if but else 1), said
    assert "scratch fine" in said
    return daemon.log


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, which has most to lose")
def test_a_job_of_root_writes_nothing_but_its_scratch(place, bus):
    log = attack(place, bus)
    assert "in namespaces" in log or "jobs run" not in log
    assert not os.path.exists("/tmp/nbcache-escaped")


@pytest.mark.long
@pytest.mark.skipif(os.getuid() != 0, reason="needs root: becomes another user")
def test_a_job_of_an_ordinary_user_writes_nothing_but_its_scratch(place, bus):
    python = proc.interpreter_for(54321)
    if python is None:
        pytest.skip("no interpreter that an unprivileged user may execute")
    os.chown(place, 54321, 54321)
    log = attack(place, bus, 54321, python)
    assert "jobs run" not in log


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, which has uids to give")
def test_jobs_of_a_daemon_that_is_root_are_another_user_s(place, bus):
    """And so is what is written of them; what they find in the store is root's, and trusted all the same."""
    python = proc.interpreter_for(54321)
    if python is None:
        pytest.skip("no interpreter that an unprivileged user may execute")
    store, packages = place / "store", proc.packages()
    uids = "1234567000-1234567009"
    with daemons.daemon(store, "--job-uids", uids, python=python, extra={**packages, "NBCACHE_LOG": "debug"}) as daemon:
        (place / "base.py").write_text("from numba import njit\n@njit\ndef g(x):\n    return x + 1\n")
        (place / "base-main.py").write_text("import base\nprint(base.g(1))\n")
        (place / "top.py").write_text(
            "import sys, os\nprint('uid', os.getuid(), file=sys.stderr)\nfrom base import g\n"
            "from numba import njit\n@njit\ndef f(x):\n    return g(x) + 1\n"
        )
        (place / "top-main.py").write_text("import top\nprint(top.f(1))\n")
        for name, expected in (("base", "2\n"), ("top", "3\n")):
            outcome = proc.run([place / f"{name}-main.py"], store, {**PATIENT, **packages}, python=python)
            assert (outcome.stdout, outcome.status) == (expected, 0), outcome.stderr
        daemon.says("built top:f")
        # What a job says comes by a pipe of its own, and what a daemon says of itself with its next sign of life.
        daemon.says("hit: base:g")
        daemons.wait_for(lambda: "uid 1234567000" in report(daemon), lambda: daemon.log)
        daemons.wait_for(lambda: daemon.heartbeat().get("confined"), lambda: daemon.log)
        status = proc.run(["-m", "nbcache", "status"], store)
        assert "as uid 1234567000" in status.stdout
        assert "in namespaces" in status.stdout
        assert daemon.stop() == 0
    shown = proc.run(["-m", "nbcache", "ls", "--json"], store)
    (key,) = [row["key"] for row in json.loads(shown.stdout) if row["function"] == "top:f"]
    (found,) = json.loads(proc.run(["-m", "nbcache", "show", "--json", key], store).stdout)["entries"]
    origin = found["extra"]
    assert (origin["asked"], origin["built"], origin["for"]) == (0, 1_234_567_000, key)
    (log,) = (place / "store-one.state").glob("*/audit.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["built"] for line in lines if line["key"] == key] == [1_234_567_000]
    assert log.stat().st_mode & 0o777 == 0o600


# -- where there are no namespaces -----------------------------------------------------------------


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: becomes another user")
def test_a_job_without_namespaces_writes_nothing_but_its_scratch(place, bus):
    """The kernel denies namespaces to an ordinary user's daemon; Landlock does what they would do."""
    script, python = denials.with_users(place, user=54321)
    os.chown(place, 54321, 54321)
    log = attack(place, bus, 54321, python, script, but="key")
    assert "jobs run as the daemon's uid, without namespaces, under Landlock (" in log
    assert not os.path.exists("/tmp/nbcache-escaped")


@pytest.mark.long
@pytest.mark.skipif(os.getuid() != 0, reason="needs root, which has uids to give")
def test_another_uid_alone_keeps_jobs_out_of_the_store(place, bus):
    """The kernel denies namespaces and Landlock: jobs are another user's, who may write nothing of the daemon's."""
    store, seconds = place / "store", f"{60000 + os.getpid()}"
    script, python = denials.with_users(place, landlock=False)
    packages = proc.packages()
    with daemons.daemon(store, python=script, extra=packages) as daemon:
        asker = {"python": python}
        main, expected = write(place, "good")
        assert proc.run([main], store, {**PATIENT, **packages}, **asker).stdout == expected
        assert re.search("jobs run as uid 19000000.., without namespaces", daemon.log), daemon.log
        (victim,) = (str(path) for path in store.glob("v1/objects/*/*.nbo") if b'"good:f"' in path.read_bytes())
        # The lease goes after the answer.
        daemon.says("built good:f")
        daemon.settle()
        kept = tree(store)
        does = ATTACK.format(
            store=str(store), state=str(daemon.log_path.with_suffix(".state")), victim=victim,
            daemon=daemon.process.pid, bus=bus, disk="", port=1, key=victim,
        )  # fmt: skip
        # What only namespaces can keep it from, and what is open to everybody by intention.
        open_to_all = ("tmp", "socket", "datagram", "zygote", "request", "beside", "disk", "network", "key")
        does = "\n".join(
            line
            for line in does.splitlines()
            if not line.startswith(tuple(f'attempt("{name}"' for name in open_to_all))
        )
        main, expected = write(place, "attacker", does + ESCAPES.format(seconds=seconds), k=7)
        outcome = proc.run([main], store, {**PATIENT, **packages}, **asker)
        assert (outcome.stdout, outcome.status) == (expected, 0), outcome.stderr
        daemon.says("built attacker:f")
        daemon.says("scratch fine")
        now = tree(store)
        assert {name: now.get(name) for name in kept if "objects" in name or "leases" in name} == {
            name: content for name, content in kept.items() if "objects" in name or "leases" in name
        }
        said = report(daemon)
        assert not [line for line in said if "SUCCEEDS" in line], said
        assert {"entry fails: PermissionError", "kill fails: PermissionError"} <= said
        daemons.wait_for(lambda: not processes(seconds), lambda: str(processes(seconds)))
        daemons.wait_for(lambda: daemon.heartbeat().get("confined"), lambda: daemon.log)
        status = proc.run(["-m", "nbcache", "status"], store)
        assert "without namespaces" in status.stdout
        assert daemon.stop() == 0


# -- before anything is judged ---------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.skipif(os.getuid() != 0, reason="needs root: changes owners")
@pytest.mark.parametrize("stranger", [False, True])
def test_packages_that_an_interpreter_imports_by_itself(place, stranger):
    """`site` imports what .pth files name, before any job: judged by then, all the same."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place / "venv"], check=True)
    (packages,) = (place / "venv").glob("lib/python3*/site-packages")
    (packages / "helper.py").write_text("import sys\nprint('the helper runs', file=sys.stderr)\n")
    (packages / "helper.pth").write_text("import helper\n")
    if stranger:
        os.chown(packages / "helper.py", 4321, 4321)
    store, extra = place / "store", proc.packages()
    with daemons.daemon(store, extra=extra) as daemon:
        main, expected = write(place, "good")
        outcome = proc.run([main], store, {**PATIENT, **extra}, python=str(place / "venv/bin/python"))
        assert (outcome.stdout, outcome.status) == (expected, 0), outcome.stderr
        daemon.says("built good:f")
        assert ("an interpreter says: the helper runs" in daemon.log) is not stranger
        assert ("the module helper is owned by uid 4321" in daemon.log) is stranger
        assert daemon.stop() == 0


FORGERY = """
from nbcache.daemon import job_side
from nbcache.store import entry
with open({victim!r}, "rb") as file:
    found = entry.parse(file.read())
sections = {{name: found.section(name) for name in found.section_sizes}}
def hand_in(**changes):
    header = found.header._replace(extra={{"asked": 0, "built": 0, "host": "trustworthy"}}, **changes)
    done = job_side.HandingStore({store!r}, job_side.rule(), writable=True).publish(header, sections)
    print("forgery:", done.ok, done.reason, file=sys.stderr)
hand_in(build="forged")
for number in range(10):
    hand_in(guard=f"forged {{number}}")
job_side._current.link.say({{"result": None}})
import os
if os.fork() == 0:
    try:
        hand_in(build="by a child")
    finally:
        os._exit(0)
os.wait()
"""


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: becomes another user")
def test_what_one_user_asks_for_replaces_nothing_of_another_s(place):
    """A trusted user's job hands in what it likes for a function of somebody else's."""
    python = proc.interpreter_for(54321)
    if python is None:
        pytest.skip("no interpreter that an unprivileged user may execute")
    store, packages = place / "store", proc.packages()
    theirs = place / "theirs"
    theirs.mkdir()
    os.chown(theirs, 54321, 54321)
    with daemons.daemon(store, python=python, extra={**packages, "NBCACHE_TRUSTED_UIDS": "54321"}) as daemon:
        good, expected = write(place, "good")
        assert proc.run([good], store, {**PATIENT, **packages}, python=python).stdout == expected
        (victim,) = (path for path in store.glob("v1/objects/*/*.nbo") if b'"good:f"' in path.read_bytes())
        before = victim.read_bytes()
        main, _ = write(theirs, "forger", FORGERY.format(victim=str(victim), store=str(store)), k=7)
        asker = {"python": python, "user": 54321}
        assert proc.run([main], store, {**PATIENT, **packages}, **asker).stdout == "8\n"
        # Beside it, for that user alone: as many as there is room for.
        beside = ["True published"] * 8 + ["False there is no room for another variant"] * 2
        only_the_job = "it can't be handed in: only the job itself may do that, and not what it started"
        daemon.says(only_the_job)
        said = [line.split("forgery: ")[1] for line in daemon.log.splitlines() if "forgery: " in line]
        assert said == ["True already there", *beside, f"False {only_the_job}"]
        assert victim.read_bytes() == before
        outcome = proc.run([good], store, {**PATIENT, **packages, "NBCACHE_LOG": "debug"}, python=python)
        assert outcome.stdout == expected
        assert "hit: good:f" in outcome.stderr
        logs = sorted((place / "store-one.state").glob("*/audit*.jsonl"), reverse=True)
        lines = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
        added = [line for line in lines if line["event"] == "published" and line["function"] == "good:f"]
        assert [line["asked"] for line in added] == [0] + [54321] * 8
        assert len({line["key"] for line in added}) == 2
        assert {line["host"] for line in lines} == {os.uname().nodename}
        assert 54321 in {line["asked"] for line in lines}
        shown = json.loads(proc.run(["-m", "nbcache", "show", "--json", added[0]["key"]], store).stdout)["entries"]
        assert [each["extra"]["asked"] for each in shown] == [0]
        assert daemon.stop() == 0


LIES = {
    "crashes": "os._exit(3)",
    "says that it fails": "from nbcache.daemon import job_side\n    "
    "job_side._current.link.say({'result': ['function', 'it does not compile']})\n    os._exit(0)",
    "says that it is done": "from nbcache.daemon import job_side\n    job_side._current.link.say({'result': None})\n    os._exit(0)",
}


@pytest.mark.long
@pytest.mark.skipif(os.getuid() != 0, reason="needs root: becomes two other users")
@pytest.mark.parametrize("how", LIES)
def test_two_users_requests_for_one_key(place, how):
    """The one's job can't answer for the other's, nor keep him from asking: a key is nobody's own."""
    python = proc.interpreter_for(54321)
    if python is None:
        pytest.skip("no interpreter that an unprivileged user may execute")
    store, packages = place / "store", proc.packages()
    main, expected = write(place, "good")
    # What the other one asks for under the same key, from a module of his own.
    bad = place / "bad"
    bad.mkdir()
    (bad / "good.py").write_text(f"import os, sys\nif not sys.argv[0].endswith('main.py'):\n    {LIES[how]}\n")
    for path in (bad, bad / "good.py"):
        os.chown(path, 54322, 54322)
    warm = place / "list"
    assert proc.run([main], place / "elsewhere", {"NBCACHE_RECORD": str(warm), **packages}, python=python).status == 0
    lines = [requests.read(line) for line in warm.read_bytes().splitlines()]
    trusted = {"NBCACHE_TRUSTED_UIDS": "54321,54322"}
    with daemons.daemon(store, "--workers", "1", python=python, extra={**packages, **trusted}) as daemon:

        def ask_as_other():
            return [spool.submit(str(store), each._replace(path=(str(bad), *each.path))) for each in lines]

        for _ in range(2):
            paths = users.become(ask_as_other, 54322, 54322)
            assert all(paths)
            if _ == 0:
                # Before: his failure is on record by then.
                daemons.wait_for(lambda paths=paths: not any(map(os.path.exists, paths)), lambda: daemon.log)
        outcome = proc.run([main], store, {**PATIENT, **packages}, python=python, user=54321)
        assert outcome.stdout == expected, outcome.stderr
        assert "is not asked for" not in outcome.stderr
        assert "was not built" not in outcome.stderr
        daemon.says("built good:f")
        daemons.wait_for(lambda: not daemons.spool(store))
        assert daemon.stop() == 0


@pytest.mark.long
@pytest.mark.skipif(os.getuid() != 0, reason="needs root, which has uids to give")
def test_a_store_that_jobs_may_not_read(place):
    """With umask 077, root's store is for root alone: what jobs of another uid build goes into it all the same."""
    python = proc.interpreter_for(54321)
    if python is None:
        pytest.skip("no interpreter that an unprivileged user may execute")
    store, packages = place / "store", proc.packages()
    with daemons.daemon(store, python=python, extra={**packages, "NBCACHE_UMASK": "077"}) as daemon:
        main, expected = write(place, "good")
        outcome = proc.run([main], store, {**PATIENT, **packages}, python=python)
        assert (outcome.stdout, outcome.status) == (expected, 0), outcome.stderr
        daemon.says("built good:f")
        assert (store / "v1/objects").stat().st_mode & 0o777 == 0o700
        assert daemon.stop() == 0


@pytest.mark.long
def test_a_job_that_says_it_was_done_and_wasn_t(place):
    store = place / "store"
    lie = "from nbcache.daemon import job_side\njob_side._current.link.say({'result': None})\nimport os\nos._exit(0)"
    with daemons.daemon(store) as daemon:
        ask(place, store, "liar", lie)
        assert "built liar:f" not in daemon.log, daemon.log
        daemon.says("could not build liar:f (int64): it was compiled and could not be published")
        served(place, daemon, "after")
        assert daemon.stop() == 0
