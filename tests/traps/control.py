"""Runs every trap program under Numba's own cache and writes `TABLE.md`: the control for the suite.

    cd tests && python -m traps.control [--only TEXT] [--no-table]

Also checks each program without any cache: its versions must differ where it says so, and it must not fail.
"""

import argparse
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba

from . import programs
from .harness import HERE, Outcome, Program, Run


def verdict(expected: list[Outcome], got: list[Outcome], program: Program) -> str:
    """Return one word: right, wrong, exception (where there was none), crash, or recompiles (right but no hit)."""
    for want, have in zip(expected, got, strict=True):
        if want.visible == have.visible:
            continue
        if have.status.startswith(("SIG", "no end")):
            return "crash"
        return "exception" if raises(have) and not raises(want) else "wrong"
    wanted_hit = program.hit or program.rerun in ("hit", "later")
    return "recompiles" if wanted_hit and got[-1].compiled else "right"


def raises(outcome: Outcome) -> bool:
    """Tell whether a process ended with, or printed, an exception."""
    return outcome.status != "exit 0" or " raised " in outcome.stdout


def judge(program: Program) -> tuple[Program, str, str]:
    """Run one program without a cache and with Numba's. Returns it, the verdict, and what is wrong with it itself."""
    with tempfile.TemporaryDirectory() as name:
        outcomes = {}
        for mode in ("oracle", "numba"):
            workdir = Path(name) / mode
            workdir.mkdir()
            run = Run(program, mode, workdir)
            outcomes[mode] = run.steps()
            if not program.hit:
                outcomes[mode].append(run.process(program.steps[-1]))
    expected = outcomes["oracle"]
    fault = ""
    if program.differs and expected[0].visible == expected[len(program.steps) - 1].visible:
        fault = "its versions print the same"
    elif expected[-1].status != "exit 0" and not any(step.stderr for step in program.steps):
        fault = f"ends with {expected[-1].status}: {expected[-1].stderr[-600:]}"
    return program, verdict(expected, outcomes["numba"], program), fault


def table(results: list[tuple[Program, str, str]]) -> str:
    """Return the whole of TABLE.md."""
    totals = Counter(word for _, word, _ in results)
    total_line = ", ".join(f"{count} {word}" for word, count in totals.most_common())
    lines = [
        "# Trap programs and Numba's own cache",
        "",
        f"Written by `control.py` with Numba {numba.__version__}, its own cache forced onto every decorated function.",
        f"{len(results)} programs: {total_line}. Under nbcache, `test_traps.py` asks `right` of all of them.",
        "",
        "*right*: as with no cache, and hits where a hit is asked. *recompiles*: right, but compiles again what was",
        "compiled. *wrong*: prints something else. *exception*: raises where no cache doesn't. *crash*: killed by a",
        "signal, or no end.",
        "",
        "| family | program | Numba's own cache | nbcache |",
        "|---:|---|---|---|",
    ]
    lines += [f"| {p.family} | {p.name} | {word} |  |" for p, word, _ in results]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run the control; the exit status tells whether every program is a real one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="programs whose `family-name` contains this")
    parser.add_argument("--no-table", action="store_true", help="print, don't write TABLE.md")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    chosen = [p for p in programs.load() if arguments.only in f"{p.family:02d}-{p.name}"]
    results = []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for program, word, fault in pool.map(judge, chosen):
            results.append((program, word, fault))
            print(f"{program.family:2d} {program.name:45s} {word:10s} {fault}", flush=True)
    print(Counter(word for _, word, _ in results))
    if not arguments.no_table and not arguments.only:
        (HERE / "TABLE.md").write_text(table(results), encoding="utf-8")
    return 1 if any(fault for _, _, fault in results) else 0


if __name__ == "__main__":
    sys.exit(main())
