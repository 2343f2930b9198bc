"""``nbcache run -- CMD``: run a command with the cache switched on.

All it does is set ``NBCACHE_DIR``, for the command and its children, and become the command: signals, terminal and exit
status are the command's own. The switch itself is the ``.pth`` file of the Python that the command runs.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from nbcache.cli.place import DEFAULT, settings_of
from nbcache.cli.text import CommandError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable


def register(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = add(
        "run",
        help="run a command with the cache switched on",
        description=f"Run a command with NBCACHE_DIR set (default: the settings, else {DEFAULT}).",
        usage="nbcache run [--dir DIR] -- COMMAND [ARGUMENT ...]",
    )
    parser.add_argument(
        "argv", nargs=argparse.REMAINDER, metavar="COMMAND", help="the command to run, with its arguments"
    )
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    """Become the command. Returns only by raising: there is nothing left to return to."""
    argv = args.argv[1:] if args.argv[:1] == ["--"] else args.argv
    if not argv:
        raise UsageError("run: no command given: nbcache run -- python program.py")
    directory = settings_of(args).dir or os.path.expanduser(DEFAULT)
    os.makedirs(os.path.dirname(directory), exist_ok=True)
    os.environ["NBCACHE_DIR"] = directory
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - running what it was given is its purpose
    except FileNotFoundError:
        raise CommandError(f"run: no such command: {argv[0]}") from None
    except OSError as error:
        raise CommandError(f"run: can't run {argv[0]}: {error.strerror}") from None
