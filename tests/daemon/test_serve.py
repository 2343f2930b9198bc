"""Clients and a daemon, each a process: what is asked for is built once, by the daemon; and what is not, and why."""

from __future__ import annotations

import os
import re
from contextlib import suppress

import pytest
from nbtest import daemons, proc, programs, usage
from nbtest.kinds import LIB, MAIN


def write(place, **files):
    for name, text in files.items():
        (place / f"{name}.py").write_text(text)
    return place / "main.py"


def client(main, store, **extra):
    return proc.run([main], store, {**daemons.WAITING, **extra})


def built(store):
    """Functions by how often they were built; by clients (whose records say so) and by workers alike."""
    return usage.read(store).builds


def test_the_first_client_builds_nothing_and_the_second_hits(place):
    main, store = write(place, lib=LIB, main=MAIN), place / "store"
    expected = proc.run([main])
    assert expected.status == 0, expected.stderr
    with daemons.daemon(store) as daemon:
        before = None
        for _ in range(2):
            outcome = client(main, store)
            assert outcome.said == expected.said, outcome.stderr
            assert not re.search("can't be asked|not built|no answer", outcome.stderr), outcome.stderr
            daemon.settle()
            seen = usage.read(store)
            if before is not None:
                assert not seen.since(before).builds
                assert not seen.since(before).misses
            before = seen
        assert set(before.builds.values()) == {1}, before.built_twice
        assert not daemons.spool(store)
        assert not daemons.failures(store)
        assert daemon.stop() == 0
    assert daemon.log.count("INFO built lib:f (int64)") == 1
    builders = {record["pid"] for record in usage.records(store) if record["builds"]}
    clients = {record["pid"] for record in usage.records(store) if record["argv0"].endswith("main.py")}
    assert len(clients) == 2
    assert not builders & clients


def test_a_function_that_changed_meanwhile_is_refused_with_the_component(place):
    """The worker computes the key from what it finds, and that is another value than the client has."""
    main = write(place, lib=LIB, main="import lib\nlib.K = 4\nprint(lib.f(1))\n")
    store = place / "store"
    with daemons.daemon(store):
        outcome = client(main, store)
    assert outcome.stdout == "50\n"
    (failure,) = daemons.failures(store)
    assert failure["function"] == "lib:f"
    assert "K: 4 → 3" in failure["reason"]
    assert failure["reason"] in outcome.stderr


@pytest.mark.long
def test_without_a_daemon_nobody_waits(place):
    main, store = write(place, lib=LIB, main="import lib\nprint(lib.f(1))\n"), place / "store"
    for state in ("none", "killed", "silent"):
        if state == "killed":
            running = daemons.Daemon(store)
            running.kill()
        if state == "silent":
            heartbeat = store / "v1/daemon/one.json"
            # As on another host, where nobody can tell that its process is gone.
            old = re.sub('"place": "[^"]*"', '"place": "elsewhere"', heartbeat.read_text())
            heartbeat.write_text(re.sub('"beat": [0-9.]*', '"beat": 1.0', old))
            os.utime(heartbeat, (1, 1))
        outcome = client(main, store, NBCACHE_WAIT_SECONDS="3600")
        assert outcome.stdout == "40\n"
        assert not daemons.spool(store)


def test_a_hung_daemon_costs_no_more_than_the_bound(place):
    main, store = write(place, lib=LIB, main="import lib\nprint(lib.f(1))\n"), place / "store"
    with daemons.daemon(store) as daemon, daemons.hung(daemon):
        outcome = client(main, store, NBCACHE_WAIT_SECONDS="2")
    assert outcome.stdout == "40\n"
    assert "no daemon answered in time" in outcome.stderr


@pytest.mark.long
def test_a_daemon_that_has_built_nothing_yet_gets_ready_and_is_not_waited_for(place):
    main, store = write(place, lib=LIB, main="import lib\nprint(lib.f(1))\n"), place / "store"
    with daemons.daemon(store) as daemon, daemons.hung(daemon):
        outcome = proc.run([main], store, {"NBCACHE_LOG": "info"})
        [_request] = daemons.spool(store)
    assert outcome.stdout == "40\n"
    assert "the daemon that was asked has built nothing yet" in outcome.stderr
    assert "waiting for a daemon" not in outcome.stderr


@pytest.mark.long
def test_a_daemon_gets_ready_though_what_it_was_asked_for_is_compiled_by_who_asked(place):
    main, store = write(place, lib=LIB, main="import lib\nprint(lib.f(1))\n"), place / "store"
    asked = {"NBCACHE_LOG": "info"}
    with daemons.daemon(store) as daemon:
        first = proc.run([main], store, asked)
        assert "has built nothing yet" in first.stderr
        daemons.wait_for(lambda: daemon.heartbeat()["finished"] > 0)
        write(place, lib=LIB.replace("K = 3", "K = 4"))
        second = proc.run([main], store, asked)
    assert second.stdout == "50\n"
    assert "has built nothing yet" not in second.stderr


POISON = {
    "segfaults": "import ctypes\nctypes.string_at(1)\n",
    "never_ends": "import time\nwhile True:\n    time.sleep(1)\n",
    "eats_memory": "x = []\nwhile True:\n    x.append(bytearray(1 << 26))\n",
}
"""What a module does when a worker imports it; the client's own import does not."""


REASONS = {"segfaults": "killed by sigsegv", "never_ends": "longer than 20 s", "eats_memory": "memory"}


def poisoned(place, name):
    """Write a module that no worker survives, and a program that calls its function."""
    action = POISON[name].replace("\n", "\n    ").rstrip()
    text = f"import sys\nif not sys.argv[0].endswith('main.py'):\n    {action}\nfrom numba import njit\n"
    (place / f"{name}.py").write_text(f"{text}@njit\ndef f(x):\n    return x + {len(name)}\n")
    main = place / f"{name}-main.py"
    main.write_text(f"import {name}\nprint({name}.f(1))\n")
    return main, f"{1 + len(name)}\n"


@pytest.mark.long
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(list(POISON), id="all"),
        *(pytest.param([name], id=name) for name in POISON),
    ],
)
def test_poison_is_told_and_does_not_spread(place, names):
    good = 8
    (place / "good.py").write_text(programs.functions(good))
    main, store = write(place, main=programs.caller("good")), place / "store"
    expected = proc.run([main])
    poison = {name: poisoned(place, name) for name in names}
    with daemons.daemon(store, "--workers", "2", "--job-seconds", "20", "--job-memory", "500MiB") as daemon:
        tasters = [proc.start([program], store, daemons.WAITING) for program, _ in poison.values()]
        daemons.wait_for(lambda: daemon.heartbeat().get("busy"), lambda: daemon.log)
        others = [proc.start([main], store, daemons.WAITING) for _ in range(2)]
        for each in others:
            outcome = proc.finish(each)
            assert outcome.said == expected.said, outcome.stderr
            assert not re.search("can't be asked|not built|no answer", outcome.stderr), outcome.stderr
        firsts = [proc.finish(each) for each in tasters]
        assert [outcome.stdout for outcome in firsts] == [said for _, said in poison.values()], daemon.log
        reasons = {failure["function"].partition(":")[0]: failure["reason"] for failure in daemons.failures(store)}
        assert reasons.keys() == poison.keys(), daemon.log
        for name, first in zip(names, firsts, strict=True):
            assert REASONS[name] in reasons[name].lower()
            assert f"was not built by the daemon: {reasons[name]}" in first.stderr
            second = client(poison[name][0], store, NBCACHE_WAIT_SECONDS="3600")
            assert second.stdout == poison[name][1]
            assert second.stderr.count("is not requested") == 1
        assert not daemons.spool(store)
        assert daemon.stop() == 0
    built = usage.read(store).builds_in("good")
    assert (len(built), set(built.values())) == (good, {1})


def test_killed_in_mid_job_and_started_again_it_answers(place):
    """Whether whoever asked sees that nobody is there for a while, and goes on, is up to the machine: it stores nothing."""
    gate, store = place / "gate", place / "store"
    # One function alone: what a client that has gone on needs besides, it asks nobody for while nobody is there.
    text = "from numba import njit\n@njit\ndef f(x):\n    return x * 10 + 30\n"
    main = write(place, lib=programs.held_back(gate) + text, main="import lib\nprint(lib.f(1))\n")
    daemon = daemons.Daemon(store)
    waiting = proc.start([main], store, daemons.WAITING)
    daemons.wait_for(lambda: daemon.heartbeat().get("busy"), lambda: daemon.log)
    daemon.kill()
    assert daemons.spool(store)
    assert not list(store.glob("v1/objects/*/*.nbo"))
    gate.touch()
    with daemons.daemon(store) as again:
        outcome = proc.finish(waiting)
        assert outcome.stdout == "40\n", outcome.stderr
        again.settle()
        assert not daemons.failures(store)
        before = usage.read(store)
        assert client(main, store).stdout == "40\n"
        seen = usage.read(store).since(before)
        assert seen.hits
        assert not seen.builds
        assert again.stop() == 0
    proc.verify(store)


@pytest.mark.long
def test_stopping_leaves_requests_and_does_not_wait_for_jobs(place):
    store = place / "store"
    main = write(place, lib=programs.held_back(place / "never") + LIB, main="import lib\nprint(lib.f(1))\n")
    with daemons.daemon(store) as daemon:
        waiting = proc.start([main], store, daemons.WAITING)
        daemons.wait_for(lambda: daemon.heartbeat().get("busy"), lambda: daemon.log)
        assert daemon.stop() == 0
        assert len(daemons.spool(store)) == 1
        outcome = proc.finish(waiting)
    assert outcome.stdout == "40\n"
    assert not daemon.heartbeat()


@pytest.mark.long
def test_two_daemons_share_a_store(place):
    (place / "work.py").write_text(programs.functions(12))
    main, store = write(place, main=programs.caller("work")), place / "store"
    expected = proc.run([main])
    with (
        daemons.daemon(store, "--workers", "1", name="one") as one,
        daemons.daemon(store, "--workers", "1", name="two") as two,
    ):
        clients = [proc.start([main], store, daemons.WAITING) for _ in range(4)]
        outcomes = [proc.finish(each) for each in clients]
        # What a job used is written down after its entry, which is all that a client needs.
        for each in (one, two):
            each.settle()
    assert [outcome.said for outcome in outcomes] == [expected.said] * 4
    seen = usage.read(store)
    mine = seen.builds_in("work")
    assert set(mine.values()) == {1}, seen.built_twice
    assert len(mine) == 12


@pytest.mark.long
@pytest.mark.parametrize("change", ["NUMBA_OPT", "NUMBA_BOUNDSCHECK"])
def test_numba_settings_of_the_client_are_the_worker_s(place, change):
    main, store = write(place, lib=LIB, main="import lib\nprint(lib.f(1))\n"), place / "store"
    with daemons.daemon(store):
        outcome = client(main, store, **{change: "1"})
        assert outcome.stdout == "40\n"
        assert not daemons.failures(store)
        assert not [
            record for record in usage.records(store) if record["argv0"].endswith("main.py") and record["builds"]
        ]


@pytest.mark.long
def test_the_service_manager_is_told(place):
    """A real socket: ready once it serves, alive all the time, reloading and ready again, stopping."""
    import queue
    import signal
    import socket
    import threading

    main, store = write(place, lib=LIB, main="import lib\nprint(lib.f(1))\n"), place / "store"
    told = queue.SimpleQueue()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(place / "notify"))

        def read():
            # Without a pause, as a service manager does: the socket holds ten messages, and further ones are lost.
            while message := manager.recv(4096):
                told.put(message.decode().splitlines())

        def until(line):
            """The lines of the next message with this one."""
            while True:
                lines = told.get(timeout=daemons.MUCH)
                if line in lines:
                    return lines

        reader = threading.Thread(target=read)
        reader.start()
        extra = {"NOTIFY_SOCKET": str(place / "notify"), "WATCHDOG_USEC": "30000000"}
        try:
            with daemons.daemon(store, extra=extra) as daemon:
                assert f"STATUS=serving {store}" in until("READY=1")
                until("WATCHDOG=1")
                daemon.process.send_signal(signal.SIGHUP)
                assert any(each.startswith("MONOTONIC_USEC=") for each in until("RELOADING=1"))
                until("READY=1")
                outcome = client(main, store)
                assert outcome.stdout == "40\n"
                assert "not built" not in outcome.stderr
                assert daemon.stop() == 0
                until("STOPPING=1")
        finally:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
                last.sendto(b"", str(place / "notify"))
            reader.join()


@pytest.mark.long
def test_status_tells_of_daemons_jobs_and_failures(place):
    import json

    main = write(place, lib=LIB, main="import lib\nprint(lib.f(1))\nlib.K = 4\nprint(lib.f(1.5))\n")
    store = place / "store"

    def status():
        done = proc.run(["-m", "nbcache", "status", "--json"], store)
        assert done.status == 0, done.stderr
        return json.loads(done.stdout)

    def told():
        """What is said once the daemon's last sign of life is of after both jobs."""
        now = status()
        (daemon,) = now["daemons"]
        return daemon["entries"] and len(daemon["jobs"]) > 1 and not daemon["queue"] and now

    with daemons.daemon(store, "--workers", "3"):
        assert client(main, store).status == 0
        said = daemons.wait_for(told)
        (daemon,) = said["daemons"]
        assert (daemon["alive"], daemon["workers"], daemon["queue"]) == (True, 3, 0)
        assert daemon["size"] > 1000
        outcomes = {what.split(" ")[0] + what[what.index("(") :]: how for what, _when, _seconds, how in daemon["jobs"]}
        assert outcomes["lib:f(int64)"] == "built"
        assert "K: 4 → 3" in outcomes["lib:f(float64)"]
        assert [failure["signature"] for failure in said["failures"]] == ["(float64)"]
        text = proc.run(["-m", "nbcache", "status"], store).stdout
        assert "alive" in text
        assert "K: 4 → 3" in text
    silent = proc.run(["-m", "nbcache", "status"], store).stdout
    assert "silent for" in silent


@pytest.mark.long
def test_the_daemon_keeps_the_store_within_its_limit(place):
    (place / "work.py").write_text(programs.functions(12))
    main, store = write(place, main=programs.caller("work")), place / "store"
    assert proc.run([main], store).status == 0
    entries = list(store.glob("v1/objects/*/*.nbo"))
    size = sum(path.stat().st_size for path in entries)
    with daemons.daemon(store, extra={"NBCACHE_MAX_SIZE": str(size // 2)}) as daemon:
        daemon.says("evicted")

        def left():
            with suppress(FileNotFoundError):  # gone since it was listed
                return sum(path.stat().st_size for path in store.glob("v1/objects/*/*.nbo"))
            return size

        # On a slow disk, a turn of it isn't all.
        daemons.wait_for(lambda: left() <= size // 2, lambda: daemon.log)
        assert proc.run([main], store).status == 0


EXTENDING = """
import numba
from numba import types
from numba.extending import lower_builtin, overload, overload_method, type_callable

def own(x): ...
@overload(own)
def _own(x):
    return lambda x: x + 1

def lowered(x): return x + 2
@type_callable(lowered)
def _type(context):
    return lambda x: x
@lower_builtin(lowered, types.Integer)
def _lower(context, builder, sig, args):
    return builder.add(args[0], context.get_constant(sig.args[0], 2))

@overload_method(types.Array, "plus")
def _plus(a, n):
    return lambda a, n: a.sum() + n

@numba.njit
def f(x): return own(x)
@numba.njit
def g(x): return lowered(x)
@numba.njit
def h(a): return a.plus(3)
"""


def test_what_a_module_registers_counts_for_a_daemon_as_for_its_clients(place):
    """A daemon's interpreter has read what is registered before the module comes: it is registered no later for that."""
    main = write(place, ext=EXTENDING, main="import ext, numpy\nprint(ext.f(1), ext.g(1), ext.h(numpy.ones(3)))\n")
    store = place / "store"
    with daemons.daemon(store) as daemon:
        for _ in range(2):
            outcome = client(main, store, NBCACHE_LOG="info")
            assert outcome.stdout == "2 3 6.0\n", outcome.stderr
            assert "skipped" not in outcome.stderr, outcome.stderr
        daemon.settle()
        assert {name.split("(")[0] for name in re.findall("INFO built (.*)", daemon.log)} >= {
            "ext:f ",
            "ext:g ",
            "ext:h ",
        }
    clients = [record for record in usage.records(store) if record["argv0"].endswith("main.py")]
    assert not any(record["builds"] for record in clients)
