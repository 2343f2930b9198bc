"""Measure cold starts: a program with a profile of which everything is stale, one whose daemon has just started, many
jobs at once with an empty store, and the run after an edit that was saved.

    python tests/benchmarks/cold_starts.py [--repeat 3] [--functions 24] [--weight 16] [--jobs 30] [--only NAME]
    python tests/benchmarks/cold_starts.py --only cores [--keep docs/pictures/cold-starts.json]

The sides take turns, in fresh processes. Every row has the wall time of plain Numba and that of the other sides, and
what each is of plain's; medians, with the least and the greatest. Wants an idle machine with two processors; where
others use it as well, the ratios say more than the times.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

from nbbench import table  # noqa: E402
from nbtest import daemons, proc  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ARRAY_JOB = """
import numpy as np
from numba import njit, prange
@njit
def step(a):
    b = a.copy()
    for i in range(1, a.size - 1): b[i] = (a[i - 1] + a[i] + a[i + 1]) / 3
    return np.sort(b)
@njit(parallel=True)
def total(a):
    s = 0.0
    for i in prange(a.size): s += a[i] ** 2
    return s
@njit
def names(n): return ",".join([str(i) for i in range(n)])
a = np.arange(100.0)
print(total(step(a)), names(5))
"""
"""What each of many jobs runs."""


def generate(folder: Path, functions: int, weight: int) -> Path:
    """Write a module of so many functions, some of which call others, and a program that calls all; return that."""
    lines = ["import os", "import numpy as np", "from numba import njit"]
    jit = "@njit(cache=os.environ.get('BENCH_CACHE') == '1')"
    for at in range(functions):
        terms = (f"s += np.sqrt(x + {n}) * np.sin(x * {n + at}) if x > {n} else np.cos(x) - {n}" for n in range(weight))
        body = "\n    ".join(terms)
        lines.append(f"{jit}\ndef leaf{at}(x):\n    s = 0.0\n    {body}\n    return s")
    for at in range(0, functions, 4):
        calls = " + ".join(f"leaf{each}(x)" for each in range(at, min(functions, at + 4)))
        lines.append(f"{jit}\ndef middle{at}(x):\n    return {calls}")
    (folder / "heavy.py").write_text("\n".join(lines) + "\n")
    program = folder / "program.py"
    calls = "\n".join(f"print(heavy.middle{at}(1.5))" for at in range(0, functions, 4))
    program.write_text(f"import heavy\n{calls}\n")
    return program


OWN = "Numba's cache"


class Side:
    """One way to run the program."""

    def __init__(self, folder: Path, name: str, settings: dict[str, str], *, keeps_helper: bool = False) -> None:
        self.name = name
        self.settings = settings
        self.store = None if name in {"plain", OWN} else folder / f"store-{name.replace(' ', '-')}"
        self.keeps_helper = keeps_helper

    def make_stale(self) -> None:
        """Have the store hold nothing of use, and the profile be that of another toolchain."""
        if self.store is None:
            return
        if not self.keeps_helper:
            end_helper(self.store)
        shutil.rmtree(self.store / "v1/objects")
        (self.store / "v1/objects").mkdir(0o755)
        for path in self.store.glob("v1/profiles/*/*.jsonl"):
            path.write_text(path.read_text().replace('"toolchain":"numba', '"toolchain":"older numba', 1))

    def run(self, program: Path, before: list[str]) -> float:
        """Return how long the program took [s], started by *before*."""
        environment = proc.environment(self.store, self.settings)
        began = time.perf_counter()
        pid = os.posix_spawnp(
            (before or [sys.executable])[0],
            [*before, sys.executable, str(program)],
            environment,
            file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
        )
        status = os.waitpid(pid, 0)[1]
        took = time.perf_counter() - began
        assert status == 0, f"{self.name}: the program ended with status {status}"
        return took

    def builds(self) -> int:
        """How many functions were compiled so far, by programs and by their helpers."""
        found = proc.run(["-m", "nbcache", "stats", "--json", "--dir", self.store])
        return int(json.loads(found.stdout)["builds"])


def end_helper(store: Path) -> None:
    """End the helper of a store, if there is one."""
    for path in store.glob("v1/daemon/*-jobs-*.json"):
        with suppress(OSError, ValueError, KeyError):
            os.kill(json.loads(path.read_text())["pid"], signal.SIGTERM)
        path.unlink(missing_ok=True)


def measured(sides: list[Side], once: Callable[[Side], float], repeat: int) -> dict[str, list[float]]:
    """What each side took, in turns."""
    samples: dict[str, list[float]] = {side.name: [] for side in sides}
    for _ in range(repeat):
        for side in sides:
            samples[side.name].append(once(side))
    return samples


def show(title: str, samples: dict[str, list[float]]) -> None:
    """Print a row for each side."""
    plain = statistics.median(samples["plain"])
    print(title)
    for name, values in samples.items():
        median = statistics.median(values)
        print(f"  {name:28s} {median:7.1f} s ({min(values):.1f} to {max(values):.1f})   {median / plain:5.2f} of plain")
    sys.stdout.flush()


def cold(
    folder: Path, program: Path, repeat: int, sides: list[Side], before: Mapping[str, list[str]]
) -> dict[str, list[float]]:
    """A cold start with a profile and everything stale, on each side; *before* says by side what starts the program."""
    cached = [side for side in sides if side.store is not None]
    own = folder / "own"
    try:
        for side in cached:
            side.run(program, [])  # leaves a profile

        def once(side: Side) -> float:
            shutil.rmtree(own, ignore_errors=True)
            side.make_stale()
            return side.run(program, before.get(side.name, []))

        for side in cached:
            if side.keeps_helper:
                once(side)  # starts its helper
        return measured(sides, once, repeat)
    finally:
        for side in cached:
            end_helper(side.store or folder)


def stale(folder: Path, program: Path, repeat: int, before: list[str], title: str) -> None:
    """A cold start beside a new helper, one that is there, and none."""
    folder.mkdir()
    jobs = {"NBCACHE_JOBS": "auto"}
    sides = [
        Side(folder, "plain", {}),
        Side(folder, "alone", {}),
        Side(folder, "new helper", jobs),
        Side(folder, "helper that is there", jobs, keeps_helper=True),
    ]
    show(title, cold(folder, program, repeat, sides, {side.name: before for side in sides}))


def cores(folder: Path, program: Path, args: argparse.Namespace) -> None:
    """A cold start on 1, 2, 4 ... processors of this host; what is measured is kept."""
    folder.mkdir()
    processors = sorted(os.sched_getaffinity(0))
    own = Side(folder, OWN, {"BENCH_CACHE": "1", "NUMBA_CACHE_DIR": str(folder / "own")})
    sides, pinned = [Side(folder, "plain", {}), own], {}
    for count in (1 << power for power in range(len(processors).bit_length())):
        name = "1 processor" if count == 1 else f"{count} processors"
        sides.append(Side(folder, name, {"NBCACHE_JOBS": "auto"}))
        pinned[name] = ["taskset", "-c", ",".join(map(str, processors[:count]))]
    samples = cold(folder, program, args.repeat, sides, pinned)
    show("cold start, everything stale, by processors", samples)
    if args.keep is not None:
        medians = {name: round(statistics.median(values), 2) for name, values in samples.items()}
        functions = args.functions + len(range(0, args.functions, 4))
        figures = {"machine": table.machine(), "repeat": args.repeat, "functions": functions, "seconds": medians}
        args.keep.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def fresh(folder: Path, program: Path, repeat: int) -> None:
    """The first run of a program whose daemon has just started, with an empty store."""
    folder.mkdir()
    sides = [Side(folder, "plain", {}), Side(folder, "alone", {}), Side(folder, "fresh daemon", {})]

    def once(side: Side) -> float:
        if side.store is None:
            return side.run(program, [])
        shutil.rmtree(side.store, ignore_errors=True)
        if side.name == "alone":
            return side.run(program, [])
        with daemons.daemon(side.store):
            return side.run(program, [])

    show("first run with a fresh daemon, empty store", measured(sides, once, repeat))


def many(folder: Path, jobs: int, repeat: int) -> None:
    """Many jobs at once, with an empty store."""
    folder.mkdir()
    program = folder / "job.py"
    program.write_text(ARRAY_JOB)
    sides = [Side(folder, "plain", {}), Side(folder, "defaults", {})]

    def once(side: Side) -> float:
        if side.store is not None:
            shutil.rmtree(side.store, ignore_errors=True)
        began = time.perf_counter()
        running = [proc.start([program], side.store, side.settings) for _ in range(jobs)]
        outcomes = [proc.finish(each, 3600) for each in running]
        assert all(outcome.status == 0 for outcome in outcomes), outcomes
        return time.perf_counter() - began

    show(f"{jobs} jobs at once with an empty store", measured(sides, once, repeat))
    entries = len(list((sides[1].store or folder).glob("v1/objects/*/*.nbo")))
    print(f"  {sides[1].builds()} compilations for {entries} entries")


def saved(folder: Path, functions: int, weight: int) -> None:
    """An edit of one function, saved, and the run after it was built."""
    folder.mkdir()
    program, events = generate(folder, functions, weight), folder / "events"
    plain, side = Side(folder, "plain", {}), Side(folder, "saved", {"NBTEST_EVENTS": str(events)})
    assert side.store is not None
    side.run(program, [])
    events.unlink()
    with daemons.daemon(side.store, "--watch") as daemon:
        began = time.perf_counter()
        heavy = folder / "heavy.py"
        heavy.write_text(heavy.read_text().replace("s = 0.0", "s = 1.0", 1))
        daemon.says(" ready: ")
        ready = time.perf_counter() - began
        [said] = [line.partition(" ready: ")[2] for line in daemon.log.splitlines() if " ready: " in line]
    took = side.run(program, [])
    compiled = sum(len(json.loads(line)["functions"]) for line in events.read_text().splitlines())
    print(f"an edit of one function among {functions}, saved: {said}")
    print(f"  ready {ready:.1f} s after it was saved; the next run takes {took:.1f} s, with {compiled} compile events")
    print(f"  plain {plain.run(program, []):.1f} s", flush=True)


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--functions", type=int, default=24)
    parser.add_argument("--weight", type=int, default=16)
    parser.add_argument("--jobs", type=int, default=30)
    parser.add_argument("--only", choices=("stale", "one core", "cores", "fresh", "many", "saved"))
    parser.add_argument("--keep", type=Path, help="where to write what --only cores measured")
    args = parser.parse_args()
    proc.compile_sources()
    with tempfile.TemporaryDirectory(prefix="nbcache-cold-") as name:
        folder = Path(name)
        program = generate(folder, args.functions, args.weight)
        if args.only in {None, "stale"}:
            stale(folder / "stale", program, args.repeat, [], "cold start, everything stale")
        if args.only in {None, "one core"}:
            first = str(min(os.sched_getaffinity(0)))
            title = "the same on one processor"
            stale(folder / "one", program, args.repeat, ["taskset", "-c", first], title)
        if args.only in {None, "cores"}:
            cores(folder / "cores", program, args)
        if args.only in {None, "fresh"}:
            fresh(folder / "fresh", program, args.repeat)
        if args.only in {None, "many"}:
            many(folder / "many", args.jobs, args.repeat)
        if args.only in {None, "saved"}:
            saved(folder / "saved", 60 if args.functions > 4 else args.functions, args.weight)


if __name__ == "__main__":
    main()
