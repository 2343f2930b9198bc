"""Servers that don't exist: how long they take, how much they stand, and what they do when it is too much."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from nbcache.remote import storage
from nbcache.remote.objects import HEAD_BYTES
from nbcache.remote.storage import StorageError

if TYPE_CHECKING:
    from nbsim.clock import Clock


class Kind(NamedTuple):
    """What a server is like."""

    median: float
    """How long it takes to answer, without load [s]."""
    sigma: float
    """By how much that varies, as the standard deviation of its logarithm."""
    per_second: float
    """How many requests it serves in a second: more of them wait."""
    limit: float = math.inf
    """How many of one kind it allows in a second: it answers 503 to the others."""
    bandwidth: float = 1.25e9
    """Of its link [bytes/s]: 10 Gbit/s."""
    errors: float = 0.0
    """Which part of the requests it answers with 500."""
    dead: tuple[float, float] = (math.inf, math.inf)
    """From when to when it answers nobody [s]."""


REDIS = Kind(0.0005, 0.5, 80_000)
HTTP = Kind(0.002, 0.5, 20_000)
# 5,500 reads and 3,500 writes a second and prefix is what Amazon says S3 stands; the lower of the two is taken for both.
S3 = Kind(0.02, 0.5, 1e6, limit=3_500, bandwidth=1e11)
KINDS = {
    "Redis": REDIS,
    "HTTP": HTTP,
    "S3": S3,
    "a slow link": REDIS._replace(bandwidth=1.25e8),
    "5 % errors": HTTP._replace(errors=0.05),
    "rate limit of 300/s": S3._replace(limit=300),
    "dead for 20 s": HTTP._replace(dead=(3.0, 23.0)),
    "black hole": HTTP._replace(dead=(0.0, math.inf)),
}
_OVERHEAD = 300
"""Of a request and its answer, besides the object [bytes]."""


class Server:
    """Keeps objects, as slowly as its kind."""

    def __init__(self, clock: Clock, kind: Kind, rng: random.Random) -> None:
        """Hold nothing yet."""
        self.objects: dict[str, bytes] = {}
        self.came: dict[str, float] = {}
        """When each object first came [s]."""
        self.counts: Counter[str] = Counter()
        self.bytes = 0
        self._clock = clock
        self._kind = kind
        self._rng = rng
        self._free = 0.0
        self._seconds: Counter[tuple[str, int]] = Counter()

    @property
    def peak(self) -> int:
        """How many requests came in the busiest second."""
        total: Counter[int] = Counter()
        for (_, second), count in self._seconds.items():
            total[second] += count
        return max(total.values(), default=0)

    def get(self, name: str, seconds: float = storage.GET_SECONDS) -> bytes | None:
        """Answer a GET, as `Storage.get` does."""
        self._serve("get", len(self.objects.get(name, b"")), seconds)
        return self._found(name)

    def head(self, name: str, seconds: float = storage.GET_SECONDS) -> bytes | None:
        """Answer a GET of the beginning, as `Storage.head` does."""
        self._serve("get", min(len(self.objects.get(name, b"")), HEAD_BYTES), seconds)
        found = self._found(name)
        return None if found is None else found[:HEAD_BYTES]

    def _found(self, name: str) -> bytes | None:
        found = self.objects.get(name)
        self.counts["found" if found is not None else "missing"] += 1
        return found

    def put(self, name: str, data: bytes) -> None:
        """Answer a PUT, as `Storage.put` does."""
        self._serve("put", len(data), storage.PUT_SECONDS)
        self.counts["overwritten" if name in self.objects else "stored"] += 1
        self.objects[name] = data
        self.came.setdefault(name, self._clock.now)

    def _serve(self, doing: str, size: int, most: float) -> None:
        """Take as long as a request takes. Raises StorageError."""
        kind, now = self._kind, self._clock.now
        self.counts[doing] += 1
        second = (doing, int(now))
        self._seconds[second] += 1
        if kind.dead[0] <= now < kind.dead[1]:
            self._fail(most, storage.UNREACHABLE, "it doesn't answer in time")
        latency = kind.median * self._rng.lognormvariate(0.0, kind.sigma)
        if self._seconds[second] > kind.limit:
            self._fail(latency, storage.LIMITED, "it is overloaded (503)")
        if self._rng.random() < kind.errors:
            self._fail(latency, storage.UNREACHABLE, "it answers 500")
        self.bytes += size + _OVERHEAD
        self._free = max(self._free, now) + max(1 / kind.per_second, (size + _OVERHEAD) / kind.bandwidth)
        latency += self._free - now
        if latency > most:
            self._fail(most, storage.UNREACHABLE, "it doesn't answer in time")
        self._clock.sleep(latency)

    def _fail(self, seconds: float, kind: str, why: str) -> None:
        self.counts[kind] += 1
        self._clock.sleep(seconds)
        raise StorageError(kind, why)
