"""Programs that are run to see what they compile, in a store of their own."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbcache import config
from nbcache.cli.place import settings_of
from nbcache.cli.text import CommandError
from nbcache.store import Refusal, Store

if TYPE_CHECKING:
    import argparse


@dataclass(frozen=True, slots=True)
class Exercise:
    """What is run, and where what it compiles is collected."""

    argv: list[str]
    root: str
    record: str


def run(exercise: Exercise, cpu: str) -> None:
    """Run the program for a processor. Raises CommandError if that can't be done, or the program fails."""
    environment = config.exercise_environment(exercise.root, exercise.record, cpu)
    try:
        status = subprocess.run(exercise.argv, env=environment, check=False).returncode  # noqa: S603  what was named
    except OSError as error:
        raise CommandError(f"{exercise.argv[0]} can't be run: {error.strerror or error}") from error
    if status:
        raise CommandError(f"the program ended with status {status} when it was run for {cpu}: nothing is made")


def opened(args: argparse.Namespace, root: str) -> Store:
    """Open the store that programs filled. Raises CommandError if they didn't."""
    if not os.path.isdir(root):
        raise CommandError("the program didn't use nbcache: is it installed in the Python that the program runs in?")
    store = Store.open(settings_of(args)._replace(dir=root, readonly=False))
    if isinstance(store, Refusal):
        raise CommandError(store.reason)
    return store
