"""Edit random programs and compare nbcache with plain Numba after every step.

python tests/random/run.py --steps 1000 --seed 1
python tests/random/run.py --replay WORKDIR/difference-0.json

Interrupted or terminated, it reports the steps that it did.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

from randprog.drive import Drive  # noqa: E402
from randprog.replay import replay  # noqa: E402


def _end_once(_number: int, _frame: object) -> None:
    """End the run, which reports then: a second signal to the same end must not keep it from that."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def main() -> int:
    """Run the command line; exit status 1 when there was a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fresh-fraction", type=float, default=0.05, help="steps run in new interpreters, not zygotes")
    parser.add_argument("--oracle-only", action="store_true", help="nbcache off on both sides: tries the programs")
    parser.add_argument("--workdir", type=Path, help="kept; default: a temporary one, kept when there is a difference")
    parser.add_argument("--replay", type=Path, help="a kept difference: find a short sequence that shows it")
    options = parser.parse_args()
    workdir = options.workdir or Path(tempfile.mkdtemp(prefix="nbcache-random-"))
    if options.replay:
        print(replay(options.replay, workdir))
        return 0
    signal.signal(signal.SIGTERM, _end_once)
    report = Drive(options.seed, workdir, options.fresh_fraction, cached=not options.oracle_only).run(options.steps)
    print(report.summary())
    if not report.differences and not options.workdir:
        shutil.rmtree(workdir)
    return 1 if report.differences else 0


if __name__ == "__main__":
    sys.exit(main())
