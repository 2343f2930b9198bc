"""``nbcache run -- CMD``: run a command with the cache switched on.

All it does is set ``NBCACHE_DIR``, for the command and its children, and become the command: signals, terminal and exit
status are the command's own. The switch itself is the ``.pth`` file of the Python that the command runs.

``nbcache check -- CMD``: run a command with every hit compiled all the same, and say whether that was the same. It sets
``NBCACHE_CHECK=all`` for the command and its children, and adds up what their usage records say of it. Other processes
that use the store meanwhile are in these sums, if they check hits as well.

``nbcache doctor -- CMD``: run a command and say what was compiled in it and in its children, cache or no cache.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from nbcache import count_record
from nbcache.cli import command
from nbcache.cli.store_option import DEFAULT, settings_of
from nbcache.cli.text import CommandError, duration, plural, print_json, print_table, printable, table
from nbcache.count_record import Process
from nbcache.file_trust import Trust
from nbcache.store import reasons, usage

SHOWN = 20
"""How many functions are listed; ``--json`` has them all."""
_TITLES = {count_record.COMPILE: "compile events", count_record.PIPELINE: "pipelines", count_record.LLVM: "LLVM runs"}
_MEANINGS = {
    count_record.COMPILE: "functions that Numba compiled because they were called or had a signature",
    count_record.PIPELINE: "functions that Numba analysed, with those that it compiled inside others",
    count_record.LLVM: "pieces of code that LLVM turned into machine code",
}


def run(args: argparse.Namespace) -> int:
    """Become the command; with ``--stats``, wait for it and print a line. Else it only returns by raising."""
    argv = command.needed(args, "run")
    directory, trust = _place(args)
    if args.progress:
        os.environ["NBCACHE_PROGRESS"] = "1"
    if args.stats:
        return _run_and_sum_up(argv, directory, trust)
    return _become(argv, directory)


def _place(args: argparse.Namespace) -> tuple[str, Trust]:
    """Return the store's directory, above which all is there, and whose records are believed."""
    settings = settings_of(args)
    directory = settings.dir or os.path.expanduser(DEFAULT)
    os.makedirs(os.path.dirname(directory), exist_ok=True)
    return directory, Trust(settings.trusted_uids)


def _become(argv: list[str], directory: str) -> NoReturn:
    os.environ["NBCACHE_DIR"] = directory
    with command.starting(argv, "run"):
        os.execvp(argv[0], argv)  # noqa: S606 - running what it was given is its purpose
    raise AssertionError  # whatever keeps it from that was raised


def _run_and_sum_up(argv: list[str], directory: str, trust: Trust) -> int:
    """Run the command, and say what it and its children did with the store."""
    before = _counted(directory, trust)
    status = command.run(argv, {**os.environ, "NBCACHE_DIR": directory}, "run")
    after = _counted(directory, trust)
    names = ("hit_count", "saved_seconds", "builds_count", "built_seconds")
    hits, saved, builds, spent = (after[name] - before[name] for name in names)
    sys.stdout.flush()
    line = f"nbcache: {hits} {plural(hits, 'hit')} saved {duration(saved)}; {builds} compiled in {duration(spent)}"
    print(line, file=sys.stderr)
    return status


def check(args: argparse.Namespace) -> int:
    """Run the command, and print what came of checking its hits."""
    argv = command.needed(args, "check")
    directory, trust = _place(args)
    before = _counted(directory, trust)
    status = command.run(argv, {**os.environ, "NBCACHE_DIR": directory, "NBCACHE_CHECK": "all"}, "check")
    after = _counted(directory, trust)
    if after["processes"] == before["processes"]:
        raise CommandError("check: the command didn't use nbcache: is it installed in the Python that it runs in?")
    checks = {name: count - before["checks"].get(name, 0) for name, count in after["checks"].items()}
    for line in verdict({name: count for name, count in checks.items() if count > 0}):
        print(line)
    if status:
        print(f"the command ended with status {status}")
    return int(status != 0 or checks.get(reasons.DIFFERENT, 0) > 0)


def verdict(checks: Mapping[str, int]) -> list[str]:
    """Return what came of checks, in lines for people."""
    compared = sum(checks.get(result, 0) for result in reasons.COMPARED)
    different = checks.get(reasons.DIFFERENT, 0)
    if not checks:
        return ["no hit to check: nothing that the command compiled was in the store; run it once more"]
    rest = sorted(checks.keys() - {reasons.SAME, reasons.DIFFERENT})
    rows = [("hits compared", compared), ("  different", different), *((f"  {name}", checks[name]) for name in rest)]
    lines = list(table(rows, right=" >"))
    if different:
        lines.append("DIFFERENT: the log names the entries, which are set aside; please report them")
    else:
        lines.append("no difference" if compared else "nothing could be compared")
    return lines


def _counted(root: str, trust: Trust) -> usage.Record:
    return usage.merge(usage.read(root, trust=trust))


def tally_of(argv: Sequence[str], environ: Mapping[str, str], *, as_json: bool) -> int:
    """Run `argv` with NBCACHE_COUNT set, print what was compiled after all that it prints, and return its exit status.

    A command that a signal ended has 128 and the signal's number, as in a shell. Its standard streams are ours.
    """
    with tempfile.TemporaryDirectory(prefix="nbcache-doctor-") as directory:
        status = command.run(argv, {**environ, "NBCACHE_COUNT": directory}, "doctor")
        processes = count_record.read(directory)
    if as_json:
        print_json(_tally_as_json(processes, status))
    else:
        _print_tally(processes)
    return status


def _tally_as_json(processes: list[Process], status: int) -> dict[str, Any]:
    return {
        "status": status,
        "totals": count_record.totals(processes),
        "processes": [
            {"pid": process.pid, "parent": process.parent, "argv": process.argv, **process.events}
            for process in processes
        ],
    }


def _print_tally(processes: list[Process]) -> None:
    totals = count_record.totals(processes)
    rows = [("processes that import Numba", len(processes), "")]
    rows += ((_TITLES[kind], totals[kind], _MEANINGS[kind]) for kind in count_record.KINDS)
    print()
    print_table(rows, right="<>")
    if processes and not any(totals.values()):
        print("\nNumba compiled nothing.")
    if not processes:
        print(f"\nNone was seen. The Python of the command needs nbcache installed; ours is {sys.executable}.")
    for kind in count_record.KINDS:
        _print_names(kind, count_record.names(processes, kind).most_common())
    sys.stdout.flush()


def _print_names(kind: str, counted: list[tuple[str, int]]) -> None:
    if not counted:
        return
    print(f"\n{_TITLES[kind]}:")
    for name, count in counted[:SHOWN]:
        print(f"  {printable(name)}" + (f"  ({count} times)" if count > 1 else ""))
    if len(counted) > SHOWN:
        print(f"  and {len(counted) - SHOWN} more; --json lists them all")
