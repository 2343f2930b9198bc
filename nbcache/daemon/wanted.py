"""A key that somebody asks for, from the first request to the answer."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nbcache.protocol import heartbeats

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from nbcache.protocol.requests import Request
    from nbcache.protocol.spool import Waiting
    from nbcache.store.locks import Lease


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

    def let_go(self) -> None:
        """Let others build it."""
        lease, self.lease = self.lease, None
        if lease is not None:
            lease.release()


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
        """How much processor time each running one has had [s], by its key."""
        running = ((heartbeats.work_name(key, job.request.scope), job.worked) for key, job in self.items())
        return {name: worked for name, worked in running if worked is not None}
