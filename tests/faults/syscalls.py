"""Makes system calls of programs, daemons and commands fail, some 100,000 of them, and prints what that led to.

    python tests/faults/syscalls.py [--count 100000] [--seed N] [--who client|daemon|command] [--error E] [--keep FOLDER]

Calls about the store (a daemon's state counts too) fail at random with EIO, ESTALE, ENOSPC and EACCES, as on a broken
filesystem, and those that make a descriptor with EMFILE. What has to hold meanwhile: a program prints what it prints
without nbcache, and nothing more; no command shows a traceback; a daemon stays alive. And afterwards, when nothing fails:
entries that were whole are there, the store verifies, no request is left, and the daemon builds what it is asked for.
The status is 1 if something of that isn't so. What was said is kept in a folder then.
"""

import argparse
import contextlib
import errno
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "support"), str(Path(__file__).parents[2])]

from nbtest import faulted, injecting  # noqa: E402  its place comes first

KINDS = ("wrong", "traceback", "said more", "hang", "lost", "fault")
MEANING = (
    "another output or status; a traceback; more than plain Numba says; too long; lost; a fault of nbcache in its log"
)


class Tally:
    """What was made to fail, and what came of it."""

    def __init__(self, wanted: int) -> None:
        """Nothing yet, of so many."""
        self.wanted = wanted
        self.failed: Counter[tuple[str, int, str]] = Counter()
        self.runs: Counter[tuple[str, int]] = Counter()
        self.bad: Counter[tuple[str, int, str]] = Counter()
        self._begun = time.monotonic()
        self._said = 0

    @property
    def total(self) -> int:
        """How many calls failed."""
        return sum(self.failed.values())

    def add(self, round_: faulted.Round) -> None:
        """Count a round in."""
        for (who, call), count in round_.failed.items():
            self.failed[who, round_.error, call] += count
        self.runs[round_.who, round_.error] += 1
        for kind, what in round_.problems:
            self.bad[round_.who, round_.error, kind] += 1
            self._say(f"{kind}: {round_.title}: {what}")

    def progress(self) -> None:
        """On a terminal, how far it is; elsewhere, every 5000 calls."""
        seconds = time.monotonic() - self._begun
        said = f"{self.total} of {self.wanted}, {seconds:.0f} s, {sum(self.bad.values())} bad"
        if sys.stdout.isatty():
            print(f"\r\033[K{said}", end="", flush=True)
        elif self.total // 5000 > self._said:
            self._said = self.total // 5000
            print(said, flush=True)

    @staticmethod
    def _say(text: str) -> None:
        print("\r\033[K" * sys.stdout.isatty() + text, flush=True)

    def show(self) -> None:
        """Print the tables."""
        if sys.stdout.isatty():
            print("\r\033[K", end="")
        names = [errno.errorcode[error] for error in injecting.FAULTS]
        print(f"\n{'who':8s} {'system call':18s}" + "".join(f"{name:>9s}" for name in names))
        for who, call in sorted({(who, call) for who, _, call in self.failed}):
            counts = [self.failed[who, error, call] for error in injecting.FAULTS]
            print(f"{who:8s} {call:18s}" + "".join(f"{count or '':>9}" for count in counts))
        print(f"\n{'who':8s} {'fault':7s} {'failed':>8s} {'runs':>6s}" + "".join(f"{kind:>11s}" for kind in KINDS))
        for who, error in sorted(self.runs):
            failed = sum(count for (_, each, _), count in self._of(who) if each == error)
            bad = "".join(f"{self.bad[who, error, kind]:>11d}" for kind in KINDS)
            print(f"{who:8s} {errno.errorcode[error]:7s} {failed:8d} {self.runs[who, error]:6d}{bad}")
        seconds = time.monotonic() - self._begun
        print(f"\n{self.total} system calls failed, in {seconds:.0f} s; {sum(self.bad.values())} problems\n({MEANING})")

    def _of(self, who):
        # What a daemon's interpreters and jobs did is the daemon's.
        return [
            (key, count) for key, count in self.failed.items() if key[0] == who or (key[0], who) == ("job", "daemon")
        ]


def keep(round_, folder, number):
    """Copy what was said in a round."""
    folder.mkdir(exist_ok=True)
    for path in round_.logs:
        if path.exists():
            shutil.copy(path, folder / f"{number}-{path.name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100_000, help="how many calls are to fail (default: 100000)")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--who", choices=faulted.WHO, action="append", help="default: all, in turn")
    parser.add_argument("--error", choices=[errno.errorcode[each] for each in injecting.FAULTS], help="default: each")
    parser.add_argument("--keep", type=Path, help="where to keep what was said by whatever went wrong")
    args = parser.parse_args()
    seed = random.randrange(1 << 32) if args.seed is None else args.seed
    print(f"seed {seed}", flush=True)
    tally = Tally(args.count)
    with tempfile.TemporaryDirectory(prefix="nbcache-syscalls-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        ground = faulted.Ground(folder)
        if args.error:
            ground.errors = (getattr(errno, args.error),)
        # Whoever has seen enough wants the tables.
        with contextlib.suppress(KeyboardInterrupt):
            for round_ in ground.rounds(random.Random(seed), args.who or faulted.WHO):
                tally.add(round_)
                tally.progress()
                if round_.problems:
                    args.keep = args.keep or Path(tempfile.mkdtemp(prefix="nbcache-syscalls-kept-"))
                    keep(round_, args.keep, sum(tally.runs.values()))
                if tally.total >= args.count:
                    break
    tally.show()
    if args.keep:
        print(f"what was said is in {args.keep}")
    return bool(tally.bad)


if __name__ == "__main__":
    sys.exit(main())
