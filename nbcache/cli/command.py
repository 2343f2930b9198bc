"""Programs that are run for the user (``-- COMMAND ARGUMENT ...``), with one line where one can't be started."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from nbcache import environ
from nbcache.cli import store_option
from nbcache.cli.text import CommandError, UsageError
from nbcache.store.directory import Store


def given(args: argparse.Namespace) -> list[str]:
    """Return the command; nothing where none was given."""
    argv: list[str] = args.argv
    return argv[1:] if argv[:1] == ["--"] else argv


def needed(args: argparse.Namespace, who: str) -> list[str]:
    """Return the command. Raises UsageError where none was given."""
    argv = given(args)
    if not argv:
        raise UsageError(f"{who}: no command given: nbcache {who} -- python program.py")
    return argv


def behind(args: argparse.Namespace, usage: str) -> tuple[list[str], list[str]]:
    """Return the words before a ``--``, and the command behind it, if there is one. Raises UsageError."""
    words: list[str] = args.argv
    dash = words.index("--") if "--" in words else len(words)
    if dash == len(words) - 1:
        raise UsageError(usage)
    return words[:dash], words[dash + 1 :]


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


@dataclass(frozen=True, slots=True)
class Exercise:
    """A program that is run to see what it compiles, and where that is collected: a store of its own, a warm list."""

    argv: list[str]
    root: str
    record: str

    def run(self, cpu: str) -> None:
        """Run the program for a processor. Raises CommandError if that can't be done, or the program fails."""
        status = run(self.argv, environ.exercise_environment(self.root, self.record, cpu), "bundle")
        if status:
            raise CommandError(f"the program ended with status {status} when it was run for {cpu}: nothing is made")

    def opened(self, args: argparse.Namespace) -> Store:
        """Open the store that the program filled. Raises CommandError if it didn't."""
        if not os.path.isdir(self.root):
            raise CommandError(
                "the program didn't use nbcache: is it installed in the Python that the program runs in?"
            )
        return store_option.opened(store_option.settings_of(args)._replace(dir=self.root, readonly=False))
