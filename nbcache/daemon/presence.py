"""What others see of a daemon: a name that no other one has, and a heartbeat."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from nbcache import processes
from nbcache.daemon import turns
from nbcache.protocol import heartbeats
from nbcache.protocol.heartbeats import Heartbeat
from nbcache.store import layout

if TYPE_CHECKING:
    from nbcache.daemon.commons import Commons

_log = logging.getLogger("nbcache")
NEWS_SECONDS: Final = 0.2
"""How long a heartbeat may say what isn't so any more [s]."""


class Presence:
    """One daemon, as its heartbeat tells it."""

    def __init__(self, commons: Commons) -> None:
        """Be seen by nobody yet."""
        self._commons = commons
        self._started = time.time()
        self._beat = -heartbeats.BEAT_SECONDS
        self._told: tuple[object, ...] = ()
        # When the last heartbeat was written: by the clock that dates files in the store, and by our own monotonic one.
        self._dated = (self._started, time.monotonic())
        self._finished = 0
        self._seconds = 1.0
        self._recent: deque[tuple[str, float, float, str]] = deque(maxlen=heartbeats.MAX_JOBS)
        self.name = ""
        """Among the daemons of its store, once it was chosen."""
        self.confined = ""
        """What jobs are kept from, in a few words; empty before the first."""

    def choose_name(self) -> None:
        """Be named as the options say, or by this host, if no living daemon is."""
        self.name = self._commons.options.name or layout.host()
        if self._is_taken():
            self._choose_another()

    def _choose_another(self) -> None:
        # Not the pid: on two hosts, in containers, both may be 1.
        taken, self.name = self.name, f"{self.name}-{os.urandom(3).hex()}"
        _log.warning("another daemon named %s serves this store; this one is named %s", taken, self.name)

    def _is_taken(self) -> bool:
        """Whether the heartbeat of our name is that of another daemon, which lives."""
        other = heartbeats.read_one(self._commons.store.path, self.name, self._commons.store.trust)
        return other is not None and other.alive and other.process != (layout.host(), os.getpid(), self._started)

    def file_time(self) -> float:
        """What time it is by the clock that dates files in the store [Unix s]."""
        written, then = self._dated
        return written + time.monotonic() - then

    def finished(self, seconds: float) -> None:
        """Tell that a job ended, after so long [s]."""
        self._finished += 1
        self._seconds += (seconds - self._seconds) / 8

    def answered(self, what: str, seconds: float, outcome: str) -> None:
        """Tell what became of a job that was answered now, after so long [s]."""
        self._recent.appendleft((what, time.time(), seconds, outcome))

    def _news(self) -> tuple[object, ...]:
        """What clients decide by whether to ask."""
        return self._commons.jobs.busy, len(self._commons.jobs), self._finished

    @property
    def is_stale(self) -> bool:
        """Whether the heartbeat says what isn't so any more."""
        return self._news() != self._told[:-1]

    def give_sign(self, *, draining: bool = False) -> None:
        """Write a heartbeat, if it is time for one; who is *draining* takes no more requests, and says so at once."""
        now = time.monotonic()
        # News is told sooner than that nothing happened.
        news = (*self._news(), draining)
        calm = heartbeats.WORK_SECONDS if self._commons.jobs.busy else heartbeats.BEAT_SECONDS
        if now - self._beat < (calm if news == self._told else NEWS_SECONDS) and not draining:
            return
        # Two that began at once, or couldn't see each other: one gives in here, or both.
        if self._told and self._is_taken():
            self._choose_another()
        self._beat, self._told = now, news
        problem = None
        try:
            self._dated = (heartbeats.write(self._commons.store.path, self._heartbeat(draining)), now)
        except OSError as error:
            problem = f"the heartbeat can't be written, so no client will ask this daemon: {error.strerror or error}"
        self._commons.problems.report("heartbeat", problem)

    def _heartbeat(self, draining: bool) -> Heartbeat:
        commons, jobs = self._commons, self._commons.jobs
        return Heartbeat(
            self.name, layout.host(), os.getpid(), self._started, time.time(),
            commons.workers, jobs.busy, len(jobs) - jobs.busy, self._seconds, draining, *commons.stock,
            tuple(self._recent),
            processes.birth(os.getpid()), processes.place(),
            tuple(sorted(commons.heard.uids)), turns.queues(jobs.waiting), self._finished, jobs.working,
            self.confined,
        )  # fmt: skip

    def withdraw(self) -> None:
        """Be gone: remove the heartbeat, unless it is another daemon's."""
        if not self._is_taken():
            with suppress(OSError):
                os.unlink(heartbeats.path_of(self._commons.store.path, self.name))
