"""Prints what a program of 40 trivial functions takes while something is broken, each beside plain Numba.

    python tests/faults/table.py [WORD...] [--limit 2] [--on-miss auto|wait|compile] [--crowded]

All settings but that one are the defaults. On a machine that others keep busy, --crowded compares processor time, times
what the program waited as it says itself; whatever else keeps it from running isn't seen then.

Plain Numba is timed before and after each, and the shorter time counts. A run that has to be repeated because it was
over the limit says so: a busy machine slows either. The status is 1 if something is over the limit every time, or
prints anything else than plain Numba.
"""

import argparse
import resource
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "support"), str(Path(__file__).parents[2])]

import pytest  # noqa: E402  its place comes first
from nbtest import breakage, proc  # noqa: E402

ATTEMPTS = 3


def timed(run, crowded):
    """Run the program; return the outcome, and how long that took [s]: of processors, as far as it didn't wait."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    outcome = run()
    if not crowded:
        return outcome, outcome.seconds
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    waited = breakage.waited_seconds(outcome)
    return outcome, spent * outcome.seconds / (outcome.seconds - waited)


def measure(name, on_miss, crowded):
    """Run the program with and without; return both times [s], whether it said the same, and how often it waited in vain."""
    with tempfile.TemporaryDirectory(prefix="nbcache-faults-") as folder:
        Path(folder).chmod(0o755)
        scene = breakage.Scene(Path(folder))
        before, first = timed(scene.plain, crowded)
        with breakage.FAULTS[name](scene) as environment:
            outcome, seconds = timed(lambda: scene.run({"NBCACHE_ON_MISS": on_miss, **environment}), crowded)
        (scene.folder / "before.py").write_text("")
        after, last = timed(scene.plain, crowded)
    same = outcome.said == before.said == after.said
    return min(first, last), seconds, same, breakage.waits(outcome)


def show(*cells):
    print("{:42s} {:>8s} {:>8s} {:>7s} {:>6s} {:>8s}  {}".format(*cells), flush=True)


def row(name, limit, on_miss, crowded):
    """Print the row of a fault; return whether it is as it should be."""
    for _attempt in range(ATTEMPTS):
        try:
            plain, seconds, same, waits = measure(name, on_miss, crowded)
        except pytest.skip.Exception as reason:
            show(name, "", "", "", "", "", f"skipped: {reason}")
            return True
        ratio = seconds / plain
        word = "another output" if not same else "ok" if ratio <= limit else "OVER"
        waited = sum(waits.values()) - waits.get("in vain", 0)
        show(
            name, f"{plain:.2f} s", f"{seconds:.2f} s", f"{ratio:.2f}", str(waited), str(waits.get("in vain", 0)), word
        )
        if word == "ok":
            return True
    return False


def main():
    proc.compile_sources()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", metavar="WORD", help="faults whose name holds one of these (default: all)")
    parser.add_argument("--limit", type=float, default=2.0, help="how many times plain Numba is too long (default: 2)")
    parser.add_argument(
        "--on-miss", default="auto", choices=["auto", "wait", "compile"], help="NBCACHE_ON_MISS (default: auto)"
    )
    parser.add_argument("--crowded", action="store_true", help="compare processor time: others keep the machine busy")
    args = parser.parse_args()
    names = [name for name in breakage.FAULTS if not args.words or any(word in name for word in args.words)]
    show("fault", "plain", "nbcache", "ratio", "waits", "in vain", "")
    bad = [name for name in names if not row(name, args.limit, args.on_miss, args.crowded)]
    print(f"\n{len(names)} faults, {len(bad)} of them over {args.limit:g} times plain Numba or with another output")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
