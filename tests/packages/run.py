"""Run real packages with no cache, with an empty nbcache store, and with the filled one.

    python tests/packages/run.py                 # eight packages of eight authors
    python tests/packages/run.py all --python ~/v/bin/python
    python tests/packages/run.py umap --plain    # no cache, twice: is the script deterministic?
    python tests/packages/run.py --together      # all, in an environment that holds them all and what extends Numba

Without ``--python`` a virtual environment is made and the packages are installed into it from the registry. For each
package it prints whether the outputs are identical; the wall times [s], and the processor times, which other work on the
machine doesn't change; how many look-ups of the warm process were hits; what was compiled there (``NBCACHE_COUNT``: Numba's compile events, runs of its compiler, runs of LLVM), by name, and
the reasons; then all of it as a table for the README. Exit status 1 when outputs differ or anything was compiled. With
``NBTEST_CHECK=all`` (nbtest.hitcheck) hits are compiled all the same, and it is 1 when one is compiled to something else.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE.parents[1])]

from nbtest import hitcheck, proc, usage  # noqa: E402

from nbcache import count_record  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    "awkward_vectors": ["awkward", "vector"],
    "datashader": ["datashader", "pandas"],
    "hdbscan": ["hdbscan", "umap-learn"],
    "galois": ["galois"],
    "numbagg": ["numbagg"],
    "clifford": ["clifford"],
    "resampy": ["resampy"],
    "csr": ["csr", "scipy"],
    "pandas": ["pandas"],
    "hark": ["econ-ark"],
    "interpolation": ["interpolation"],
    "pympdata": ["PyMPDATA"],
    "rocket_fft": ["rocket-fft", "scipy"],
    "numba_kdtree": ["numba-kdtree"],
    "numba_progress": ["numba-progress"],
    "numba_celltree": ["numba-celltree"],
    "pymatting": ["pymatting"],
    "numpy_groupies": ["numpy-groupies"],
    "hapsira": ["hapsira"],
    "esda": ["esda"],
    "shap": ["shap"],
    "vectorbt": ["vectorbt"],
    "xarray": ["xarray", "flox", "numbagg", "numpy-groupies"],
    "cminpack": ["cminpack-numba"],
    "pde": ["py-pde"],
    "pynapple": ["pynapple"],
    "skan": ["skan", "pandas"],
}
FIRST = ["numba_stats", "galois", "numbagg", "datashader", "quantecon", "sparse", "resampy", "tslearn"]
EXTENSIONS = ["rocket-fft", "vector", "awkward", "sparse"]
"""What registers ``numba_extensions``, and so takes part in each compilation of its environment, used or not."""
COMPANIONS = [*EXTENSIONS, "pandas", "scipy", "scikit-learn", "pyarrow", "matplotlib", "xarray"]
"""What is in the one environment besides the packages, as in a data science image."""


def make_environment(folder: Path, names: list[str], companions: list[str]) -> str:
    """Make a virtual environment with what ``names`` need, and ``companions``; return its Python."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    wanted = sorted({requirement for name in names for requirement in PACKAGES[name]} | {*companions})
    subprocess.run([python, "-m", "pip", "install", "-q", "numba", "scipy", "filelock", *wanted], check=True)
    return python


def version(python: str, distribution: str) -> str:
    """Return the version of a ``distribution`` that is installed for ``python``.  Raises CalledProcessError."""
    code = f"import importlib.metadata as m; print(m.version({distribution!r}))"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def _processor_time() -> float:
    """Return the processor time [s] of our children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclass
class Row:
    """A line of the README's table; times [s]."""

    package: str
    identical: bool
    hits: int
    lookups: int
    compiled: dict[str, int]
    reasons: list[str]
    """Why something was compiled in the second process, the most frequent first."""
    different: list[str]
    """What is wrong with hits that were compiled all the same."""
    plain: float
    own: float
    """With what Numba's own cache kept of the plain run, as far as the package asks for that."""
    cold: float
    warm: float

    @property
    def good(self) -> bool:
        """Whether nbcache kept its promises."""
        saved = bool(hitcheck.WANTED) or not any(self.compiled.values())
        return self.identical and saved and not self.different

    def __str__(self) -> str:
        """Markdown."""
        rate = f"{100 * self.hits / self.lookups:.1f} %" if self.lookups else "none"
        events = ", ".join(f"{count} {kind}" for kind, count in self.compiled.items() if count) or "0"
        if any(self.compiled.values()) and self.reasons:
            events += ": " + "; ".join(self.reasons[:2]).replace("|", "\\|")
        cells = (
            self.package,
            "yes" if self.identical else "NO",
            f"{rate} of {self.lookups}",
            events,
            *(f"{seconds:.1f} s" for seconds in (self.plain, self.own, self.cold, self.warm)),
        )
        return f"| {' | '.join(cells)} |"


HEAD = """\
| package | outputs identical | signatures hit | compiled in the second process | plain | Numba's own cache, warm | cold | warm |
|---|---|---:|---:|---:|---:|---:|---:|"""


class Runner:
    """Runs one package's script in its several ways under ``scratch``."""

    processor: dict[str, float]
    """Label of a run -> processor time [s] of its processes."""

    def __init__(self, name: str, python: str, scratch: Path) -> None:
        self.name, self.python, self.scratch = name, python, scratch
        self.store = scratch / "store"
        self.processor = {}
        scratch.mkdir(parents=True, exist_ok=True)
        self.site = proc.installed(Path(tempfile.mkdtemp(prefix="site-", dir=scratch)))
        self.settings = {
            "PYTHONPATH": proc.search_path(self.site),
            "PYTHONWARNINGS": "ignore",
            "OMP_NUM_THREADS": "1",
            "PYTHONHASHSEED": "0",
        }

    def run(
        self, label: str, store: Path | None = None, own: Path | None = None, settings: Mapping[str, str] | None = None
    ) -> tuple[proc.Outcome, list[count_record.Process]]:
        """Run once; return how it ended and what Numba compiled.

        Packages that ask for Numba's own cache get an empty one, so that plain means plain, or ``own``.
        """
        counts = Path(tempfile.mkdtemp(prefix=f"{label}-", dir=self.scratch))
        cache = str(own or counts / "numba-cache")
        extra = {"NBCACHE_COUNT": str(counts), "NUMBA_CACHE_DIR": cache, **self.settings, **(settings or {})}
        before = _processor_time()
        outcome = proc.run([HERE / "scripts" / f"run_{self.name}.py"], store, extra, timeout=1800, python=self.python)
        self.processor[label] = _processor_time() - before
        (self.scratch / f"{label}.out").write_text(outcome.stdout + outcome.stderr, encoding="utf-8")
        return outcome, count_record.read(str(counts))

    def plain_twice(self) -> bool:
        """Print whether plain Numba says the same twice."""
        first, processes = self.run("plain-1")
        second, _ = self.run("plain-2")
        same = first.said == second.said
        print(
            f"{self.name:12} status {first.status}  deterministic {same}  "
            f"compiled {count_record.totals(processes)}  plain {first.seconds:.1f} s",
            flush=True,
        )
        if first.status:
            print(first.stderr[-600:])
        return same and first.status == 0

    def cached(self) -> Row:
        """Print what nbcache makes of it."""
        kept = Path(tempfile.mkdtemp(prefix="own-", dir=self.scratch))
        plain, by_plain = self.run("plain", own=kept)
        own, _ = self.run("own", own=kept)
        cold, _ = self.run("cold", self.store)
        before = usage.read(self.store)
        warm, by_warm = self.run("warm", self.store)
        after = usage.read(self.store).since(before)
        hits = sum(after.hits.values())
        row = Row(
            f"{PACKAGES[self.name][0]} {version(self.python, PACKAGES[self.name][0])}",
            plain.said == cold.said == warm.said and plain.status == 0,
            hits,
            hits + sum(after.misses.values()) + sum(after.uncacheable.values()),
            count_record.totals(by_warm),
            [reason for reason, _count in (after.uncacheable + after.misses).most_common()],
            hitcheck.problems(self.store, self.name),
            plain.seconds,
            own.seconds,
            cold.seconds,
            warm.seconds,
        )
        print(
            f"{self.name:12} identical {row.identical}  status {plain.status}/{cold.status}/{warm.status}  "
            f"plain {row.plain:.1f} s  own {row.own:.1f} s  cold {row.cold:.1f} s  warm {row.warm:.1f} s  "
            f"processor {' / '.join(f'{seconds:.1f}' for seconds in self.processor.values())} s  "
            f"hits {row.hits} of {row.lookups}  compiled: plain {count_record.totals(by_plain)}, warm {row.compiled}",
            flush=True,
        )
        for kind in count_record.KINDS:
            for function, count in count_record.names(by_warm, kind).most_common(8):
                print(f"    {kind}: {function} x{count}")
        for what in ("misses", "uncacheable", "errors"):
            for reason, count in getattr(after, what).most_common(8):
                print(f"    {what}: {reason} x{count}")
        for problem in row.different:
            print(f"    {problem}")
        for label, outcome in (("cold", cold), ("warm", warm)):
            if outcome.said != plain.said:
                print(f"    {label}: outputs in {self.scratch}/plain.out and {label}.out; {outcome.stderr[-400:]}")
        return row


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(PACKAGES)}, or all")
    parser.add_argument("--python", help="an interpreter that has the packages")
    parser.add_argument("--plain", action="store_true", help="no cache, twice")
    parser.add_argument("--together", action="store_true", help="in one environment with what extends Numba")
    parser.add_argument("--workdir", type=Path, help="kept; default: a new temporary one")
    options = parser.parse_args()
    names = options.names or (["all"] if options.together else FIRST)
    names = list(PACKAGES) if names == ["all"] else names
    workdir = options.workdir or Path(tempfile.mkdtemp(prefix="nbcache-packages-"))
    companions = COMPANIONS if options.together else []
    python = os.path.abspath(options.python or make_environment(workdir / "venv", names, companions))
    if companions:
        print("together with " + ", ".join(f"{name} {version(python, name)}" for name in companions), flush=True)
    runners = [Runner(name, python, workdir / name) for name in names]
    if options.plain:
        good = [runner.plain_twice() for runner in runners]
    else:
        rows = [runner.cached() for runner in runners]
        print(HEAD, *rows, sep="\n")
        good = [row.good for row in rows]
    print(f"stores and outputs: {workdir}")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
