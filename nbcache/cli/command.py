"""Commands that are run for the user (``-- COMMAND ARGUMENT ...``), with one line where one can't be started."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nbcache.cli.text import CommandError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def given(args: argparse.Namespace) -> list[str]:
    """Return the command; nothing where none was given."""
    argv: list[str] = args.argv
    return argv[1:] if argv[:1] == ["--"] else argv


@contextmanager
def starting(argv: Sequence[str], who: str) -> Iterator[None]:
    """Raise CommandError in the place of what starting it raises; *who* wants to."""
    try:
        yield
    except FileNotFoundError:
        raise CommandError(f"{who}: no such command: {argv[0]}") from None
    except OSError as error:
        raise CommandError(f"{who}: can't run {argv[0]}: {error.strerror}") from None


def run(argv: Sequence[str], environ: Mapping[str, str], who: str) -> int:
    """Run it, and return its exit status; 128 and a signal's number where one ended it, as in a shell.

    Its standard streams are ours. Raises CommandError if it can't be started.
    """
    sys.stdout.flush()
    with starting(argv, who):
        child = subprocess.Popen(argv, env=environ)  # noqa: S603  running what it was given is its purpose
    # The terminal interrupts the command itself; what it did until then is still to be reported.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN), signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    try:
        status = child.wait()
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])
    return status if status >= 0 else 128 - status
