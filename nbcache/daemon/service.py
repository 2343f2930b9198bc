"""The service behind ``nbcache serve``: takes requests out of the spool, has each built once, answers.

One thread decides; workers are processes (:mod:`nbcache.daemon.pool`), and a watchdog observer only wakes it up. All
state that matters lies in the spool and in the store: a request is removed when it is answered and not before, so a
daemon that is killed at any point has lost nothing but time, and any number of daemons may serve one store.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nbcache.daemon import interpreters, jobs
from nbcache.daemon.pool import CrashError, ForkingPool, JobError, Limits, Pools
from nbcache.daemon.watching import Watch
from nbcache.errors import NbcacheError, StoreRefusedError
from nbcache.protocol import heartbeats, spool
from nbcache.protocol.heartbeats import Heartbeat
from nbcache.store import atomic
from nbcache.store.directory import Refusal, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nbcache.config import Settings
    from nbcache.protocol.requests import Request
    from nbcache.protocol.spool import Waiting
    from nbcache.store.locks import Lease

_log = logging.getLogger("nbcache")
ATTEMPTS: Final = 2
"""How often a job is tried whose process ended without a word."""
DRAIN_SECONDS: Final = 8.0
"""How long running jobs may go on when the daemon is asked to stop [s]."""
SCAN_SECONDS: Final = 1.0
"""How often the spool is looked through, whatever the observer says [s]."""
MAX_AGE: Final = 86400.0
"""From this age a request is not looked at any more [s]: whoever asked has long built it."""
REMEMBERED: Final = 10_000
"""How many files that can't be removed are known not to be looked at again."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says."""

    name: str = ""
    """Among the daemons of this store; the host's name if empty."""
    workers: int = 0
    """Jobs at once; as many as there are processors if 0."""
    limits: Limits = field(default_factory=Limits)


@dataclass(slots=True)
class Job:
    """A key that somebody asks for."""

    request: Request
    paths: set[str]
    """The requests for it in the spool."""
    attempts: int = 0
    lease: Lease | None = None
    future: Future[Any] | None = None
    started: float = 0.0


class Service:
    """A daemon over one store.  ``run`` returns when `stop` was called, or a signal came."""

    def __init__(self, settings: Settings, options: Options, load_settings: Callable[[], Settings]) -> None:
        """Open the store.  Raises StoreRefusedError."""
        self.settings = settings
        self.options = options
        self._load_settings = load_settings
        self.store = self._open()
        self.workers = options.workers or os.cpu_count() or 1
        self._jobs: dict[str, Job] = {}
        self._pools = Pools(self._make_pool)
        self._ignored: dict[Waiting, None] = {}
        self._wake = threading.Event()
        self._stopping = False
        self._reload = False
        self._started = time.time()
        self._beat = 0.0
        self._seconds = 1.0
        self.name = ""
        self.done = 0
        self.refused = 0

    # -- running ---------------------------------------------------------------------------------

    def run(self, ready: Callable[[], None] = lambda: None, alive: Callable[[], None] = lambda: None) -> None:
        """Serve.  *ready* is called once the first scan has begun, *alive* at least every few seconds."""
        self.name = self._choose_name()
        watch = Watch(self.store.path, self._wake.set)
        try:
            self._give_sign(draining=False)
            ready()
            _log.info("serving %s as %s, %d workers", self.store.path, self.name, self.workers)
            while not self._stopping:
                self._wake.clear()
                if self._reload:
                    self._read_settings()
                if not os.path.isdir(self.store.path) or not watch.alive:
                    self._mend(watch)
                self._scan()
                self._collect()
                self._start_jobs()
                self._give_sign(draining=False)
                alive()
                self._wake.wait(SCAN_SECONDS)
            self._drain(alive)
        finally:
            watch.close()
            self._pools.kill()
            for job in self._jobs.values():
                if job.lease is not None:
                    job.lease.release()
            with suppress(OSError):
                os.unlink(heartbeats.path_of(self.store.path, self.name))

    def stop(self) -> None:
        """Take no more requests, and end soon."""
        self._stopping = True
        self._wake.set()

    def reload(self) -> None:
        """Read the settings again, soon."""
        self._reload = True
        self._wake.set()

    def handle_signals(self) -> None:
        """SIGTERM and SIGINT stop, SIGHUP reloads."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: self.stop())
        signal.signal(signal.SIGHUP, lambda _number, _frame: self.reload())

    def _open(self) -> Store:
        opened = Store.open(self.settings)
        if isinstance(opened, Refusal):
            raise StoreRefusedError(self.settings.dir or "", opened.reason)
        if not opened.writable:
            raise StoreRefusedError(opened.path, f"{opened.path} can't be written: a daemon has to publish")
        return opened

    def _read_settings(self) -> None:
        self._reload = False
        settings = self._load_settings()
        for problem in settings.problems:
            _log.warning("%s", problem)
        if settings.dir != self.settings.dir:
            _log.warning("NBCACHE_DIR changed: that takes a restart, the daemon goes on with %s", self.store.path)
            return
        self.settings = settings
        try:
            self.store = self._open()
        except StoreRefusedError as error:
            _log.warning("the settings were read again, but %s", error)
        self._pools.retire()
        _log.info("settings read again")

    def _mend(self, watch: Watch) -> None:
        """The store was deleted, or what watches it died: begin anew."""
        if not os.path.isdir(self.store.path):
            _log.warning("%s is gone; it is made again", self.store.path)
        try:
            self.store = self._open()
        except StoreRefusedError as error:
            _log.warning("%s", error)
            return
        watch.restart(self.store.path)

    def _choose_name(self) -> str:
        name = self.options.name or atomic.host()
        for other in heartbeats.read(self.store.path, self.store.trust):
            if other.name == name and other.alive and not _is_gone(other):
                _log.warning("a daemon called %s serves this store already; this one is %s-%d", name, name, os.getpid())
                return f"{name}-{os.getpid()}"
        return name

    def _give_sign(self, *, draining: bool) -> None:
        now = time.time()
        if abs(now - self._beat) < heartbeats.BEAT_SECONDS and not draining:
            return
        self._beat = now
        busy = sum(job.future is not None for job in self._jobs.values())
        sign = Heartbeat(
            self.name, atomic.host(), os.getpid(), self._started, now,
            self.workers, busy, len(self._jobs) - busy, self._seconds, draining,
        )  # fmt: skip
        try:
            heartbeats.write(self.store.path, sign)
        except OSError as error:
            _log.warning("the heartbeat can't be written: %s", error.strerror or error)

    def _drain(self, alive: Callable[[], None]) -> None:
        self._give_sign(draining=True)
        deadline = time.monotonic() + DRAIN_SECONDS
        while any(job.future is not None for job in self._jobs.values()) and time.monotonic() < deadline:
            self._wake.wait(0.1)
            self._wake.clear()
            self._collect()
            alive()
        left = sum(job.future is not None for job in self._jobs.values())
        _log.info("stopping; %s", f"{left} jobs are given up, their requests stay" if left else "all jobs are done")

    # -- requests --------------------------------------------------------------------------------

    def _scan(self) -> None:
        for waiting in spool.scan(self.store.path):
            if waiting in self._ignored:
                continue
            try:
                self._look_at(waiting)
            except Exception:  # noqa: BLE001  whatever it is, it must not come between the daemon and other requests
                _log.exception("a fault of nbcache over %s", waiting.name)
                self._ignore(waiting)

    def _look_at(self, waiting: Waiting) -> None:
        job = self._jobs.get(waiting.name.partition(".")[0])
        if job is not None and waiting.path in job.paths:
            return
        request = spool.take(waiting, self.store.trust)
        if request is None:
            return
        if isinstance(request, spool.Rejected):
            self._reject(waiting, request.reason)
        elif job is not None:
            job.paths.add(waiting.path)
        elif time.time() - waiting.mtime_ns / 1e9 > MAX_AGE:
            self._reject(waiting, "it is older than a day")
        elif self.store.exists(request.key) or spool.failure(self.store.path, request.key) is not None:
            self._answer(waiting)
        else:
            self._jobs[request.key] = Job(request, {waiting.path})

    def _reject(self, waiting: Waiting, reason: str) -> None:
        _log.warning("the request %s is rejected: %s", waiting.name, reason)
        self.refused += 1
        spool.rejected(self.store.path, waiting, reason)
        self._answer(waiting)

    def _answer(self, waiting: Waiting) -> None:
        spool.withdraw(waiting.path)
        if os.path.lexists(waiting.path):
            self._ignore(waiting)

    def _ignore(self, waiting: Waiting) -> None:
        self._ignored[waiting] = None
        if len(self._ignored) > REMEMBERED:
            del self._ignored[next(iter(self._ignored))]

    # -- jobs ------------------------------------------------------------------------------------

    def _start_jobs(self) -> None:
        free = self.workers - sum(job.future is not None for job in self._jobs.values())
        for job in list(self._jobs.values()):
            if free <= 0:
                return
            if job.future is None and self._start_job(job):
                free -= 1

    def _start_job(self, job: Job) -> bool:
        key = job.request.key
        if self.store.exists(key):
            self._finish(job, None)
            return False
        # Held until the request is answered: another daemon, or a client that builds for itself, waits or goes on.
        job.lease = self.store.lease(key)
        if job.lease is None:
            return False
        if self.store.exists(key):
            self._finish(job, None)
            return False
        job.attempts += 1
        job.started = time.monotonic()
        try:
            line = job.request.line().decode("ascii")
            pool = self._pools.get(job.request.interpreter, job.request.settings)
            job.future = pool.submit(jobs.build, line, self.store.path, sorted(self.settings.trusted_uids))
        except (NbcacheError, OSError, RuntimeError) as error:
            self._finish(job, str(error))
            return False
        job.future.add_done_callback(lambda _future: self._wake.set())
        return True

    def _make_pool(self, interpreter: str, numba_settings: Mapping[str, str]) -> Executor:
        problem = interpreters.problem(interpreter, self.store.trust)
        if problem is not None:
            msg = f"the interpreter {interpreter} {problem}"
            raise NbcacheError(msg)
        root = self.store.path
        environment = interpreters.environment(root, self.settings, numba_settings)
        return ForkingPool(interpreter, root, environment, self.workers, self.options.limits)

    def _collect(self) -> None:
        for job in list(self._jobs.values()):
            if job.future is not None and job.future.done():
                future, job.future = job.future, None
                seconds = time.monotonic() - job.started
                self._seconds += (seconds - self._seconds) / 8
                self._judge(job, future)

    def _judge(self, job: Job, future: Future[Any]) -> None:
        request = job.request
        try:
            reason = future.result()
        except CrashError as error:
            if job.attempts < ATTEMPTS:
                _log.warning("%s %s: %s; it is tried again", request.function, request.signature, error)
                self._let_go(job)
                return
            reason = str(error)
        except JobError as error:
            reason = f"a fault of nbcache: {error}"
        except BaseException as error:  # noqa: BLE001  another executor may raise what it likes
            reason = f"{type(error).__name__}: {error}"
        self._finish(job, reason)

    def _finish(self, job: Job, reason: str | None) -> None:
        """Answer everybody who asked for this."""
        request = job.request
        if reason is None:
            self.done += 1
            _log.info("built %s %s for %s", request.function, request.signature, request.host)
            spool.forget_failure(self.store.path, request.key)
        else:
            self.refused += 1
            _log.warning("%s %s is not built: %s", request.function, request.signature, reason)
            spool.failed(self.store.path, request, reason, job.attempts)
            spool.sweep_failures(self.store.path)
        del self._jobs[request.key]
        for path in job.paths:
            spool.withdraw(path)
        self._let_go(job)

    @staticmethod
    def _let_go(job: Job) -> None:
        lease, job.lease = job.lease, None
        if lease is not None:
            lease.release()


def _is_gone(other: Heartbeat) -> bool:
    """Whether a daemon on this host left its heartbeat behind: nobody has its pid, or a process that began later."""
    if other.host != atomic.host():
        return False
    if other.pid == os.getpid():
        return True
    try:
        os.kill(other.pid, 0)
        began = os.stat(f"/proc/{other.pid}").st_mtime
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return began > other.beat
