"""What processes compiled, event by event: the record behind ``NBCACHE_COUNT`` and ``nbcache doctor -- CMD``.

A directory holds one file for each process, ``<pid>-<random>.jsonl``. Its grammar, one JSON object a line::

    file  = start *event
    start = {"tally": 1, "pid": int, "parent": int, "argv": [str, ...]}
    event = {"what": "compile" | "pipeline" | "llvm", "name": str}

A line is appended by one ``write`` to a file that is open for no longer than that, so the record is complete up to the
moment of a SIGKILL, ends with no half-written process, and survives programs that close every descriptor.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

from nbcache import regular_files
from nbcache.process import os

VERSION = 1
COMPILE, PIPELINE, LLVM = KINDS = ("compile", "pipeline", "llvm")
"""Numba's own compile events; runs of type inference; libraries that LLVM optimised."""
_SUFFIX = ".jsonl"


class Tally:
    """Writes the record of this process, and of each child it forks. No method raises."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def note(self, what: str, name: str) -> None:
        """Append one event."""
        self._append({"what": what, "name": name})

    def _begin(self) -> None:
        pid = os.getpid()
        # Two containers that share the directory have the same process ids.
        self._path = os.path.join(self._directory, f"{pid}-{os.urandom(6).hex()}{_SUFFIX}")
        self._append({"tally": VERSION, "pid": pid, "parent": os.getppid(), "argv": sys.orig_argv})

    def _append(self, record: dict[str, object]) -> None:
        # A program being watched must not fail because the watching does.
        with suppress(OSError):
            regular_files.append(self._path, json.dumps(record).encode() + b"\n", 0o600)


@dataclass(frozen=True, slots=True)
class Process:
    """What one process did: the names of what it compiled, by kind of event, in order."""

    pid: int
    parent: int
    argv: tuple[str, ...]
    events: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in KINDS})


def read(directory: str) -> list[Process]:
    """Return the processes whose records are in `directory`, those of one version; what can't be read is left out."""
    found = []
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        # A FIFO would have to be waited for.
        if not name.endswith(_SUFFIX) or not os.path.isfile(path):
            continue
        with open(path, encoding="utf-8", errors="replace") as file:
            process = _parse(file.read())
        if process is not None:
            found.append(process)
    return found


def _parse(text: str) -> Process | None:
    start, *events = text.splitlines() or [""]
    try:
        record = json.loads(start)
        if record["tally"] != VERSION:
            return None
        process = Process(record["pid"], record["parent"], tuple(record["argv"]))
    except (ValueError, KeyError, TypeError):
        return None
    for line in events:
        try:
            event = json.loads(line)
            process.events[event["what"]].append(event["name"])
        except (ValueError, KeyError, TypeError):  # torn by a full disk
            continue
    return process


def totals(processes: list[Process]) -> dict[str, int]:
    """Return how many events of each kind there were in all."""
    return {kind: sum(len(process.events[kind]) for process in processes) for kind in KINDS}


def names(processes: list[Process], kind: str) -> Counter[str]:
    """Return how often each name occurs among the events of a kind."""
    return Counter(name for process in processes for name in process.events[kind])
