"""Run real packages with no cache, with an empty nbcache store, and with the filled one.

    python tests/packages/run.py                 # the first three: pynndescent, librosa, stumpy
    python tests/packages/run.py all --python ~/v/bin/python
    python tests/packages/run.py umap --plain    # no cache, twice: is the script deterministic?

Without ``--python`` a virtual environment is made and the packages are installed into it from the registry. For each
package it prints whether the outputs are identical, the wall times [s], how many functions the Dispatchers compiled in
the warm process (Numba's ``numba:compile`` events), and why functions were not cacheable. Exit status 1 when outputs
differ.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

from nbtest import proc, usage  # noqa: E402

# Script -> what has to be installed for it.
PACKAGES = {
    "pynndescent": ["pynndescent"],
    "librosa": ["librosa"],
    "stumpy": ["stumpy"],
    "umap": ["umap-learn"],
    "sparse": ["sparse"],
    "tslearn": ["tslearn"],
    "quantecon": ["quantecon"],
    "numba_stats": ["numba-stats"],
    "vector": ["vector"],
    "awkward": ["awkward"],
    "datashader": ["datashader", "pandas"],
    "hdbscan": ["hdbscan", "umap-learn"],
}
FIRST = ["pynndescent", "librosa", "stumpy"]


def make_environment(folder: Path, names: list[str]) -> str:
    """Make a virtual environment with what ``names`` need; return its Python."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    wanted = sorted({requirement for name in names for requirement in PACKAGES[name]})
    subprocess.run([python, "-m", "pip", "install", "-q", "numba", "scipy", "filelock", *wanted], check=True)
    return python


def compiled(events: Path) -> list[str]:
    """Return the functions whose Dispatchers compiled, by the instrumentation's file."""
    lines = events.read_text(encoding="utf-8").splitlines() if events.exists() else []
    return [name for line in lines for name in json.loads(line)["functions"]]


class Runner:
    """Runs one package's script in its several ways under ``scratch``."""

    def __init__(self, name: str, python: str, scratch: Path) -> None:
        self.name, self.python, self.scratch = name, python, scratch
        self.store = scratch / "store"
        self.numba_cache = scratch / "numba-cache"
        scratch.mkdir(parents=True, exist_ok=True)

    def run(self, label: str, store: Path | None = None) -> tuple[proc.Outcome, list[str]]:
        """Run once; return how it ended and what its Dispatchers compiled.

        Packages that ask for Numba's own cache get an empty one each time, so that plain means plain.
        """
        events = self.scratch / f"{label}.events"
        extra = {
            "NBTEST_EVENTS": str(events),
            "NUMBA_CACHE_DIR": str(self.numba_cache / label),
            "PYTHONWARNINGS": "ignore",
            "OMP_NUM_THREADS": "1",
            "PYTHONHASHSEED": "0",
        }
        outcome = proc.run([HERE / "scripts" / f"run_{self.name}.py"], store, extra, timeout=1800, python=self.python)
        (self.scratch / f"{label}.out").write_text(outcome.stdout + outcome.stderr, encoding="utf-8")
        return outcome, compiled(events)

    def plain_twice(self) -> bool:
        """Print whether plain Numba says the same twice."""
        first, names = self.run("plain-1")
        second, _ = self.run("plain-2")
        same = first.said == second.said
        print(
            f"{self.name:12} status {first.status}  deterministic {same}  compiled {len(names)}  plain {first.seconds:.1f} s",
            flush=True,
        )
        if first.status:
            print(first.stderr[-600:])
        return same and first.status == 0

    def cached(self) -> bool:
        """Print what nbcache makes of it; return whether outputs are identical."""
        plain, by_plain = self.run("plain")
        cold, _ = self.run("cold", self.store)
        before = usage.read(self.store)
        warm, by_warm = self.run("warm", self.store)
        after = usage.read(self.store).since(before)
        same = plain.said == cold.said == warm.said
        print(
            f"{self.name:12} identical {same}  status {plain.status}/{cold.status}/{warm.status}  "
            f"plain {plain.seconds:.1f} s  cold {cold.seconds:.1f} s  warm {warm.seconds:.1f} s  "
            f"compiled by Dispatchers: plain {len(by_plain)}, warm {len(by_warm)}; hits {sum(after.hits.values())}, builds {sum(after.builds.values())}",
            flush=True,
        )
        for function, count in Counter(by_warm).most_common(8):
            print(f"    still compiled: {function} x{count}")
        for reason, count in after.uncacheable.most_common(8):
            print(f"    uncacheable: {reason} x{count}")
        for label, outcome in (("cold", cold), ("warm", warm)):
            if outcome.said != plain.said:
                print(f"    {label}: outputs in {self.scratch}/plain.out and {label}.out; {outcome.stderr[-400:]}")
        return same


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=FIRST, help=f"of {', '.join(PACKAGES)}, or all")
    parser.add_argument("--python", help="an interpreter that has the packages")
    parser.add_argument("--plain", action="store_true", help="no cache, twice")
    parser.add_argument("--workdir", type=Path, help="kept; default: a new temporary one")
    options = parser.parse_args()
    names = list(PACKAGES) if options.names == ["all"] else options.names
    workdir = options.workdir or Path(tempfile.mkdtemp(prefix="nbcache-packages-"))
    python = os.path.abspath(options.python) if options.python else make_environment(workdir / "venv", names)
    results = []
    for name in names:
        runner = Runner(name, python, workdir / name)
        results.append(runner.plain_twice() if options.plain else runner.cached())
    print(f"stores and outputs: {workdir}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
