"""``nbcache run -- CMD``: run a command with the cache switched on.

All it does is set ``NBCACHE_DIR``, for the command and its children, and become the command: signals, terminal and exit
status are the command's own. The switch itself is the ``.pth`` file of the Python that the command runs.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from nbcache.cli import command
from nbcache.cli.place import DEFAULT, settings_of
from nbcache.cli.text import UsageError

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
    command.add_argument(parser)
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    """Become the command. Returns only by raising: there is nothing left to return to."""
    argv = command.given(args)
    if not argv:
        raise UsageError("run: no command given: nbcache run -- python program.py")
    directory = settings_of(args).dir or os.path.expanduser(DEFAULT)
    os.makedirs(os.path.dirname(directory), exist_ok=True)
    os.environ["NBCACHE_DIR"] = directory
    with command.starting(argv, "run"):
        os.execvp(argv[0], argv)  # noqa: S606 - running what it was given is its purpose
