"""Heartbeats: ``v1/daemon/<name>.json``, by which clients know whether it pays to ask.

::

    nbcache = "heartbeat" · version · name · host · pid · started, beat [Unix s]
    born       when its process began [clock ticks since the host did]; 0 when that can't be known
    workers    how many jobs it runs at once
    busy       how many it is running
    queue      how many requests wait
    seconds    what a job took lately, on average [s]
    draining   it takes no more requests
    entries, size      of the store, as far as it was counted; size in bytes
    jobs       [[function and signature, when it ended (Unix s), seconds, outcome]...]: the last ones, for people

A daemon rewrites its heartbeat every :data:`BEAT_SECONDS`. It counts as dead when the last one is :data:`DEAD_SECONDS`
old, or lies that far in the future, both by the date in it and by that of its file: whoever keeps the file dates it, so
a daemon whose clock is wrong is still asked, and no date keeps a dead one alive. On its own host it is dead as soon as
its pid is nobody's, or that of a process which was born at another time. What is not a heartbeat of this version is
none.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nbcache.passing import let_pass, suppressed
from nbcache.store import atomic, bounded, layout

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nbcache.trust import Trust

HEARTBEAT_VERSION: Final = 1
BEAT_SECONDS: Final = 2.0
DEAD_SECONDS: Final = 15.0
"""Several beats, and what a network filesystem's client may take to notice a new one [s]."""
MAX_HEARTBEAT: Final = 1 << 14
MAX_JOBS: Final = 10
"""How many jobs a heartbeat tells of."""
MAX_DAEMONS: Final = 100
"""How many heartbeats are looked at."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """See the module."""

    name: str
    host: str
    pid: int
    started: float
    beat: float
    workers: int
    busy: int
    queue: int
    seconds: float
    draining: bool
    entries: int = 0
    size: int = 0
    jobs: tuple[tuple[str, float, float, str], ...] = ()
    born: int = 0
    written: float = field(default=0.0, compare=False)
    """When the file was written, by the clock of whoever keeps it [Unix s]; not in the file."""

    @property
    def alive(self) -> bool:
        """Whether the daemon gave a sign of life lately and, if that can be known, its process is there."""
        now = time.time()
        lately = abs(now - self.beat) < DEAD_SECONDS or abs(now - self.written) < DEAD_SECONDS
        return lately and not self.gone

    @property
    def gone(self) -> bool:
        """Whether it is known that there is no such process: on this host alone."""
        return self.host == atomic.host() and _is_gone(self.pid, self.born)

    @property
    def process(self) -> tuple[str, int, float]:
        """What tells one daemon from another of the same name."""
        return self.host, self.pid, self.started

    @property
    def delay(self) -> float:
        """How long a request that is made now would wait for a worker [s]."""
        ahead = self.busy + self.queue + 1 - self.workers
        return max(0, ahead) * self.seconds / max(1, self.workers)


def birth(pid: int) -> int:
    """Return when a process of this host began [clock ticks since the host did]; 0 when that can't be known."""
    with suppressed(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat", "rb") as file:
        # proc_pid_stat(5): the 22nd field; the second is a name in brackets, which may hold anything.
        return int(file.read().rpartition(b")")[2].split()[19])
    return 0


def _is_gone(pid: int, born: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError as raised:
        let_pass(raised)
        # somebody else's
    return born != 0 and birth(pid) not in {0, born}


def write(root: str, heartbeat: Heartbeat) -> float:
    """Give a sign of life; return when that was by the clock that dates files there [Unix s]. Raises OSError."""
    said: dict[str, object] = {"nbcache": "heartbeat", "version": HEARTBEAT_VERSION}
    said.update({name: getattr(heartbeat, name) for name in _FIELDS})
    path = path_of(root, heartbeat.name)
    atomic.write_file(path, json.dumps(said).encode("ascii"), durable=False)
    return os.stat(path).st_mtime


def path_of(root: str, name: str) -> str:
    """Return where the heartbeat of the daemon of this name lies."""
    return f"{root}/{layout.DAEMON}/{name}.json"


def read(root: str, trust: Trust) -> list[Heartbeat]:
    """Return all heartbeats of trusted owners, dead ones too. Never raises."""
    try:
        names = sorted(name for name in os.listdir(f"{root}/{layout.DAEMON}") if name.endswith(".json"))
    except OSError as raised:
        let_pass(raised)
        return []
    found = [_read(f"{root}/{layout.DAEMON}/{name}", trust) for name in names[:MAX_DAEMONS] if name[0] != "."]
    return [each for each in found if each is not None]


def read_one(root: str, name: str, trust: Trust) -> Heartbeat | None:
    """Return the heartbeat of the daemon of this name, a dead one's too; None if there is none. Never raises."""
    return _read(path_of(root, name), trust)


def _jobs(said: Any) -> tuple[tuple[str, float, float, str], ...]:
    return tuple((str(what), float(when), float(seconds), str(how)) for what, when, seconds, how in said[:MAX_JOBS])


_FIELDS: Final[Mapping[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("name", "host"), str),
    **dict.fromkeys(("pid", "born", "workers", "busy", "queue", "entries", "size"), int),
    **dict.fromkeys(("started", "beat", "seconds"), float),
    "draining": bool,
    "jobs": _jobs,
}


def _read(path: str, trust: Trust) -> Heartbeat | None:
    found = bounded.read_json(path, MAX_HEARTBEAT, trust)
    try:
        said, status = found or ({}, None)
        if status is None or said["nbcache"] != "heartbeat" or said["version"] != HEARTBEAT_VERSION:
            return None
        fields: dict[str, Any] = {name: read(said[name]) for name, read in _FIELDS.items()}
        return Heartbeat(**fields, written=status.st_mtime)
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
