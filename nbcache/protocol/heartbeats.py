"""Heartbeats: ``v1/daemon/<name>.json``, by which clients know whether it pays to ask.

::

    nbcache = "heartbeat" · version · name · host · pid · started, beat [Unix s]
    born       when its process began [clock ticks since the host did]; 0 when that can't be known
    place      which boot of which host, and which numbering of processes there, its pid belongs to; "" when unknown
    workers    how many jobs it runs at once
    busy       how many it is running
    queue      how many requests wait
    seconds    what a job took lately, on average [s]
    draining   it takes no more requests
    trusts     the uids whose requests it carries out; null: not told
    queues     {uid: how many of its requests wait, of those that somebody may still wait for}
    finished   how many jobs it has ended since it began
    working    {first digits of a key: how much processor time was spent on it so far (s)}: the jobs it is running
    confined   how jobs are kept from everything else, in a few words; "": not known yet
    entries, size      of the store, as far as it was counted; size in bytes
    jobs       [[function and signature, when it ended (Unix s), seconds, outcome]...]: the last ones, for people

That a daemon gives signs of life doesn't mean that anything gets done. ``finished`` and ``working`` tell that: a job
whose processor time doesn't grow is stopped, or hangs.

A daemon rewrites its heartbeat every :data:`BEAT_SECONDS`. It counts as dead when the last one is :data:`DEAD_SECONDS`
old, or lies that far in the future, both by the date in it and by that of its file: whoever keeps the file dates it, so
a daemon whose clock is wrong is still asked, and no date keeps a dead one alive. Where its pid means the same process
to whoever reads (one host may have many PID namespaces, and containers in all of them have its name), it is dead as
soon as that pid is nobody's, or that of a process which was born at another time. What is not a heartbeat of this
version is none.

A heartbeat is at most :data:`MAX_HEARTBEAT` bytes as it is written: in ASCII, where one character may take twelve. Of
the jobs, as many are told as fit in; of ``trusts`` and ``queues``, all or nothing. Readers look at the
:data:`MAX_DAEMONS` newest, and a daemon removes those of an hour ago (:func:`sweep`): one that lives writes again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Final

from nbcache import other_processes
from nbcache.file_trust import Trust
from nbcache.grammar import Reader, document, fields, flag, mapping, maybe, natural, number, row, several, text
from nbcache.one_line import one_line
from nbcache.passing_exceptions import let_pass, suppressed
from nbcache.process import os, time
from nbcache.records import Record
from nbcache.store import atomic, content, layout
from nbcache.store.folders import Folder

HEARTBEAT_VERSION: Final = 3
BEAT_SECONDS: Final = 2.0
WORK_SECONDS: Final = 0.2
"""How often it is rewritten while jobs are running [s]: whoever waits wants to see that they get on."""
DEAD_SECONDS: Final = 15.0
"""Several beats, and what a network filesystem's client may take to notice a new one [s]."""
MAX_HEARTBEAT: Final = 1 << 14
MAX_JOBS: Final = 10
"""How many jobs a heartbeat tells of."""
MAX_WORKING: Final = 64
"""How many running jobs a heartbeat tells of."""
MAX_UIDS: Final = 100
"""How many uids each of ``trusts`` and ``queues`` names."""
SHOWN_DIGITS: Final = 16
"""How many digits of a key tell a running job."""
SHOWN_SCOPE: Final = 8
"""How many digits tell what is done for a key (the scope of a request)."""
_HELPER: Final = "-jobs-"
MAX_DAEMONS: Final = 100
"""How many heartbeats are looked at."""
FORGOTTEN_SECONDS: Final = 3600.0
"""From this age a heartbeat is of no interest even to people [s]."""
MAX_SHOWN: Final = 300
"""How much of a function's name and of a reason a heartbeat tells [characters]."""


class Heartbeat(Record):
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
    place: str = ""
    trusts: tuple[int, ...] | None = None
    queues: Mapping[int, int] = MappingProxyType({})
    finished: int = 0
    working: Mapping[str, float] = MappingProxyType({})
    """By the first digits of the key."""
    confined: str = ""
    written: float = 0.0
    """When the file was written, by the clock of whoever keeps it [Unix s]; not in the file."""

    @property
    def alive(self) -> bool:
        """Whether the daemon gave a sign of life lately and, if that can be known, its process is there."""
        now = time.time()
        lately = abs(now - self.beat) < DEAD_SECONDS or abs(now - self.written) < DEAD_SECONDS
        return lately and not self.gone

    @property
    def gone(self) -> bool:
        """Whether it is known that there is no such process: only where its pid is one of ours."""
        return self.place != "" and self.place == other_processes.place() and _is_gone(self.pid, self.born)

    @property
    def gives_way(self) -> bool:
        """Whether it is a helper, whose workers let everything else go first."""
        return self.name.startswith(f"{self.host}{_HELPER}")

    @property
    def process(self) -> tuple[str, int, float]:
        """What tells one daemon from another of the same name."""
        return self.host, self.pid, self.started

    def hears(self, uid: int) -> bool:
        """Whether it carries out this uid's requests, as far as it tells."""
        return self.trusts is None or uid in self.trusts

    def delay(self, uid: int) -> float:
        """How long a request that this uid makes now would wait for a worker [s].

        Uids take turns, so no more of another one's requests come before it than of its own.
        """
        mine = self.queues.get(uid, 0)
        queue = sum(min(count, mine + 1) for count in self.queues.values()) if self.queues else self.queue
        ahead = self.busy + queue + 1 - self.workers
        return max(0, ahead) * self.seconds / max(1, self.workers)

    def spent(self, key: str, scope: str = "") -> float | None:
        """How much processor time a running job has had [s]; None if none is running for this key.

        With a *scope*, only if it does what a request of that one asks for: others may have anything done for a key.
        """
        shown = key[:SHOWN_DIGITS]
        names = [work_name(key, scope), shown] if scope else [each for each in self.working if each.startswith(shown)]
        return next((self.working[each] for each in names if each in self.working), None)


def helper_name(uid: int) -> str:
    """Return what the helper of a user on this host is called among the daemons of a store."""
    return f"{layout.host()}{_HELPER}{uid}"


def work_name(key: str, scope: str) -> str:
    """Return by what a running job is told: the first digits of its key, then of what is done for it."""
    return key[:SHOWN_DIGITS] + scope[:SHOWN_SCOPE]


def _is_gone(pid: int, born: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError as raised:
        let_pass(raised)
        # somebody else's
    return born != 0 and other_processes.birth(pid) not in {0, born}


def write(root: str, heartbeat: Heartbeat) -> float:
    """Give a sign of life; return when that was by the clock that dates files there [Unix s]. Raises OSError."""
    path = path_of(root, heartbeat.name)
    atomic.write_file(path, encode(heartbeat), durable=False)
    return os.stat(path).st_mtime


def encode(heartbeat: Heartbeat) -> bytes:
    """Return a heartbeat as its file holds it, with as many of its jobs as fit in."""
    said: dict[str, object] = {"nbcache": "heartbeat", "version": HEARTBEAT_VERSION}
    said.update({name: getattr(heartbeat, name) for name in _FIELDS})
    trusts, queues = heartbeat.trusts, heartbeat.queues
    said["trusts"] = None if trusts is None or len(trusts) > MAX_UIDS else trusts
    said["queues"] = {} if len(queues) > MAX_UIDS else dict(queues)
    working = islice(heartbeat.working.items(), MAX_WORKING)
    said["working"] = {name[: SHOWN_DIGITS + SHOWN_SCOPE]: cpu for name, cpu in working}
    jobs = [
        (one_line(what[:MAX_SHOWN])[:MAX_SHOWN], when, seconds, one_line(how[:MAX_SHOWN])[:MAX_SHOWN])
        for what, when, seconds, how in heartbeat.jobs[:MAX_JOBS]
    ]
    while True:
        said["jobs"] = jobs
        data = json.dumps(said).encode("ascii")
        if len(data) <= MAX_HEARTBEAT or not jobs:
            return data
        jobs.pop()


def path_of(root: str, name: str) -> str:
    """Return where the heartbeat of the daemon of this name lies."""
    return f"{root}/{layout.DAEMON}/{name}.json"


def read(root: str, trust: Trust) -> list[Heartbeat]:
    """Return the newest heartbeats of trusted owners, dead ones too, by name. Never raises."""
    now = time.time()
    found: list[Heartbeat] = []
    with suppressed(OSError), Folder(root, layout.DAEMON) as folder:
        # A date in the future is no sign of life, however far ahead.
        for _, name in sorted((abs(now - written), name) for name, written in _dated(folder)):
            heartbeat = _read(folder, name, trust)
            if heartbeat is not None:
                found.append(heartbeat)
                if len(found) >= MAX_DAEMONS:
                    break
    return sorted(found, key=lambda each: each.name)


def read_one(root: str, name: str, trust: Trust) -> Heartbeat | None:
    """Return the heartbeat of the daemon of this name, a dead one's too; None if there is none. Never raises."""
    with suppressed(OSError), Folder(root, layout.DAEMON) as folder:
        return _read(folder, f"{name}.json", trust)
    return None


def sweep(root: str, trust: Trust, now: float | None = None) -> int:
    """Remove what trusted owners left as heartbeats and hasn't changed for an hour; return how many. Never raises.

    By both of its dates, and whatever its version is: a daemon that lives after all has it back with the next beat.
    ``now`` is the time by the clock that dates files there [Unix s], for who knows it: our own may have jumped.
    """
    count = 0
    now = time.time() if now is None else now
    with suppressed(OSError), Folder(root, layout.DAEMON) as folder:
        for name, written in list(_dated(folder)):
            if abs(now - written) < FORGOTTEN_SECONDS:
                continue
            heartbeat = _read(folder, name, trust)
            if heartbeat is not None:
                forgotten = abs(time.time() - heartbeat.beat) >= FORGOTTEN_SECONDS
            else:
                forgotten = folder.owner(name) in trust.uids
            count += forgotten and folder.remove(name)
    return count


def _dated(folder: Folder) -> Iterator[tuple[str, float]]:
    for item in folder.json_files():
        with suppressed(OSError):
            yield item.name, item.stat(follow_symlinks=False).st_mtime


_FIELDS: Final[Mapping[str, Reader]] = {
    **dict.fromkeys(("name", "host", "place", "confined"), text),
    **dict.fromkeys(("pid", "born", "workers", "busy", "queue", "entries", "size", "finished"), natural),
    **dict.fromkeys(("started", "beat", "seconds"), number),
    "draining": flag,
    "jobs": several(row(text, number, number, text)),
    "trusts": maybe(several(natural)),
    "queues": lambda value: {int(uid): count for uid, count in mapping(natural)(value).items()},
    "working": mapping(number),
}
_HEARTBEAT: Final = document("heartbeat", HEARTBEAT_VERSION, fields(_FIELDS, others=True))


def _read(folder: Folder, name: str, trust: Trust) -> Heartbeat | None:
    found = content.read_json(
        name, MAX_HEARTBEAT, trust, folder.open, lambda data: Heartbeat(**_HEARTBEAT(content.parsed(data)))
    )
    return None if found is None else found[0]._replace(written=found[1].st_mtime)
