"""The service behind ``nbcache serve``: takes requests out of the spool, has each built once, answers.

One thread decides; workers are processes (:mod:`nbcache.daemon.pool`), and a watchdog observer only wakes it up. All
state that matters lies in the spool and in the store: a request is removed when it is answered and not before, so a
daemon that is killed at any point has lost nothing but time, and any number of daemons may serve one store.
"""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import tempfile
import threading
import time
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from nbcache.daemon import blame, history, interpreters, jobs, rebuilding, turns
from nbcache.daemon.audit import Audit
from nbcache.daemon.catalogue import Catalogue
from nbcache.daemon.confinement import Uids
from nbcache.daemon.intake import Intake
from nbcache.daemon.pool import Confining, CrashError, ForkingPool, InterpreterError, JobError, Limits, Pools
from nbcache.daemon.publisher import Publisher, Ticket
from nbcache.daemon.selftests import SelfTests
from nbcache.daemon.sparing import Sparing
from nbcache.daemon.watching import Watch
from nbcache.errors import NbcacheError, StoreRefusedError
from nbcache.metrics import meter
from nbcache.metrics.meter import Meter
from nbcache.protocol import heartbeats, spool
from nbcache.protocol.heartbeats import Heartbeat
from nbcache.store import atomic, quarantine, reasons, tree
from nbcache.store.directory import Refusal, Store
from nbcache.store.usage import SELF_TEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from nbcache.config import Settings
    from nbcache.daemon.confinement import Confinement
    from nbcache.daemon.notify import Notifier
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
PASS_SECONDS: Final = 0.5
"""The same where nobody tells what arrives [s]."""
NEWS_SECONDS: Final = 0.2
"""How long a heartbeat may say what isn't so any more [s]."""
HOUSE_SECONDS: Final = 5.0
"""How often the store is counted on [s]."""
HOUSE_BUDGET: Final = 0.5
"""How long each of counting, reading usage records and evicting may take then [s]."""
SWEEP_SECONDS: Final = 3600.0
"""How often leftovers are swept [s]."""
MAX_FAILURES_SAID: Final = 1000
"""How many failures are logged in an hour; `nbcache status` and the history have them all."""
REMEMBERED: Final = 10_000
"""How many files that can't be removed are known not to be looked at again."""
AGAIN_SECONDS: Final = 1.0
"""How often some of these are answered again: what kept them from being removed may be over [s]."""
AGAIN: Final = 100
"""How many of them in one turn."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says."""

    name: str = ""
    """Among the daemons of this store; the host's name if empty."""
    workers: int = 0
    """Jobs at once; as many as there are processors if 0."""
    limits: Limits = field(default_factory=Limits)
    state: str = ""
    """Where catalogue and history lie, on local disk: a folder for each store in it."""
    uids: range | None = None
    """As whom jobs may run, where this process may say that; None: as anybody without an account."""


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
    attempts: int = 0
    lease: Lease | None = None
    future: Future[Any] | None = None
    pool: Executor | None = None
    """Where it runs, or ran."""
    started: float = 0.0

    @property
    def worked(self) -> float | None:
        """How much processor time was spent on it so far [s]; None if that isn't known."""
        # Other executors needn't know.
        ask = getattr(self.pool, "worked", None)
        worked: float | None = None if ask is None or self.future is None else ask(self.future)
        return worked


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
        self._approval = rebuilding.Approval()
        self._intake = Intake(self._say_odd)
        self._room = turns.Room(self._jobs)
        self._ignored: dict[str, None] = {}
        self._tried_again = 0.0
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self._stopping = False
        self._reload = False
        self._failures_grew = False
        self._started = time.time()
        self._beat = -heartbeats.BEAT_SECONDS
        self._told: tuple[object, ...] = ()
        # When the last heartbeat was written: by the clock that dates files in the store, and by our own monotonic one.
        self._dated = (self._started, time.monotonic())
        self._problems: dict[str, str] = {}
        self._sparing = Sparing(_log)
        self._failures_said = Sparing(_log, MAX_FAILURES_SAID)
        self._seconds = 1.0
        self._finished = 0
        self._tests = SelfTests()
        self.meter = Meter()
        """What it counts, for whoever watches it."""
        self.name = ""
        self._confined = ""
        self._uids = Uids(options.uids)
        # It tries which one is good, and remembers that; without descriptors, none would be.
        with suppress(OSError):
            tempfile.gettempdir()
        state = _state_of(options.state, self.store.path)
        self._publisher = Publisher(lambda: self.store, Audit(state), self._waited_for)
        self.catalogue = Catalogue(state, self.store)

    # -- running ---------------------------------------------------------------------------------

    def run(self, notifier: Notifier) -> None:
        """Serve, and tell the service manager how it goes."""
        self.name = self._choose_name()
        watch = Watch(self.store.path, self._arrived)
        house = threading.Thread(target=self._keep_house, name="nbcache housekeeping", daemon=True)
        try:
            self._give_sign(draining=False)
            house.start()
            notifier.ready(f"serving {self.store.path}")
            _log.info("serving %s as daemon %s with %d workers", self.store.path, self.name, self.workers)
            while not self._stopping:
                self._wake.clear()
                if self._reload:
                    notifier.reloading()
                    self._read_settings()
                    notifier.ready(f"serving {self.store.path}")
                self._collect()
                if self._mend(watch):
                    self._scan(watch)
                    self._start_jobs()
                    if self._failures_grew:
                        self._failures_grew = False
                        spool.sweep_failures(self.store.path)
                    self._give_sign(draining=False)
                notifier.alive()
                self._wake.wait(self._rest() if watch.watches else min(self._rest(), PASS_SECONDS))
            notifier.stopping()
            self._drain(notifier)
        finally:
            self._stopping = True
            self._stopped.set()
            watch.close()
            self._intake.close()
            self._pools.kill()
            for job in self._jobs.values():
                self._let_go(job)
            if house.ident is not None:
                house.join(DRAIN_SECONDS)
            self._tests.remove(self.store, age=0)
            self.catalogue.close()
            if not self._is_taken():
                with suppress(OSError):
                    os.unlink(heartbeats.path_of(self.store.path, self.name))

    def _keep_house(self) -> None:
        """In a thread of its own: know what is in the store, and keep it from growing beyond its limit."""
        swept = 0.0
        while not self._stopped.wait(HOUSE_SECONDS):
            try:
                self._tests.remove(self.store)
                self.meter.prune(os.path.lexists)
                counted = self.catalogue.recount(time.monotonic() + HOUSE_BUDGET)
                self.catalogue.fold_usage(time.monotonic() + HOUSE_BUDGET)
                self._approval.go_on(self.store, HOUSE_BUDGET)
                rebuilding.have_rebuilt(self.store)
                if counted:
                    evicted = self.catalogue.evict(self.settings.max_size, HOUSE_BUDGET)
                    if evicted.removed:
                        self.store.tell_evicted(evicted.removed, evicted.freed)
                        _log.info(
                            "evicted %d entries to stay below the size limit; freed %d bytes",
                            evicted.removed,
                            evicted.freed,
                        )
                if time.monotonic() - swept > SWEEP_SECONDS or not swept:
                    swept = time.monotonic()
                    self.store.sweep()
                    quarantine.sweep(self.store.path, self.store.trust)
                    spool.sweep_answers(self.store.path, self._file_time())
                    heartbeats.sweep(self.store.path, self.store.trust, self._file_time())
                self._report("housekeeping", None)
            except Exception as error:  # noqa: BLE001  it must not end: a store that is full serves nobody
                self._report("housekeeping", f"internal error during housekeeping: {error!r}", error)

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

    def _open(self, root: str | None = None) -> Store:
        opened = Store.open(self.settings if root is None else replace(self.settings, dir=root))
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
            _log.warning(
                "NBCACHE_DIR was changed, which takes effect after a restart; still serving %s", self.store.path
            )
            return
        self.settings = settings
        try:
            self.store = self._open()
        except StoreRefusedError as error:
            _log.warning("read the settings again; the store can't be used with them: %s", error)
        self._pools.retire()
        _log.info("read the settings again")

    def _mend(self, watch: Watch) -> bool:
        """Make again what was deleted of the store, and watch it; return whether it can be used."""
        root = self.store.path
        lost = [] if os.path.isdir(root) else [root]
        lost = lost or [f"{root}/{name}" for name in tree.missing(root)]
        if lost or not watch.alive:
            problem = self._make_again()
            self._report("store", problem)
            if problem is not None:
                return False
            watch.restart(root)
            if lost:
                _log.warning("recreated what was missing: %s", ", ".join(lost))
        links = tree.links(root)
        self._report(
            "links",
            f"ignoring symbolic links in {root}, which must be directories: {', '.join(links)}" if links else None,
        )
        return True

    def _make_again(self) -> str | None:
        """Make what is missing of the store; return why that can't be done."""
        root = self.store.path
        parent = os.path.dirname(root)
        if not os.path.isdir(parent):
            # Nobody but an operator knows whether it will be mounted again.
            return f"{root} is missing, and so is {parent}: nothing is served until {parent} exists"
        try:
            self.store = self._open(root)
            tree.make_tree(root, whole=True)
        except StoreRefusedError as error:
            return f"nothing is served until this is corrected: {error}"
        except OSError as error:
            return f"{root} is missing and can't be recreated: {error.strerror or error}"
        return None

    def _report(self, about: str, problem: str | None, fault: BaseException | None = None) -> None:
        """Say what is wrong, and that it is over, once."""
        before = self._problems.get(about)
        if problem == before:
            return
        if problem is None:
            del self._problems[about]
            _log.info("resolved: %s", before)
        else:
            self._problems[about] = problem
            _log.warning("%s", problem, exc_info=fault)

    def _choose_name(self) -> str:
        name = self.options.name or atomic.host()
        other = heartbeats.read_one(self.store.path, name, self.store.trust)
        return self._another_name(name) if other is not None and other.alive else name

    def _another_name(self, name: str) -> str:
        # Not the pid: on two hosts, in containers, both may be 1.
        another = f"{name}-{os.urandom(3).hex()}"
        _log.warning("another daemon named %s serves this store; this one is named %s", name, another)
        return another

    def _is_taken(self) -> bool:
        """Whether the heartbeat of our name is that of another daemon, which lives."""
        other = heartbeats.read_one(self.store.path, self.name, self.store.trust)
        return other is not None and other.alive and other.process != (atomic.host(), os.getpid(), self._started)

    def _give_sign(self, *, draining: bool) -> None:
        now = time.monotonic()
        busy = self._busy
        # News is told sooner than that nothing happened.
        news = (*self._news(), draining)
        calm = heartbeats.WORK_SECONDS if busy else heartbeats.BEAT_SECONDS
        if now - self._beat < (calm if news == self._told else NEWS_SECONDS) and not draining:
            return
        # Two that began at once, or couldn't see each other: one gives in here, or both.
        if self._told and self._is_taken():
            self.name = self._another_name(self.name)
        self._beat, self._told = now, news
        totals = self.catalogue.totals()
        recent = self.catalogue.recent_jobs(heartbeats.MAX_JOBS)
        sign = Heartbeat(
            self.name, atomic.host(), os.getpid(), self._started, time.time(),
            self.workers, busy, len(self._jobs) - busy, self._seconds, draining, totals.entries, totals.size,
            tuple((job.what, job.when, job.seconds, job.outcome) for job in recent),
            heartbeats.birth(os.getpid()), heartbeats.place(),
            tuple(sorted(self.store.trust.uids)), turns.queues(self._waiting()), self._finished, self._working(),
            self._confined,
        )  # fmt: skip
        problem = None
        try:
            self._dated = (heartbeats.write(self.store.path, sign), now)
        except OSError as error:
            problem = f"the heartbeat can't be written, so no client will ask this daemon: {error.strerror or error}"
        self._report("heartbeat", problem)

    @property
    def _busy(self) -> int:
        """How many jobs are under way."""
        return sum(job.future is not None for job in self._jobs.values())

    def _rest(self) -> float:
        """How long nothing has to be done unless something happens [s]."""
        rest = NEWS_SECONDS if self._busy or self._news() != self._told[:-1] else SCAN_SECONDS
        return min(rest, self._intake.pause)

    def _arrived(self, path: str) -> None:
        """In the observer's thread: something appeared in the spool."""
        self._intake.arrived(path)
        self._wake.set()

    def _waiting(self) -> list[Job]:
        """The jobs that aren't running."""
        return [job for job in self._jobs.values() if job.future is None]

    def _news(self) -> tuple[object, ...]:
        """What clients decide by whether to ask."""
        return self._busy, len(self._jobs), self._finished

    def _working(self) -> dict[str, float]:
        """How much processor time each running job has had [s], by its key."""
        running = ((key, job.worked) for key, job in self._jobs.items())
        return {key: worked for key, worked in running if worked is not None}

    def _drain(self, notifier: Notifier) -> None:
        self._give_sign(draining=True)
        deadline = time.monotonic() + DRAIN_SECONDS
        while self._busy and time.monotonic() < deadline:
            self._wake.wait(0.1)
            self._wake.clear()
            self._collect()
            notifier.alive()
        left = self._busy
        _log.info(
            "stopping; %s", f"abandoned {left} running jobs, their requests remain" if left else "all jobs are finished"
        )

    # -- requests --------------------------------------------------------------------------------

    def _scan(self, watch: Watch) -> None:
        self._room = turns.Room(self._jobs)
        self._intake.turn(self.store.path, self.store.trust, self._offer)
        watch.follow(self._intake.drops)
        self._answer_again()

    def _say_odd(self, name: str) -> None:
        self._sparing.warning("odd", "ignoring %s in the requests directory: it is not a user's directory", name)

    def _offer(self, waiting: Waiting, insists: bool) -> bool:
        """Take a request in; return whether there was room. Who *insists* may take the place of an older one."""
        job = self._jobs.get(waiting.key)
        if waiting.path in self._ignored or (job is not None and waiting.path in job.paths):
            return True
        if job is None and not self._room.has(waiting.uid, insists=insists):
            return False
        with self._containing(waiting.name, partial(self._answer, waiting)):
            self._look_at(waiting)
        return True

    @contextmanager
    def _containing(self, name: str, give_up: Callable[[], None]) -> Iterator[None]:
        """Around all that is done about one request: whatever that raises ends this request, and nothing else.

        Giving up removes it, so whoever asked builds it, and no later daemon meets it again.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001  a request may bring about what it likes
            kind = type(error).__name__
            self._sparing.warning(
                f"fault {kind}", "internal error while handling %s: %s: %s", name, kind, error, fault=error
            )
            give_up()

    def _look_at(self, waiting: Waiting) -> None:
        job = self._jobs.get(waiting.key)
        request = spool.take(waiting, self.store.trust)
        if request is None:
            return
        age = self._age(waiting)
        self.meter.asked(waiting.path, age)
        if isinstance(request, spool.Rejected):
            self._reject(waiting, request.reason)
        elif job is not None:
            # What comes of another user's request is an answer to this one only if the same would be done for it.
            # Otherwise it waits: it is settled when that one is, or tried then.
            if request.uid == job.request.uid or request.scope == job.request.scope:
                job.paths.add(waiting.path)
        elif age > spool.MAX_AGE:
            self._reject(waiting, "it is older than a day")
        elif self._is_settled(request):
            self._answer(waiting)
        elif spool.is_answered(waiting.path):
            self._ignore(waiting.path)
        else:
            self._jobs[request.key] = Job(request, {waiting.path}, waiting.uid, time.monotonic() - age)
            self._room.take(waiting.uid)

    def _is_settled(self, request: Request) -> bool:
        root, key = self.store.path, request.key
        return self.store.holds(key) or spool.failure(root, key, request.scope) is not None

    def _age(self, waiting: Waiting) -> float:
        """How old a request is [s], by our clock or by the one that dated it: either may be wrong, or jump."""
        try:
            return min(time.time(), self._file_time()) - os.lstat(waiting.path).st_mtime
        except OSError:
            return 0.0

    def _file_time(self) -> float:
        """What time it is by the clock that dates files in the store [Unix s]."""
        written, then = self._dated
        return written + time.monotonic() - then

    def _reject(self, waiting: Waiting, reason: str) -> None:
        self._sparing.warning(reason, "rejected the request %s: %s", waiting.name, reason)
        self.meter.rejected(waiting.path)
        spool.rejected(self.store.path, waiting, reason)
        self._failures_grew = True
        self._answer(waiting)

    def _answer(self, waiting: Waiting) -> None:
        self._answer_to(waiting.path)

    def _answer_to(self, path: str) -> None:
        """Whoever asked goes on; a request that can't be removed isn't looked at again."""
        self.meter.answered(path)
        if not spool.answer(path) or os.path.lexists(path):
            self._ignore(path)

    def _answer_again(self) -> None:
        """Answer some of what couldn't be answered: else whoever asked waits, and the request lies there for ever."""
        now = time.monotonic()
        if now - self._tried_again < AGAIN_SECONDS:
            return
        self._tried_again = now
        for path in list(islice(self._ignored, AGAIN)):
            # The next ones come first then.
            del self._ignored[path]
            self._answer_to(path)

    def _ignore(self, path: str) -> None:
        self.meter.forgotten(path)
        self._ignored[path] = None
        if len(self._ignored) > REMEMBERED:
            del self._ignored[next(iter(self._ignored))]

    # -- jobs ------------------------------------------------------------------------------------

    def _start_jobs(self) -> None:
        free = self.workers - self._busy
        for job in turns.ordered(self._waiting()) if free > 0 else ():
            if free <= 0:
                return
            if job.future is None:
                with self._containing(job.request.function, partial(self._give_up, job)):
                    free -= self._start_job(job)

    def _start_job(self, job: Job) -> bool:
        key = job.request.key
        if self.store.holds(key):
            self._finish(job, None)
            return False
        # Held until the request is answered: another daemon, or a client that builds for itself, waits or goes on.
        job.lease = self.store.lease(key)
        if job.lease is None:
            return False
        if self.store.holds(key):
            self._finish(job, None)
            return False
        job.attempts += 1
        job.started = time.monotonic()
        try:
            line = job.request.line().decode("ascii")
            pool = self._pools.get(job.request.interpreter, job.request.settings)
            job.pool = pool
            ticket = Ticket(key, asked=job.request.uid, what=job.request.function)
            job.future = pool.submit(jobs.build, line, self.store.path, sorted(self.store.trust.uids), ticket=ticket)
        except (NbcacheError, OSError, RuntimeError) as error:
            self._finish(job, str(error), blame.of(error, blame.ENVIRONMENT))
            return False
        job.future.add_done_callback(lambda _future: self._wake.set())
        return True

    def _make_pool(self, interpreter: str, numba_settings: Mapping[str, str]) -> ForkingPool:
        problem = interpreters.problem(interpreter, self.store.trust)
        if problem is not None:
            msg = f"the interpreter {interpreter} {problem}"
            raise NbcacheError(msg)
        root = self.store.path
        trust = self.store.trust
        environment = interpreters.environment(trust, self.settings, numba_settings)
        return ForkingPool(
            interpreter, root, environment, self.workers, self.options.limits,
            trust=trust, publisher=self._publisher, confining=Confining(self._uids.give(), told=self._tell_confined),
        )  # fmt: skip

    def _waited_for(self, key: str) -> int | None:
        """Whose request waits for a key."""
        job = self._jobs.get(key)
        return None if job is None else job.request.uid

    def _tell_confined(self, given: Confinement) -> None:
        self._confined = given.summary
        self._report("confinement", given.complaint)

    def _collect(self) -> None:
        for job in list(self._jobs.values()):
            if job.future is not None and job.future.done():
                future, job.future = job.future, None
                seconds = time.monotonic() - job.started
                self._finished += 1
                self._seconds += (seconds - self._seconds) / 8
                with self._containing(job.request.function, partial(self._give_up, job)):
                    self._judge(job, future)

    def _judge(self, job: Job, future: Future[Any]) -> None:
        request = job.request
        to_blame = blame.FUNCTION
        try:
            to_blame, reason = blame.read(future.result())
            # A job that may not even read the store can't tell, and one that lies is no source.
            if reason in {None, jobs.UNPUBLISHED}:
                to_blame, reason = blame.RESOURCES, None if self.store.holds(request.key) else jobs.UNPUBLISHED
        except CrashError as error:
            if job.attempts < ATTEMPTS:
                self.meter.job(meter.CRASHED, time.monotonic() - job.started)
                _log.warning("%s %s: %s; trying once more", request.function, request.signature, error)
                self._let_go(job)
                return
            reason = str(error)
            if isinstance(error, InterpreterError):
                to_blame = blame.ENVIRONMENT
        except JobError as error:
            reason = f"{reasons.INTERNAL}: {error}"
        except BaseException as error:  # noqa: BLE001  another executor may raise what it likes
            reason = f"{type(error).__name__}: {error}"
            to_blame = blame.of(error)
        if reason is not None and blame.tells_scarcity(reason):
            to_blame = blame.RESOURCES
        self._finish(job, reason, to_blame)

    def _finish(self, job: Job, reason: str | None, to_blame: str = blame.FUNCTION) -> None:
        """Answer everybody who asked for this."""
        request = job.request
        if request.function == SELF_TEST:
            self._finish_test(job, reason)
            return
        what = f"{request.function} {request.signature}"
        if reason is None:
            _log.info("built %s for %s", what, request.host)
            spool.forget_failure(self.store.path, request.key, request.scope)
        else:
            self._failures_said.warning(request.key, "could not build %s: %s", what, reason)
            if to_blame != blame.RESOURCES:
                # What is said of a function, a job has said, which runs what its user likes: to others that is no word.
                own = request.uid in {0, os.geteuid()}
                scope = "" if to_blame == blame.FUNCTION and own else request.scope
                spool.failed(self.store.path, request, reason, job.attempts, scope=scope)
                self._failures_grew = True
            self.catalogue.failure(request.key, what, reason)
        if job.attempts:
            seconds = time.monotonic() - job.started
            self.meter.job(meter.BUILT if reason is None else meter.FAILED, seconds)
            self.catalogue.job_done(request.key, what, seconds, history.BUILT if reason is None else reason)
        self._give_up(job)

    def _finish_test(self, job: Job, reason: str | None) -> None:
        # Probes come every few seconds: neither history nor log is about them, and nothing of theirs is kept.
        _log.debug("self-test: %s", reason)
        if reason is not None:
            spool.failed(self.store.path, job.request, reason, job.attempts)
        self._tests.add(job.request.key)
        self._give_up(job)

    def _give_up(self, job: Job) -> None:
        """Be done with a job: whoever asked sees it by the request, which is gone."""
        self._jobs.pop(job.request.key, None)
        for path in job.paths:
            self._answer_to(path)
        self._let_go(job)

    @staticmethod
    def _let_go(job: Job) -> None:
        lease, job.lease = job.lease, None
        if lease is not None:
            lease.release()


def _state_of(base: str, root: str) -> str:
    """The folder for a store's state: stores don't share one, nor do names of stores tell them apart."""
    return os.path.join(base, hashlib.blake2b(os.fsencode(root), digest_size=8).hexdigest())
