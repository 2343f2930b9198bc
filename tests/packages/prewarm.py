"""Record what real packages compile, prewarm an empty store with that, and see what they still compile.

    python tests/packages/prewarm.py quantecon librosa --python ~/v/bin/python
    python tests/packages/prewarm.py all --python ~/v/bin/python --workdir /tmp/prewarm

The scripts are those of ``run.py``. For each it prints how many functions were recorded and which of them couldn't be
built; what was compiled by the run after prewarming, by name, and why; and the share of the compile time [s] that is
left: of Numba's outermost compile events, in the run with an empty store and in that after prewarming. Exit status 1
when more than LEFT is left of any, or outputs differ.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support"), str(HERE.parents[1])]

from nbtest import proc, usage  # noqa: E402
from run import PACKAGES, Runner, version  # noqa: E402

from nbcache import count_record  # noqa: E402

LEFT = 0.02
HEAD = """\
| package | recorded | not built | compiled after prewarming | compiling before | after | left |
|---|---:|---:|---:|---:|---:|---:|"""


@dataclass
class Row:
    """A line of the table; times [s]."""

    package: str
    recorded: int
    failed: list[str]
    """What couldn't be built, and why."""
    compiled: int
    before: float
    after: float
    identical: bool

    @property
    def left(self) -> float:
        """What share of the compile time is left."""
        return self.after / self.before if self.before else 0.0

    @property
    def good(self) -> bool:
        """Whether the promise was kept."""
        return self.identical and self.left <= LEFT

    def __str__(self) -> str:
        """Markdown."""
        cells = (
            self.package, self.recorded, len(self.failed), self.compiled,
            f"{self.before:.1f} s", f"{self.after:.2f} s", f"{100 * self.left:.1f} %",
        )  # fmt: skip
        return f"| {' | '.join(map(str, cells))} |"


class Prewarming(Runner):
    """One package: recorded, prewarmed, run."""

    def timed(self, label: str, store: Path, **settings: str) -> tuple[proc.Outcome, list[count_record.Process], float]:
        """Run once; return how it ended, what was compiled, and for how long [s]."""
        path = self.scratch / f"{label}.seconds"
        path.unlink(missing_ok=True)
        outcome, processes = self.run(label, store, settings={"NBTEST_COMPILED": str(path), **settings})
        lines = path.read_text().splitlines() if path.exists() else []
        return outcome, processes, sum(json.loads(line)["seconds"] for line in lines)

    def prewarmed(self) -> Row:
        """Print what is left."""
        listed, empty = self.scratch / "warm.jsonl", self.scratch / "prewarmed"
        listed.unlink(missing_ok=True)
        for store in (self.store, empty):
            shutil.rmtree(store, ignore_errors=True)
        first, _, before = self.timed("record", self.store, NBCACHE_RECORD=str(listed))
        recorded = len(listed.read_text().splitlines()) if listed.exists() else 0
        arguments = ["-m", "nbcache", "prewarm", "--json", "--workers", "2", "--dir", empty, listed]
        built = proc.run(arguments, None, self.settings, timeout=1800, python=self.python)
        said = json.loads(built.stdout) if built.stdout else {"failed": [{"function": "?", "reason": built.stderr}]}
        second, by_second, after = self.timed("prewarmed", empty)
        totals = count_record.totals(by_second)
        name = PACKAGES[self.name][0]
        row = Row(
            f"{name} {version(self.python, name)}", recorded,
            [f"{each['function']}: {each['reason']}" for each in said["failed"]],
            totals[count_record.PIPELINE], before, after, first.said == second.said and first.status == 0,
        )  # fmt: skip
        print(f"{row}  identical {row.identical}  compiled {totals}", flush=True)
        for text in row.failed:
            print(f"    not built: {text[:300]}")
        for kind in (count_record.PIPELINE, count_record.LLVM):
            for function, count in count_record.names(by_second, kind).most_common(12):
                print(f"    {kind}: {function[:200]} x{count}")
        found = usage.read(empty)
        for what in ("misses", "uncacheable", "errors"):
            for reason, count in getattr(found, what).most_common(8):
                print(f"    {what}: {reason} x{count}")
        if not row.identical:
            print(f"    outputs in {self.scratch}; {first.stderr[-300:]} {second.stderr[-300:]}")
        return row


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", help=f"of {', '.join(PACKAGES)}, or all")
    parser.add_argument("--python", required=True, help="an interpreter that has the packages")
    parser.add_argument("--workdir", type=Path, help="kept; default: a new temporary one")
    options = parser.parse_args()
    workdir = options.workdir or Path(tempfile.mkdtemp(prefix="nbcache-prewarm-"))
    python = os.path.abspath(options.python)
    names = list(PACKAGES) if options.names == ["all"] else options.names
    rows = [Prewarming(name, python, workdir / name).prewarmed() for name in names]
    print(HEAD, *rows, sep="\n")
    before, after = sum(row.before for row in rows), sum(row.after for row in rows)
    clean = sum(row.compiled == 0 for row in rows)
    print(
        f"{100 * after / before if before else 0:.1f} % left of {before:.0f} s; {clean} of {len(rows)} compile nothing"
    )
    return 0 if all(row.good for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
