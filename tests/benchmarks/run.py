"""Compare nbcache, Numba's own cache and plain Numba, in fresh processes that take turns.

    python tests/benchmarks/run.py [--repeat 7] [--only first-hit --only kinds] [--entries 1000000]

Every cell is a median with the least and the greatest value; the last two columns say how many times as long the other
side takes. Wants an idle machine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

from nbbench import sides, table  # noqa: E402
from nbbench.measures import MEASURES  # noqa: E402


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--only", action="append", choices=list(MEASURES), help="may be repeated")
    parser.add_argument("--entries", type=int, default=1_000_000, help="in a large store")
    options = parser.parse_args()
    print(table.machine())
    print(table.head(), flush=True)
    failed = False
    for name in options.only or MEASURES:
        with tempfile.TemporaryDirectory(prefix="nbcache-bench-") as folder:
            try:
                samples = MEASURES[name](sides.Bench(Path(folder), options.entries), options.repeat)
            except RuntimeError as error:
                failed = True
                print(f"{name}: {error}", flush=True)
                continue
        print("\n".join(table.rows(samples)), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
