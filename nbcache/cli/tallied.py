"""``nbcache doctor -- CMD``: run a command and say what was compiled in it and in its children, cache or no cache."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from nbcache import tally
from nbcache.cli import command
from nbcache.cli.text import print_json, printable, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nbcache.tally import Process

SHOWN = 20
"""How many functions are listed; ``--json`` has them all."""
_TITLES = {tally.COMPILE: "compile events", tally.PIPELINE: "pipelines", tally.LLVM: "LLVM runs"}


def run(argv: Sequence[str], environ: Mapping[str, str], *, as_json: bool) -> int:
    """Run `argv`, print what was compiled after all that it prints, and return its exit status.

    A command that a signal ended has 128 and the signal's number, as in a shell. Its standard streams are ours.
    """
    with tempfile.TemporaryDirectory(prefix="nbcache-doctor-") as directory:
        status = command.run(argv, {**environ, "NBCACHE_COUNT": directory}, "doctor")
        processes = tally.read(directory)
    if as_json:
        print_json(_report(processes, status))
    else:
        _print(processes)
    return status


def _report(processes: list[Process], status: int) -> dict[str, Any]:
    return {
        "status": status,
        "totals": tally.totals(processes),
        "processes": [
            {"pid": process.pid, "parent": process.parent, "argv": process.argv, **process.events}
            for process in processes
        ],
    }


def _print(processes: list[Process]) -> None:
    totals = tally.totals(processes)
    rows = [("processes that import Numba", len(processes)), *((_TITLES[kind], totals[kind]) for kind in tally.KINDS)]
    print()
    for line in table(rows, right="<>"):
        print(line)
    if not processes:
        print(f"\nNone was seen. The Python of the command needs nbcache installed; ours is {sys.executable}.")
    for kind in tally.KINDS:
        _print_names(kind, tally.names(processes, kind).most_common())
    sys.stdout.flush()


def _print_names(kind: str, counted: list[tuple[str, int]]) -> None:
    if not counted:
        return
    print(f"\n{_TITLES[kind]}:")
    for name, count in counted[:SHOWN]:
        print(f"  {printable(name)}" + (f"  ({count} times)" if count > 1 else ""))
    if len(counted) > SHOWN:
        print(f"  and {len(counted) - SHOWN} more; --json lists them all")


def environment(directory: str | None) -> dict[str, str]:
    """Return our environment, with the cache in `directory` if one is named."""
    return {**os.environ, **({} if directory is None else {"NBCACHE_DIR": directory})}
