"""Runs every trap program under Numba's own cache and writes `TABLE.md`: the control for the suite.

    cd tests && python -m traps.control [--nbcache] [--only TEXT] [--no-table]

Also checks each program without any cache: its versions must differ where it says so, and it must not fail.
"""

import argparse
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numba

from . import programs
from .harness import HERE, Mode, Outcome, Program, Run


def verdict(expected: list[Outcome], got: list[Outcome], program: Program) -> str:
    """Return one word: right, wrong, exception (where there was none), crash, or recompiles (right but no hit)."""
    for want, have in zip(expected, got, strict=True):
        if want.visible == have.visible:
            continue
        if have.status.startswith(("SIG", "no end")):
            return "crash"
        return "exception" if raises(have) and not raises(want) else "wrong"
    wanted_hit = program.hit or program.rerun == "hit"
    return "recompiles" if wanted_hit and got[-1].compiled else "right"


def raises(outcome: Outcome) -> bool:
    """Tell whether a process ended with, or printed, an exception."""
    return outcome.status != "exit 0" or " raised " in outcome.stdout


@dataclass(frozen=True)
class Judged:
    """A program, a verdict for each cache it ran with, and what is wrong with the program itself."""

    program: Program
    verdicts: dict[str, str]
    fault: str


def judge(program: Program, modes: tuple[Mode, ...]) -> Judged:
    """Run one program without a cache and with each of these."""
    outcomes = {mode: outcomes_of(program, mode) for mode in ("oracle", *modes)}
    expected = outcomes["oracle"]
    verdicts = {mode: verdict(expected, outcomes[mode], program) for mode in modes}
    return Judged(program, verdicts, fault_of(program, expected))


def outcomes_of(program: Program, mode: Mode) -> list[Outcome]:
    """Return what each step did and, unless the last one is the one to hit, what it did when repeated."""
    with tempfile.TemporaryDirectory() as workdir:
        run = Run(program, mode, Path(workdir))
        outcomes = run.steps()
        if not program.hit:
            outcomes.append(run.process(program.steps[-1]))
    return outcomes


def fault_of(program: Program, expected: list[Outcome]) -> str:
    """Return what is wrong with a program as a trap; empty when nothing is."""
    if program.differs and expected[0].visible == expected[len(program.steps) - 1].visible:
        return "its versions print the same"
    if expected[-1].status != "exit 0" and not any(step.stderr for step in program.steps):
        return f"ends with {expected[-1].status}: {expected[-1].stderr[-600:]}"
    return ""


def table(results: list[Judged]) -> str:
    """Return the whole of TABLE.md."""
    lines = [
        "# Trap programs and Numba's own cache",
        "",
        f"Written by `control.py` with Numba {numba.__version__}. The control is Numba's own cache forced onto every",
        f"decorated function; of {len(results)} programs: {totals(results, 'numba')}.",
        "`test_traps.py` asks of nbcache what the column *nbcache* shows where it has been filled.",
        "",
        "*right*: as with no cache, and hits where a hit is asked. *recompiles*: right, but compiles again what was",
        "compiled. *wrong*: prints something else. *exception*: raises where no cache doesn't. *crash*: killed by a",
        "signal, or no end.",
        "",
        "| family | program | Numba's own cache | nbcache |",
        "|---:|---|---|---|",
    ]
    lines += [
        f"| {r.program.family} | {r.program.name} | {r.verdicts['numba']} | {r.verdicts.get('nbcache', '')} |"
        for r in results
    ]
    return "\n".join(lines) + "\n"


def totals(results: list[Judged], mode: Mode) -> str:
    """Return how many programs got each verdict, in words."""
    counts = Counter(result.verdicts[mode] for result in results)
    return ", ".join(f"{count} {word}" for word, count in counts.most_common())


def main() -> int:
    """Run the control; the exit status tells whether every program is a real one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="programs whose `family-name` contains this; writes no table")
    parser.add_argument("--no-table", action="store_true", help="print, don't write TABLE.md")
    parser.add_argument("--nbcache", action="store_true", help="run them under nbcache too")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    modes: tuple[Mode, ...] = ("numba", "nbcache") if arguments.nbcache else ("numba",)
    chosen = [p for p in programs.load() if arguments.only in f"{p.family:02d}-{p.name}"]
    results = []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for result in pool.map(lambda program: judge(program, modes), chosen):
            results.append(result)
            words = " ".join(f"{word:10s}" for word in result.verdicts.values())
            print(f"{result.program.family:2d} {result.program.name:45s} {words} {result.fault}", flush=True)
    for mode in modes:
        print(f"{mode}: {totals(results, mode)}")
    if not arguments.no_table and not arguments.only:
        (HERE / "TABLE.md").write_text(table(results), encoding="utf-8")
    return 1 if any(result.fault for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
