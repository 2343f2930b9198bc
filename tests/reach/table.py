"""Prints, for every program of this suite, what is compiled without nbcache, in a first and in a second process.

    python tests/reach/table.py [NAME...] [--why] [--json FILE]

Counts are compile events / pipelines / LLVM runs. The status is 1 when the table has an unexpected row.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "support"), str(Path(__file__).parents[2])]

import reach  # noqa: E402  its place comes first


def row(result):
    ok = not result.problems
    expected = result.program.name not in reach.GAPS
    word = {(True, True): "ok", (False, False): "gap", (True, False): "CLOSED", (False, True): "NO"}[ok, expected]
    cells = [result.program.name, result.program.kind]
    for ran in (result.plain, result.first, result.second):
        cells.append(f"{'/'.join(map(str, ran.counts))} {ran.outcome.seconds:5.2f} s")
    return [*cells, word]


def show(cells):
    print(f"{cells[0]:26s} {cells[1]:16s} {cells[2]:>18s} {cells[3]:>18s} {cells[4]:>18s}  {cells[5]}", flush=True)


def reasons(result):
    """What the log of the first process says about functions that can't be cached."""
    lines = result.first.outcome.stderr.splitlines()
    told = ("can't be cached", "internal error", "skipped an entry", "could not be stored")
    return sorted({line.split("] ")[-1] for line in lines if any(word in line for word in told)})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs to run (default: all)")
    parser.add_argument(
        "--why", action="store_true", help="say what the second process compiled, and the log's reasons"
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures to a file as well")
    args = parser.parse_args()
    chosen = [program for program in reach.programs() if not args.names or program.name in args.names]
    show(["program", "kind", "plain", "first", "second", ""])
    rows = []
    for program in chosen:
        with tempfile.TemporaryDirectory(prefix="nbcache-reach-") as folder:
            result = reach.measure(program, Path(folder), "debug" if args.why else "warning")
        rows.append(row(result))
        show(rows[-1])
        if args.why and result.problems:
            for line in [*result.problems, *reasons(result)]:
                print("   ", line.replace("\n", "\n    "))
    words = [cells[-1] for cells in rows]
    print(f"\n{len(rows)} programs: " + ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words)))
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 1 if set(words) - {"ok", "gap"} else 0


if __name__ == "__main__":
    sys.exit(main())
