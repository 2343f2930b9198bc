"""Many processes at once on one store: each signature is built once, killed ones leave nothing behind."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from nbtest import proc, programs, usage

SIGNATURES = 12
SIZES = [4, pytest.param(16, marks=pytest.mark.long)]
BOUND = 900  # [s] what hangs takes longer, on any machine


def prepare(place: Path) -> Path:
    """Write the program; return its main file."""
    (place / "work.py").write_text(programs.functions(SIGNATURES))
    main = place / "main.py"
    main.write_text(programs.caller("work", gate=True))
    return main


PATIENCE = {"NBCACHE_ON_MISS": "wait", "NBCACHE_WAIT_SECONDS": "600", "NBCACHE_WAIT_BUDGET": "3600"}
"""On a crowded machine whoever builds may not be seen to get on, and by default nobody waits for such a one for long."""


def start_all(main: Path, store: Path, count: int, **extra: str) -> list[subprocess.Popen[str]]:
    """Start processes and let all of them go at the same moment, with Numba imported."""
    go = main.with_name("go")
    go.unlink(missing_ok=True)
    processes = [proc.start([main, go], store, extra) for _ in range(count)]
    for process in processes:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
    go.touch()
    return processes


def oracle(main: Path) -> str:
    """Return what plain Numba prints, without the line that says ready."""
    main.with_name("go").touch()
    outcome = proc.run([main, main.with_name("go")])
    assert outcome.status == 0, outcome.stderr
    return outcome.stdout.partition("\n")[2]


def warm_builds(main: Path, store: Path) -> list[str]:
    """Run once more; return the functions it still had to build."""
    before = usage.read(store)
    outcome = proc.run([main, main.with_name("go")], store)
    assert outcome.status == 0, outcome.stderr
    after = usage.read(store).since(before)
    assert sum(after.hits.values()) >= SIGNATURES
    return [after.functions[key] for key in after.builds]


@pytest.mark.parametrize("count", SIZES)
def test_each_signature_is_built_once(place: Path, count: int) -> None:
    main, store = prepare(place), place / "store"
    expected = oracle(main)
    outcomes = [proc.finish(process, BOUND) for process in start_all(main, store, count, **PATIENCE)]
    assert [outcome.stdout for outcome in outcomes] == [expected] * count
    assert [outcome.stderr for outcome in outcomes] == [""] * count
    seen = usage.read(store)
    assert seen.processes == count
    assert set(seen.builds_in("work").values()) == {1}, seen.built_twice
    assert len(seen.builds_in("work")) == SIGNATURES
    assert sum(seen.hits.values()) >= (count - 1) * SIGNATURES
    proc.verify(store)


def killing_round(place: Path, seed: int, count: int) -> None:
    """Start all, kill most at random moments, look at who is left."""
    rng = random.Random(seed)
    main, store = prepare(place), place / f"store-{seed}"
    expected = oracle(main)
    processes = start_all(main, store, count)
    victims = rng.sample(processes, count * 5 // 8)
    for victim in victims:
        time.sleep(rng.uniform(0, 0.4))
        victim.send_signal(signal.SIGKILL)
    survivors = [process for process in processes if process not in victims]
    outcomes = [proc.finish(process, BOUND) for process in survivors]
    for victim in victims:
        victim.communicate()
    assert [outcome.stdout for outcome in outcomes] == [expected] * len(survivors)
    assert {outcome.status for outcome in outcomes} == {0}
    proc.verify(store)
    assert warm_builds(main, store) == []


@pytest.mark.long
def test_killed_processes_leave_nothing_behind(place: Path) -> None:
    killing_round(place, 1, 8)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(2, 8))
def test_killed_processes_leave_nothing_behind_again_and_again(place: Path, seed: int) -> None:
    killing_round(place, seed, 16)


@pytest.mark.long
def test_a_process_stopped_while_it_compiles_is_not_waited_for_forever(place: Path) -> None:
    """SIGSTOP, as a hung NFS mount or a debugger would: it keeps its lease and does nothing."""
    main, store = prepare(place), place / "store"
    expected = oracle(main)
    processes = start_all(main, store, 4)
    time.sleep(0.5)
    processes[0].send_signal(signal.SIGSTOP)
    try:
        outcomes = [proc.finish(process, BOUND) for process in processes[1:]]
    finally:
        processes[0].send_signal(signal.SIGCONT)
    assert [outcome.stdout for outcome in outcomes] == [expected] * 3
    assert proc.finish(processes[0], BOUND).stdout == expected
    proc.verify(store)
