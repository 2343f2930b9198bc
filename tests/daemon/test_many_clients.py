"""Many clients that can't write, one or two daemons, and some of those killed: each signature once, nobody stuck."""

from __future__ import annotations

import random
import signal
import statistics
import time

import pytest
from nbtest import daemons, proc, programs, usage

from nbcache.store import entry

BOUND = 900  # [s] what hangs takes longer, on any machine
MAIN = """
import os, sys, time
from work import ALL
print("ready", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.002)
for function in ALL:
    started = time.perf_counter()
    print(function.__name__, repr(function(3)))
    print("waited", time.perf_counter() - started, file=sys.stderr)
"""
SIZES = [
    pytest.param(3, 6, id="3x6"),
    pytest.param(4, 12, id="4x12", marks=pytest.mark.long),
    pytest.param(32, 50, id="32x50", marks=pytest.mark.long),
]


def prepare(place, signatures, before=""):
    (place / "work.py").write_text(before + programs.functions(signatures))
    main = place / "main.py"
    main.write_text(MAIN)
    (place / "go").touch()
    expected = proc.run([main, place / "go"])
    assert expected.status == 0, expected.stderr
    (place / "go").unlink()
    return main, expected.stdout


def start_all(main, store, count, **extra):
    """Start clients and let all of them go at the same moment."""
    go = main.with_name("go")
    clients = [proc.start([main, go], store, {**daemons.WAITING, **extra}) for _ in range(count)]
    for client in clients:
        assert client.stdout.readline() == "ready\n", client.stderr.read()
    go.touch()
    return clients


def finished(clients, expected, capsys):
    """Let all of them end, compare what they say, and print how long they waited."""
    outcomes = [proc.finish(client, BOUND) for client in clients]
    for outcome in outcomes:
        assert f"ready\n{outcome.stdout}" == expected, outcome.stderr
    waited = sorted(
        float(line.split()[1]) for each in outcomes for line in each.stderr.splitlines() if line.startswith("waited")
    )
    with capsys.disabled():
        median, p95 = statistics.median(waited), waited[int(len(waited) * 0.95)]
        print(f"\n{len(clients)} clients, {len(waited)} first calls: median {median:.2f} s, p95 {p95:.2f} s")
    return outcomes


@pytest.mark.every(4)
@pytest.mark.parametrize(("clients", "signatures"), SIZES)
@pytest.mark.parametrize("count", [1, 2], ids=["one-daemon", "two-daemons"])
@pytest.mark.timeout(900)
def test_each_signature_is_built_once(place, capsys, clients, signatures, count):
    main, expected = prepare(place, signatures)
    store = place / "store"
    running = [daemons.Daemon(store, "--workers", "2", name=f"d{number}") for number in range(count)]
    try:
        outcomes = finished(start_all(main, store, clients), expected, capsys)
        assert not any("not built" in outcome.stderr for outcome in outcomes)
        # What a job used is written down after its entry, which is all that a client needs.
        for daemon in running:
            daemon.settle()
        built = usage.read(store).builds_in("work")
        assert set(built.values()) == {1}
        assert len(built) == signatures
        assert not daemons.spool(store)
        assert [daemon.stop() for daemon in running] == [0] * count
    finally:
        for daemon in running:
            if daemon.process.poll() is None:
                daemon.kill()
    proc.verify(store)


@pytest.mark.long
@pytest.mark.parametrize(("clients", "signatures"), SIZES)
@pytest.mark.timeout(900)
def test_one_of_two_daemons_is_killed_in_mid_job(place, capsys, clients, signatures):
    main, expected = prepare(place, signatures, programs.held_back(place / "gate"))
    store = place / "store"
    with (
        daemons.daemon(store, "--workers", "1", name="one") as one,
        daemons.daemon(store, "--workers", "1", name="other") as other,
    ):
        waiting = start_all(main, store, clients)
        # All of them ask for the same function first, which either builds, and goes on doing so until the gate opens.
        dies, stays = daemons.wait_for(
            lambda: (one.heartbeat().get("busy") and (one, other)) or (other.heartbeat().get("busy") and (other, one)),
            lambda: one.log + other.log,
        )
        dies.kill()
        (place / "gate").touch()
        finished(waiting, expected, capsys)
        stays.settle()
        assert stays.stop() == 0
    found = [entry.parse(path.read_bytes()).header.function for path in store.glob("v1/objects/*/*.nbo")]
    assert sum(each.startswith("work:") for each in found) == signatures
    built = usage.read(store).builds_in("work")
    # What the dead one was building was built again.
    assert sum(built.values()) <= signatures + 1
    proc.verify(store)


@pytest.mark.long
@pytest.mark.parametrize("kills", [3, 100])
@pytest.mark.timeout(3600)
def test_killed_again_and_again(place, capsys, kills):
    """No request is lost: each is answered by some daemon, if its client has gone on meanwhile or not."""
    rng = random.Random(5)
    signatures = 10 if kills < 10 else 60
    main, expected = prepare(place, signatures)
    store = place / "store"
    daemon = daemons.Daemon(store, "--workers", "2")
    clients = start_all(main, store, 3, NBCACHE_WAIT_SECONDS="3000")
    try:
        for _ in range(kills):
            time.sleep(rng.uniform(0.1, 2.5))
            daemon.process.send_signal(signal.SIGKILL)
            daemon.process.wait()
            daemon = daemons.Daemon(store, "--workers", "2")
        outcomes = finished(clients, expected, capsys)
        assert not any("no daemon answered in time" in outcome.stderr for outcome in outcomes)
        daemons.wait_for(lambda: not daemons.spool(store), lambda: daemon.log)
        assert daemon.stop() == 0
    finally:
        if daemon.process.poll() is None:
            daemon.kill()
    proc.verify(store)
    assert not daemons.failures(store)
    with daemons.daemon(store):
        (outcome,) = finished(start_all(main, store, 1), expected, capsys)
    assert "not built" not in outcome.stderr
