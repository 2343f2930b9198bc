"""What others see of a daemon: its name, a heartbeat, what systemd hears; and how a helper gives way to them."""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from nbcache import other_processes
from nbcache.daemon import whose_turn
from nbcache.daemon.shared_parts import Commons
from nbcache.one_line import log
from nbcache.protocol import heartbeats
from nbcache.protocol.heartbeats import Heartbeat
from nbcache.store import layout

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
        log.warning("another daemon named %s serves this store; this one is named %s", taken, self.name)

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

    def got_ready(self) -> None:
        """Tell that an interpreter has been started, which has imported Numba by now."""
        self._finished += 1

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
            other_processes.birth(os.getpid()), other_processes.place(),
            tuple(sorted(commons.heard.uids)), whose_turn.queues(jobs.waiting), self._finished, jobs.working,
            self.confined,
        )  # fmt: skip

    def withdraw(self) -> None:
        """Be gone: remove the heartbeat, unless it is another daemon's."""
        if not self._is_taken():
            with suppress(OSError):
                os.unlink(heartbeats.path_of(self._commons.store.path, self.name))


LOWEST: Final = 19
"""The priority of a helper and of its workers."""
FIRST_TO_GO: Final = 1000
"""What the kernel goes by to choose whom it kills (proc_pid_oom_score_adj(5)), for both."""


def name_of_helper() -> str:
    """Return what a daemon that a program started for itself (``NBCACHE_JOBS``) is called among those of a store."""
    return heartbeats.helper_name(os.geteuid())


def key_of_helper() -> str:
    """Return the key whose lease a helper holds while it is there: there is one for each user, host and store."""
    return layout.reserved(f"the helper {name_of_helper()}")


def give_way() -> None:
    """Let all other processes go first, for this one and those that it starts."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, LOWEST)
    # Where sessions share the processors equally (sched_autogroup), this is one of its own, of which priorities say
    # nothing to others.
    with suppress(OSError), open("/proc/self/autogroup", "w", encoding="ascii") as file:
        file.write(str(LOWEST))
    # Where memory runs out, it isn't the program that has to go.
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(str(FIRST_TO_GO))


_SEND_SECONDS: Final = 1.0
"""How long a manager that doesn't read may hold up the daemon [s]."""


class Notifier:
    """The line to the service manager, if there is one: sd_notify(3).

    The protocol is one datagram to a socket named in the environment, so it needs no library: ``systemd-python`` and
    ``cysystemd`` are C and need libsystemd to build, and ``sdnotify`` is as many lines as these, without the watchdog's
    interval or a bound on how long sending may take. A manager that can't be told is no reason to stop: nothing raises.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Find the manager by NOTIFY_SOCKET in ``environ``."""
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))

    def ready(self, status: str) -> None:
        """Say that starting, or reloading, is over; ``systemctl status`` shows the first line of *status*."""
        # What comes after a line break would be another assignment.
        self._send("READY=1", f"STATUS={' '.join(status.split())}")

    def reloading(self) -> None:
        """Say that the configuration is being read again; :meth:`ready` ends it."""
        # The clock that Type=notify-reload compares with its own.
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self) -> None:
        """Say that the daemon is about to end."""
        self._send("STOPPING=1")

    def alive(self) -> None:
        """Keep the watchdog from restarting the daemon. Only what proves that it works may call this."""
        self._send("WATCHDOG=1")

    def _send(self, *lines: str) -> None:
        if self._address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.settimeout(_SEND_SECONDS)
                sender.sendto("\n".join(lines).encode("utf-8", "replace"), self._address)
        except (OSError, ValueError) as error:
            log.debug("could not send %s to the service manager: %s", lines[0], error)


def _address(name: str) -> bytes | None:
    """Return the address of a socket: a path, or an abstract name, which is written with an ``@``."""
    if name.startswith("@"):
        return b"\0" + os.fsencode(name[1:])
    if name.startswith("/"):
        return os.fsencode(name)
    if name:
        log.debug("NOTIFY_SOCKET=%s is of an unknown kind", name)
    return None
