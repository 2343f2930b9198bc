"""The loop: edit, run with no cache and with nbcache over one store, compare."""

from __future__ import annotations

import json
import random
import shutil
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nbtest import usage

from randprog.edits import History, touch
from randprog.render import render, write
from randprog.runners import Job, Zygote, start_fresh

if TYPE_CHECKING:
    from pathlib import Path

    from nbtest.proc import Outcome

# Edits after which nothing may have to be compiled again, unless the code carries its file and line.
UNCHANGED = ("nothing", "all files touched", "run in", "tree moved", "how ", "unread")


@dataclass
class Report:
    """What a run of many steps saw."""

    seed: int
    steps: int = 0
    fresh: int = 0
    failed: int = 0  # programs that end with an error, in both
    hits: int = 0
    builds: int = 0
    unchanged_hits: int = 0
    unchanged_builds: Counter[str] = field(default_factory=Counter)  # by function, after an edit that changes nothing
    misses: Counter[str] = field(default_factory=Counter)
    uncacheable: Counter[str] = field(default_factory=Counter)
    noisy: list[str] = field(default_factory=list)  # last line on stderr where plain Numba has none
    differences: list[str] = field(default_factory=list)
    oracle_seconds: float = 0.0
    seconds: float = 0.0

    def summary(self) -> str:
        """Return the one line to read, and what follows from it."""
        lines = [
            (
                f"seed {self.seed}: {self.steps} steps ({self.fresh} in fresh processes, {self.failed} programs fail), "
                f"{self.hits} hits, {self.builds} builds, {len(self.differences)} differences, {self.seconds:.0f} s "
                f"(plain Numba alone {self.oracle_seconds:.0f} s)"
            ),
            (
                f"after edits that change nothing: {self.unchanged_hits} hits, "
                f"{sum(self.unchanged_builds.values())} builds {dict(self.unchanged_builds.most_common(5))}"
            ),
            f"misses {dict(self.misses)}  uncacheable {dict(self.uncacheable)}",
        ]
        lines += [f"noise: {line}" for line in sorted(set(self.noisy))[:5]]
        lines += [f"DIFFERENCE {text}" for text in self.differences]
        return "\n".join(lines)


class Drive:
    """A sequence of steps over one store under ``workdir``. ``cached=False`` only tries the programs themselves."""

    def __init__(self, seed: int, workdir: Path, fresh_fraction: float = 0.05, *, cached: bool = True) -> None:
        self.rng = random.Random(seed)
        self.workdir, self.fresh_fraction = workdir, fresh_fraction
        self.store = workdir / "store" if cached else None
        self.report = Report(seed)
        self.history = History(self.rng)
        self.versions: list[dict[str, object]] = []
        self._records: set[tuple[int, float]] = set()
        self._oracles: dict[str, Outcome] = {}

    def run(self, steps: int, stop_at: int = 3) -> Report:
        """Do ``steps`` steps, or fewer when ``stop_at`` differences were found."""
        started = time.perf_counter()
        self.workdir.mkdir(parents=True, exist_ok=True)
        self.zygotes = {
            "plain": Zygote("plain", self.workdir, None, warm=True),
            "cold": Zygote("cold", self.workdir, self.store),
            "warm": Zygote("warm", self.workdir, self.store, warm=True),
        }
        try:
            for step in range(steps):
                edit = self.history.step() if step else "first"
                self.step(edit)
                if sys.stderr.isatty():
                    print(f"\r{step + 1} of {steps} steps", end="", file=sys.stderr)
                if len(self.report.differences) >= stop_at:
                    break
        except KeyboardInterrupt:
            pass  # what was done so far is worth a report
        finally:
            for zygote in self.zygotes.values():
                zygote.close()
        if self.store:
            total = usage.read(self.store)
            self.report.misses, self.report.uncacheable = total.misses, total.uncacheable
        self.report.seconds = time.perf_counter() - started
        return self.report

    def step(self, edit: str) -> None:
        """Write the program as it is now, run it both ways and compare."""
        program, report = self.history.program, self.report
        folder = self.workdir / "tree" / program.place
        if edit in {"first", "new program", "back to an earlier version"} or edit.startswith("tree moved"):
            shutil.rmtree(self.workdir / "tree", ignore_errors=True)
        write(program, folder)
        if edit == "all files touched":
            touch(folder)
        self.versions.append(
            {
                "edit": edit,
                "files": render(program),
                "env": dict(program.env),
                "cwd": program.cwd,
                "place": program.place,
            }
        )
        job = Job(folder / "main.py", (folder / program.cwd).resolve(), program.env)
        fresh = any(name.startswith("NUMBA_") for name in program.env) or self.rng.random() < self.fresh_fraction
        names = self.rng.choice([["cold"], ["cold"], ["cold"], ["warm"], ["warm"], ["cold", "warm"]])
        identity = json.dumps([render(program), program.env, program.cwd], sort_keys=True)
        known = self._oracles.get(identity)  # an earlier version again, or nothing changed: plain Numba says the same
        if fresh:
            pending = [start_fresh(job, store) for store in ([self.store] if known else [None, self.store])]
        else:
            pending = [self.zygotes[name].start(job) for name in ([*names] if known else ["plain", *names])]
        outcomes = [run.result() for run in pending]
        oracle = known or outcomes.pop(0)
        self._oracles[identity] = oracle
        report.steps += 1
        report.fresh += fresh
        report.failed += oracle.status != 0
        report.oracle_seconds += 0 if known else oracle.seconds
        for outcome in outcomes:
            self._compare(edit, oracle, outcome)
        self._account(edit)

    def _compare(self, edit: str, oracle: Outcome, outcome: Outcome) -> None:
        noise = [line for line in outcome.stderr.splitlines() if line not in oracle.stderr]
        if oracle.status == 0 and noise:
            self.report.noisy.append(noise[-1][:300])
        if outcome.said != oracle.said:
            kept = self.workdir / f"difference-{len(self.report.differences)}.json"
            kept.write_text(json.dumps(self.versions), encoding="utf-8")
            pairs = zip(oracle.stdout.splitlines(), outcome.stdout.splitlines(), strict=False)
            first = next(
                (f"{a!r} != {b!r}" for a, b in pairs if a != b),
                f"status {oracle.status} != {outcome.status}; {noise[-1:]}",
            )
            self.report.differences.append(
                f"step {self.report.steps} ({edit}): plain, nbcache: {first}; replay with --replay {kept}"
            )

    def _account(self, edit: str) -> None:
        for record in usage.records(self.store) if self.store else []:
            who = record["pid"], record["start"]
            if who in self._records:
                continue
            self._records.add(who)
            hits, builds = record["hit_count"], record["builds"]
            self.report.hits += hits
            self.report.builds += len(builds)
            if edit.startswith(UNCHANGED):
                self.report.unchanged_hits += hits
                self.report.unchanged_builds.update(build["function"] for build in builds)
