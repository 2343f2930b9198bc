"""Heartbeats: ``v1/daemon/<name>.json``, by which clients know whether it pays to ask.

::

    nbcache = "heartbeat" · version · name · host · pid · started, beat [Unix s]
    workers    how many jobs it runs at once
    busy       how many it is running
    queue      how many requests wait
    seconds    what a job took lately, on average [s]
    draining   it takes no more requests
    entries, size      of the store, as far as it was counted; size in bytes
    jobs       [[function and signature, when it ended (Unix s), seconds, outcome]...]: the last ones, for people

A daemon rewrites its heartbeat every :data:`BEAT_SECONDS`. It counts as dead :data:`DEAD_SECONDS` after the last one,
or when that long lies in the future (a clock jumped, or two hosts disagree: to be asked for nothing is harmless); and
on its own host as soon as nobody has its pid. What is not a heartbeat of this version is none.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nbcache.store import atomic, bounded, layout

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nbcache.store.trust import Trust

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

    @property
    def alive(self) -> bool:
        """Whether the daemon gave a sign of life lately and, if that can be known, its process is there."""
        return abs(time.time() - self.beat) < DEAD_SECONDS and not (self.host == atomic.host() and _is_gone(self.pid))

    @property
    def delay(self) -> float:
        """How long a request that is made now would wait for a worker [s]."""
        ahead = self.busy + self.queue + 1 - self.workers
        return max(0, ahead) * self.seconds / max(1, self.workers)


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False
    return False


def write(root: str, heartbeat: Heartbeat) -> None:
    """Give a sign of life. Raises OSError."""
    said = {"nbcache": "heartbeat", "version": HEARTBEAT_VERSION}
    said.update({name: getattr(heartbeat, name) for name in Heartbeat.__slots__})
    atomic.write_file(path_of(root, heartbeat.name), json.dumps(said).encode("ascii"), durable=False)


def path_of(root: str, name: str) -> str:
    """Return where the heartbeat of the daemon of this name lies."""
    return f"{root}/{layout.DAEMON}/{name}.json"


def read(root: str, trust: Trust) -> list[Heartbeat]:
    """Return all heartbeats of trusted owners, dead ones too. Never raises."""
    try:
        names = sorted(name for name in os.listdir(f"{root}/{layout.DAEMON}") if name.endswith(".json"))
    except OSError:
        return []
    found = [_read(f"{root}/{layout.DAEMON}/{name}", trust) for name in names[:MAX_DAEMONS] if name[0] != "."]
    return [each for each in found if each is not None]


def _jobs(said: Any) -> tuple[tuple[str, float, float, str], ...]:
    return tuple((str(what), float(when), float(seconds), str(how)) for what, when, seconds, how in said[:MAX_JOBS])


_FIELDS: Final[Mapping[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("name", "host"), str),
    **dict.fromkeys(("pid", "workers", "busy", "queue", "entries", "size"), int),
    **dict.fromkeys(("started", "beat", "seconds"), float),
    "draining": bool,
    "jobs": _jobs,
}


def _read(path: str, trust: Trust) -> Heartbeat | None:
    found = bounded.read_json(path, MAX_HEARTBEAT, trust)
    try:
        said = {} if found is None else found[0]
        if said["nbcache"] != "heartbeat" or said["version"] != HEARTBEAT_VERSION:
            return None
        fields: dict[str, Any] = {name: read(said[name]) for name, read in _FIELDS.items()}
        return Heartbeat(**fields)
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
