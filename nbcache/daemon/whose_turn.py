"""What users ask for, each key of each user, from the first request to the answer, and whose request is next.

Uids take turns, and of each one's, those come first that somebody still waits for. What several users ask for is a job
of each of them, in that user's place: so nobody waits behind all that somebody else has asked for before it. The key's
lease keeps two of them from running at once, and for the second one there is mostly nothing left to do.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

from nbcache.daemon.pool import ForkingPool
from nbcache.daemon.publisher import Claims, Ticket
from nbcache.protocol import heartbeats
from nbcache.protocol.requests import Request
from nbcache.store import layout
from nbcache.store.locks import Lease

FRESH_SECONDS: Final = 60.0
"""Up to this age, somebody may still wait for a request [s]; an older one is built when nothing else is to be done."""
QUOTA: Final = 1000
"""How many requests of one uid are kept in mind; the others stay in the spool until there is room."""
MAX_BYTES: Final = 64 << 20
"""About how large they may be together [bytes], for the same reason."""


def is_fresh(job: Job) -> bool:
    """Whether somebody may still wait for it."""
    return time.monotonic() - job.asked < FRESH_SECONDS


def ordered(jobs: Iterable[Job], served: Mapping[int, float]) -> list[Job]:
    """Return those that wait in their order: one of each uid, then another one of each.

    First comes the uid of which the fewest are running, then whose turn is the longest ago: *served* has when that was.
    """
    lines: defaultdict[int, list[Job]] = defaultdict(list)
    running = Counter[int]()
    for job in jobs:
        if job.future is None:
            lines[job.uid].append(job)
        else:
            running[job.uid] += 1
    for line in lines.values():
        # Those that couldn't begin come last, so that all of them are tried, however many there are.
        line.sort(key=lambda job: (not is_fresh(job), job.refused, job.asked))
    in_turn = sorted(lines, key=lambda uid: (running[uid], served.get(uid, 0.0)))
    return [job for turn in zip_longest(*(lines[uid] for uid in in_turn)) for job in turn if job is not None]


def queues(jobs: Iterable[Job]) -> dict[int, int]:
    """Return how many requests of each uid somebody may still wait for."""
    return dict(Counter(job.uid for job in jobs if is_fresh(job)))


class Room:
    """How many requests of each uid may be taken in, during one turn of the daemon."""

    def __init__(self, jobs: dict[tuple[int, str], Any]) -> None:
        """Count what is there; *jobs* is changed by :meth:`has` alone."""
        self._jobs = jobs
        self._held = Counter(uid for uid, _key in jobs)
        self._bytes = Counter[int]()
        for (uid, _key), job in jobs.items():
            self._bytes[uid] += job.size
        self._stale: dict[int, list[tuple[int, str]]] = {}

    def has(self, uid: int, *, insists: bool) -> bool:
        """Whether there is room for one more; for who *insists*, one that nobody waits for goes back to the spool."""
        if self._held[uid] < QUOTA and self._bytes[uid] < MAX_BYTES:
            return True
        if not insists:
            return False
        if uid not in self._stale:
            mine = [(job.asked, each) for each, job in self._jobs.items() if each[0] == uid and _may_go(job)]
            self._stale[uid] = [each for _, each in sorted(mine, reverse=True)]
        while self._stale[uid]:
            each = self._stale[uid].pop()
            job = self._jobs.get(each)
            if job is not None and _may_go(job):
                del self._jobs[each]
                self._held[uid] -= 1
                self._bytes[uid] -= job.size
                return True
        return False

    def take(self, uid: int, size: int) -> None:
        """One more was taken in, of this size [bytes]."""
        self._held[uid] += 1
        self._bytes[uid] += size


def _may_go(job: Job) -> bool:
    return job.future is None and not is_fresh(job)


@dataclass(slots=True)
class Job:
    """A key that a user asks for."""

    request: Request
    paths: set[str]
    """His requests for it in the spool."""
    asked: float
    """When he asked first, by the monotonic clock [s]."""
    suspect: bool = False
    """Whether programs crashed with an entry of this key: then what is built in its place is tried."""
    attempts: int = 0
    lease: Lease | None = None
    claims: Claims | None = None
    """What it has claimed, if it goes through a profile."""
    unasked: bool = False
    """Whether a file was saved, and nobody has asked: it gives way to all that somebody has asked for."""
    superseded: bool = False
    """Whether what it compiles was saved anew since."""
    built: int = 0
    """How many entries came of it so far, if it goes through a profile."""
    left: int = 0
    """How many functions of that it says it couldn't compile."""
    ticket: Ticket | None = None
    """Of what it may hand in, since it was begun last."""
    refused: float = -math.inf
    """When its lease was somebody else's last, or another user's job had the key, by the monotonic clock [s]."""
    future: Future[Any] | None = None
    pool: ForkingPool | None = None
    """Where it runs, or ran."""
    stays: bool = False
    """Whether it is built on this host, because the farm's are no environment for it."""
    started: float = 0.0
    looked: bool = False
    """Whether the remote tiers were asked for it."""
    look: Future[None] | None = None
    """Done when they have answered; None if there are none."""

    @property
    def uid(self) -> int:
        """Who asked."""
        return self.request.uid

    @property
    def size(self) -> int:
        """About how much memory it takes [bytes]."""
        return self.request.size

    @property
    def held(self) -> str:
        """The key whose lease it has while it runs. Two users may ask for lanes under one key: these run at once."""
        return layout.room(self.request.key, self.uid) if self.request.is_profile else self.request.key

    @property
    def worked(self) -> float | None:
        """How much processor time was spent on it so far [s]; None if that isn't known."""
        return None if self.pool is None or self.future is None else self.pool.worked(self.future)

    def has_claimed(self, key: str) -> bool:
        """Whether it is building that as part of a profile."""
        claims = self.claims
        return claims is not None and claims.has(key)

    def let_go(self) -> None:
        """Let others build it."""
        lease, self.lease = self.lease, None
        if lease is not None:
            lease.release()
        claims, self.claims = self.claims, None
        if claims is not None:
            claims.end()


class Jobs(dict[tuple[int, str], Job]):
    """All that one daemon was asked for and hasn't answered, by user and key. Threads may look."""

    def begin(self, job: Job) -> None:
        """Have a job, in the place of another of the same user and key."""
        self[job.uid, job.request.key] = job

    def over(self, job: Job) -> None:
        """Forget a job."""
        if self.get((job.uid, job.request.key)) is job:
            del self[job.uid, job.request.key]

    def askers(self, key: str) -> set[int]:
        """Return who asks for a key."""
        return {uid for uid, each in list(self) if each == key}

    @property
    def busy(self) -> int:
        """How many are under way."""
        return sum(job.future is not None for job in self.values())

    @property
    def awaited(self) -> int:
        """How many are under way that somebody has asked for."""
        return sum(job.future is not None and not job.unasked for job in self.values())

    @property
    def waiting(self) -> list[Job]:
        """Those that aren't running."""
        return [job for job in self.values() if job.future is None]

    @property
    def working(self) -> dict[str, float]:
        """How much processor time each running one has had [s], by key and scope: those first that are asked for one by
        one, of which there are only so many.
        """
        found: dict[str, float] = {}
        claimed: dict[str, float] = {}
        for (_, key), job in self.items():
            worked = job.worked
            if worked is not None and job.claims is not None:
                working = job.claims.working(worked).items()
                claimed.update({heartbeats.work_name(each, ""): spent for each, spent in working})
            elif worked is not None:
                found[heartbeats.work_name(key, job.request.scope)] = worked
        return found | claimed
