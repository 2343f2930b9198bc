"""``nbcache run -- CMD``: run a command with the cache switched on.

All it does is set ``NBCACHE_DIR``, for the command and its children, and become the command: signals, terminal and exit
status are the command's own. The switch itself is the ``.pth`` file of the Python that the command runs.

``nbcache check -- CMD``: run a command with every hit compiled all the same, and say whether that was the same. It sets
``NBCACHE_CHECK=all`` for the command and its children, and adds up what their usage records say of it. Other processes
that use the store meanwhile are in these sums, if they check hits as well.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, NoReturn

from nbcache.cli import command
from nbcache.cli.place import DEFAULT, settings_of
from nbcache.cli.text import CommandError, UsageError, duration, plural, table
from nbcache.store import reasons, usage
from nbcache.trust import Trust

if TYPE_CHECKING:
    from collections.abc import Mapping


def run(args: argparse.Namespace) -> int:
    """Become the command; with ``--stats``, wait for it and print a line. Else it only returns by raising."""
    argv = command.given(args)
    if not argv:
        raise UsageError("run: no command given: nbcache run -- python program.py")
    settings = settings_of(args)
    directory = settings.dir or os.path.expanduser(DEFAULT)
    os.makedirs(os.path.dirname(directory), exist_ok=True)
    if args.progress:
        os.environ["NBCACHE_PROGRESS"] = "1"
    if args.stats:
        return _run_and_sum_up(argv, directory, Trust(settings.trusted_uids))
    return _become(argv, directory)


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
    argv = command.given(args)
    if not argv:
        raise UsageError("check: no command given: nbcache check -- python program.py")
    settings = settings_of(args)
    directory = settings.dir or os.path.expanduser(DEFAULT)
    trust = Trust(settings.trusted_uids)
    os.makedirs(os.path.dirname(directory), exist_ok=True)
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
