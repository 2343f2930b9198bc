"""Keys that somebody asks for, from the first request to the answer, and whose request is next.

Uids take turns, and of each one's, those come first that somebody still waits for.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from nbcache.protocol import heartbeats

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from concurrent.futures import Executor, Future

    from nbcache.daemon.claims import Claims
    from nbcache.daemon.publisher import Ticket
    from nbcache.protocol.requests import Request
    from nbcache.protocol.spool import Waiting
    from nbcache.store.locks import Lease

FRESH_SECONDS: Final = 60.0
"""Up to this age, somebody may still wait for a request [s]; an older one is built when nothing else is to be done."""
QUOTA: Final = 1000
"""How many requests of one uid are kept in mind; the others stay in the spool until there is room."""


class Asked(Protocol):
    """What waits for its turn."""

    uid: int
    asked: float
    """When it was asked for, by the monotonic clock [s]."""
    future: Any
    """Where it runs; None as long as it waits."""


J = TypeVar("J", bound=Asked)


def is_fresh(job: Asked) -> bool:
    """Whether somebody may still wait for it."""
    return time.monotonic() - job.asked < FRESH_SECONDS


def ordered(jobs: Iterable[J], served: Mapping[int, float]) -> list[J]:
    """Return those that wait in their order: one of each uid, then another one of each.

    First comes the uid of which the fewest are running, then whose turn is the longest ago: *served* has when that was.
    """
    lines: defaultdict[int, list[J]] = defaultdict(list)
    running = Counter[int]()
    for job in jobs:
        if job.future is None:
            lines[job.uid].append(job)
        else:
            running[job.uid] += 1
    for line in lines.values():
        line.sort(key=lambda job: (not is_fresh(job), job.asked))
    in_turn = sorted(lines, key=lambda uid: (running[uid], served.get(uid, 0.0)))
    return [job for turn in zip_longest(*(lines[uid] for uid in in_turn)) for job in turn if job is not None]


def queues(jobs: Iterable[Asked]) -> dict[int, int]:
    """Return how many requests of each uid somebody may still wait for."""
    return dict(Counter(job.uid for job in jobs if is_fresh(job)))


class Room(Generic[J]):
    """How many requests of each uid may be taken in, during one turn of the daemon."""

    def __init__(self, jobs: dict[str, J]) -> None:
        """Count what is there; *jobs* is changed by :meth:`has` alone."""
        self._jobs = jobs
        self._held = Counter(job.uid for job in jobs.values())
        self._stale: dict[int, list[str]] = {}

    def has(self, uid: int, *, insists: bool) -> bool:
        """Whether there is room for one more; for who *insists*, one that nobody waits for goes back to the spool."""
        if self._held[uid] < QUOTA:
            return True
        if not insists:
            return False
        if uid not in self._stale:
            mine = [(job.asked, key) for key, job in self._jobs.items() if job.uid == uid]
            stale = [(asked, key) for asked, key in mine if _may_go(self._jobs[key])]
            self._stale[uid] = [key for _, key in sorted(stale, reverse=True)]
        while self._stale[uid]:
            key = self._stale[uid].pop()
            job = self._jobs.get(key)
            if job is not None and _may_go(job):
                del self._jobs[key]
                self._held[uid] -= 1
                return True
        return False

    def take(self, uid: int) -> None:
        """One more was taken in."""
        self._held[uid] += 1


def _may_go(job: Asked) -> bool:
    return job.future is None and not is_fresh(job)


@dataclass(slots=True)
class Job:
    """A key that somebody asks for."""

    request: Request
    paths: set[str]
    """The requests for it in the spool."""
    uid: int
    """Who asked first."""
    asked: float
    """When that was, by the monotonic clock [s]."""
    behind: dict[int, Waiting] = field(default_factory=dict)
    """For each other uid, the first request for the same key that what comes of this one doesn't answer."""
    attempts: int = 0
    lease: Lease | None = None
    claims: Claims | None = None
    """What it has claimed, if it goes through a profile."""
    ticket: Ticket | None = None
    """Of what it may hand in, since it was begun last."""
    refused: float = -math.inf
    """When its lease was somebody else's last, by the monotonic clock [s]."""
    future: Future[Any] | None = None
    pool: Executor | None = None
    """Where it runs, or ran."""
    stays: bool = False
    """Whether it is built on this host, because the farm's are no environment for it."""
    started: float = 0.0
    looked: bool = False
    """Whether the remote tiers were asked for it."""
    look: Future[None] | None = None
    """Done when they have answered; None if there are none."""

    @property
    def worked(self) -> float | None:
        """How much processor time was spent on it so far [s]; None if that isn't known."""
        # Other executors needn't know.
        ask = getattr(self.pool, "worked", None)
        worked: float | None = None if ask is None or self.future is None else ask(self.future)
        return worked

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


class Jobs(dict[str, Job]):
    """All that one daemon was asked for and hasn't answered, by key."""

    def __init__(self) -> None:
        """Begin with nothing."""
        super().__init__()
        self.next: deque[Waiting] = deque()
        """What was behind jobs that are over, and is to be taken in before anything else for these keys."""

    def over(self, key: str) -> None:
        """Forget a job; those of other users that waited behind it are next, in the order in which they came."""
        job = self.pop(key, None)
        if job is not None:
            self.next.extend(job.behind.values())

    @property
    def busy(self) -> int:
        """How many are under way."""
        return sum(job.future is not None for job in self.values())

    @property
    def waiting(self) -> list[Job]:
        """Those that aren't running."""
        return [job for job in self.values() if job.future is None]

    @property
    def working(self) -> dict[str, float]:
        """How much processor time each running one has had [s], by its key: those first that are asked for one by
        one, of which there are only so many.
        """
        found: dict[str, float] = {}
        claimed: dict[str, float] = {}
        for key, job in self.items():
            worked = job.worked
            if worked is not None and job.claims is not None:
                working = job.claims.working(worked).items()
                claimed.update({heartbeats.work_name(each, ""): spent for each, spent in working})
            elif worked is not None:
                found[heartbeats.work_name(key, job.request.scope)] = worked
        return found | claimed
