"""Compare nbcache, Numba's own cache and plain Numba, in fresh processes that take turns.

    python tests/benchmarks/run.py [--repeat 7] [--only first-hit --only kinds] [--entries 1000000]
    python tests/benchmarks/run.py --figures            # rewrites README's chart and the table of docs/benchmarks.md
    python tests/benchmarks/run.py --only extensions [--with-extensions PYTHON --without-extensions PYTHON]

``extensions`` is left out unless it is named, or the Pythons of its two environments are: it installs packages.
``kernels`` needs numba-cuda, and no GPU.

Every cell is a median with the least and the greatest value; the last two columns say how many times as long the other
side takes. Wants an idle machine.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

from nbbench import figures, sides, table  # noqa: E402
from nbbench.environments import Environments  # noqa: E402
from nbbench.measures import MEASURES, NEED_PACKAGE, NEED_REGISTRY  # noqa: E402


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--only", action="append", choices=list(MEASURES), help="may be repeated")
    parser.add_argument("--entries", type=int, default=1_000_000, help="in a large store")
    parser.add_argument("--with-extensions", metavar="PYTHON", help="has rocket-fft, vector, awkward and sparse")
    parser.add_argument("--without-extensions", metavar="PYTHON", help="the same without these")
    parser.add_argument(
        "--figures", action="store_true", help="measure what README's chart shows, and write it and its table"
    )
    options = parser.parse_args()
    pythons = [path and os.path.abspath(path) for path in (options.with_extensions, options.without_extensions)]
    environments = Environments(*pythons) if all(pythons) else None
    if options.figures:
        options.only = list(figures.MEASURES)
    there = [name for name in MEASURES if importlib.util.find_spec(NEED_PACKAGE.get(name, "numba"))]
    chosen = options.only or [name for name in there if environments or name not in NEED_REGISTRY]
    machine, measured, failed = table.machine(), {}, False
    print(machine)
    print(table.head(), flush=True)
    for name in chosen:
        with tempfile.TemporaryDirectory(prefix="nbcache-bench-") as folder:
            try:
                samples = MEASURES[name](sides.Bench(Path(folder), options.entries, environments), options.repeat)
            except RuntimeError as error:
                failed = True
                print(f"{name}: {error}", flush=True)
                continue
        print("\n".join(table.rows(samples)), flush=True)
        measured.update(samples)
    if options.figures and not failed:
        figures.write(figures.of_samples(measured, machine))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
