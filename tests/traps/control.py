"""Runs trap programs under Numba's own cache and writes their rows of `TABLE.md`: the control for the suite.

    cd tests && python -m traps.control [--nbcache] [--only TEXT] [--no-table]

Also checks each program without any cache: its versions must differ where it says so, and it must not fail.

Programs that were written against a version of nbcache have its verdict in `before.txt`, a label and a word a line. That
is data: to add to it, copy this directory over that of a checkout of the old version and run, there,

    cd tests && python -m traps.control --before --only TEXT
"""

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
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


BEFORE = HERE / "before.txt"
TABLE = HERE / "TABLE.md"
_ROW = re.compile(r"^\| +(\d+) \| (\S+) \| (\w*) \| (\w*) \| (\w*) \|$", re.MULTILINE)


def verdicts_before() -> dict[str, str]:
    """Return the verdicts on programs by the version that they were written against, by label."""
    lines = BEFORE.read_text(encoding="utf-8").splitlines()
    return dict(line.split() for line in lines)


def write_before(results: list[Judged]) -> None:
    """Move to `before.txt` what nbcache, in this checkout, made of these programs."""
    verdicts = verdicts_before() | {r.program.label: r.verdicts.pop("nbcache") for r in results}
    BEFORE.write_text("".join(f"{label} {word}\n" for label, word in sorted(verdicts.items())), encoding="utf-8")


def verdicts_in_table() -> dict[str, dict[str, str]]:
    """Return what `TABLE.md` says of each program, by label and mode."""
    rows = _ROW.findall(TABLE.read_text(encoding="utf-8"))
    return {f"{int(family):02d}-{name}": {"numba": own, "nbcache": now} for family, name, own, _before, now in rows}


def table(results: list[Judged]) -> str:
    """Return the whole of TABLE.md: these rows new, the others as they are."""
    verdicts, before = verdicts_in_table(), verdicts_before()
    for result in results:
        verdicts[result.program.label] = verdicts.get(result.program.label, {}) | result.verdicts
    known = verdicts.keys() | before.keys()
    rows = [(program, verdicts.get(program.label, {})) for program in programs.load() if program.label in known]
    controlled = [words["numba"] for _program, words in rows if words.get("numba")]
    lines = [
        "# Trap programs and Numba's own cache",
        "",
        f"Written by `control.py` with Numba {numba.__version__}. The control is Numba's own cache forced onto every",
        f"decorated function; of the {len(controlled)} programs that it ran: {totals(controlled)}. The others sprang on",
        f"*nbcache before*; that did {sum(before.get(p.label, 'right') != 'right' for p, _words in rows)} in all.",
        "`test_traps.py` asks of nbcache what the column *nbcache* shows where it has been filled. *nbcache before* is",
        "the version that a program was written against, where that is known.",
        "",
        "*right*: as with no cache, and hits where a hit is asked. *recompiles*: right, but compiles again what was",
        "compiled. *wrong*: prints something else. *exception*: raises where no cache doesn't. *crash*: killed by a",
        "signal, or no end.",
        "",
        "| family | program | Numba's own cache | nbcache before | nbcache |",
        "|---:|---|---|---|---|",
    ]
    lines += [
        f"| {p.family} | {p.name} | {words.get('numba', '')} | {before.get(p.label, '')} | {words.get('nbcache', '')} |"
        for p, words in rows
    ]
    return "\n".join(lines) + "\n"


def totals(words: Iterable[str]) -> str:
    """Return how many programs got each verdict, in words."""
    return ", ".join(f"{count} {word}" for word, count in Counter(words).most_common())


def main() -> int:
    """Run the control; the exit status tells whether every program is a real one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="programs whose `family-name` contains this")
    parser.add_argument("--before", action="store_true", help="nbcache's verdict goes to before.txt, not to TABLE.md")
    parser.add_argument("--no-table", action="store_true", help="print, don't write TABLE.md")
    parser.add_argument("--nbcache", action="store_true", help="run them under nbcache too")
    parser.add_argument("--unshown", action="store_true", help="those only that nothing is known to have failed on yet")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    modes: tuple[Mode, ...] = ("numba", "nbcache") if arguments.nbcache or arguments.before else ("numba",)
    chosen = [p for p in programs.load() if arguments.only in p.label]
    if arguments.unshown:
        shown = {label for label, word in verdicts_before().items() if word != "right"} | verdicts_in_table().keys()
        chosen = [p for p in chosen if p.label not in shown]
    results = []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for result in pool.map(lambda program: judge(program, modes), chosen):
            results.append(result)
            words = " ".join(f"{word:10s}" for word in result.verdicts.values())
            print(f"{result.program.family:2d} {result.program.name:45s} {words} {result.fault}", flush=True)
    for mode in modes:
        print(f"{mode}: {totals(result.verdicts[mode] for result in results)}")
    if arguments.before:
        write_before(results)
    if not arguments.no_table:
        TABLE.write_text(table(results), encoding="utf-8")
    return 1 if any(result.fault for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
