"""The command line: parses it, calls the command, turns what went wrong into one line and an exit status."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import nbcache
from nbcache import pythons
from nbcache.cli.text import UsageError, printable
from nbcache.errors import NbcacheError


def build_parser() -> argparse.ArgumentParser:
    """Return the parser; each command's function is in ``command`` of what it parses."""
    from nbcache.cli.commands import COMMANDS  # what an unknown Python can't import is said in one line

    parser = argparse.ArgumentParser(
        prog="nbcache",
        description="A shared compile cache for Numba: "
        "every process that runs with NBCACHE_DIR set loads what another has compiled.",
        epilog="Exit status: 0 when all is well, 1 when something is wrong, 2 for wrong usage.",
    )
    parser.add_argument("--version", action="version", version=f"nbcache {nbcache.__version__}")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--dir", metavar="DIR", help="the cache directory (default: NBCACHE_DIR)")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_to(commands, shared)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status. Raises SystemExit where argparse does, nothing else."""
    try:
        return _run(argv)
    except Exception as error:
        problem = pythons.problem()
        if problem is None:
            raise
        return _complain(f"{problem} (the command failed: {type(error).__name__}: {error})", 1)


def _run(argv: Sequence[str] | None) -> int:
    args = build_parser().parse_args(argv)
    try:
        status: int = args.command(args)
        sys.stdout.flush()
    except BrokenPipeError:  # `nbcache ls | head`: the reader has what it wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except UsageError as error:
        return _complain(error, 2)
    except NbcacheError as error:
        return _complain(error, 1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _complain(f"{where}{error.strerror or error}", 1)
    return status


def _complain(what: object, status: int) -> int:
    print(f"nbcache: {printable(what)}", file=sys.stderr)
    return status
