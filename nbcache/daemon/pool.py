"""Workers: each call runs in a child of its own, forked from an interpreter that is warm.

One thread of this process starts the interpreters, listens to all that they and their jobs say, counts time, and kills
(:mod:`nbcache.daemon.supervisor`). An interpreter that doesn't begin what it was asked to is left with what it runs,
and another one is started for the rest.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import subprocess
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import nbcache
from nbcache.daemon import interpreter_boot
from nbcache.daemon.confinement import Confinement
from nbcache.daemon.job_run import NEVER, Call, CrashError, InterpreterError, JobError
from nbcache.daemon.job_services import Beside, Services
from nbcache.daemon.publisher import MAX_BYTES, Publisher, Ticket
from nbcache.daemon.scratch import Scratch
from nbcache.daemon.supervisor import Interpreter, started_in_time
from nbcache.file_trust import Trust
from nbcache.one_line import log
from nbcache.store import reasons

__all__ = ["Confining", "CrashError", "ForkingPool", "InterpreterError", "JobError", "Limits", "Pools"]

MODULES: Final = os.path.dirname(os.path.dirname(os.path.abspath(nbcache.__file__)))
"""Where this process has nbcache from."""
_BEGIN: Final = f"import sys; sys.path.append({{!r}}); from {interpreter_boot.__name__} import main; main()"
MAX_STARTS: Final = 2
"""How many interpreters that hang a call may meet: what they import may lie on a filesystem that hangs."""
_OVER: Final = "the pool was shut down"
_END_SECONDS: Final = 2.0
"""How long killed interpreters are waited for [s]: who stops a daemon doesn't wait for a disk."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a job may take."""

    seconds: float = 300.0
    bytes: int = 4 << 30
    """More than the process has when it starts; 0 for no limit."""
    result: int = MAX_BYTES
    """How much it may hand in; 0 for no limit."""


@dataclass(frozen=True, slots=True)
class Confining:
    """How jobs are confined."""

    uid: int | None = None
    """As whom they run; None for the uid of this process."""
    how: str = interpreter_boot.WANTED
    """Whether they get namespaces, or else Landlock: as one of the words in :mod:`~nbcache.daemon.interpreter_boot`."""
    told: Callable[[Confinement], None] = lambda _confinement: None
    """Is told what an interpreter was given, in another thread."""


class ForkingPool:
    """At most *workers* jobs at once, in children of one interpreter.

    ``submit(function, *args)``: a function at the top level of a module of that interpreter's, and JSON; ``ticket``
    says what it may hand in. The future raises :class:`JobError` for what the function raised, and :class:`CrashError`.
    An interpreter that died is started again for the next job.
    """

    _lost: type[CrashError] = InterpreterError
    """What becomes of jobs that nobody runs."""

    def __init__(
        self,
        interpreter: str,
        root: str,
        environment: Mapping[str, str],
        workers: int,
        limits: Limits,
        *,
        trust: Trust,
        publisher: Publisher,
        confining: Confining | None = None,
    ) -> None:
        """Start nothing yet; *root* is the store, which *publisher* writes; *trust* judges what jobs open."""
        self.interpreter = interpreter
        self._root = root
        self._environment = dict(environment)
        self._workers = workers
        self._limits = limits
        self._trust = trust
        self._publisher = publisher
        self._confining = Confining() if confining is None else confining
        self._uid = self._confining.uid
        self._problem = ""
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: deque[Call] = deque()
        self._interpreters: list[Interpreter] = []
        self._ended: list[subprocess.Popen[bytes]] = []
        """Those that were killed and may not be gone yet."""
        self._beside = Beside(self._rouse)
        self._thread: threading.Thread | None = None
        self._scratch: Scratch | None = None
        self._wake = -1, -1
        self._closed = False
        self._ending = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, ticket: Ticket | None = None) -> Future[Any]:
        """See the class. Raises RuntimeError once it takes no more jobs."""
        return self.order(name_of(fn), args, ticket=ticket or Ticket())

    def order(self, call: str, args: Sequence[Any], *, ticket: Ticket) -> Future[Any]:
        """Submit the function whose name is *call* (``module:function``)."""
        what = {"call": call, "args": args, "bytes": self._limits.bytes, "asked": ticket.asked, "aside": ticket.aside}
        return self._queue(what, ticket)

    def _queue(self, order: Mapping[str, Any], ticket: Ticket) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError(_OVER)
            number = next(self._numbers)
            what = ticket.what or f"call {number}"
            self._waiting.append(Call(number, future, json.dumps(order).encode(), ticket, what))
            self._begin()
            self._notify()
        return future

    def _begin(self) -> None:
        """Have the thread running. Whoever calls holds the lock."""
        if self._thread is None:
            self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            self._thread = threading.Thread(target=self._supervise, name="nbcache pool", daemon=True)
            self._thread.start()

    @property
    def closed(self) -> bool:
        """Whether it takes no more jobs."""
        return self._closed

    def worked(self, future: Future[Any]) -> float | None:
        """How much processor time was spent on a call so far [s]; None if that isn't known.

        What the interpreter takes that is to fork its process is none of it: who waits for that would have compiled
        meanwhile, and imports Numba but once.
        """
        for interpreter in list(self._interpreters):
            for number, job in list(interpreter.running.items()):
                if job.call.future is future:
                    return interpreter.worked(number)
        return None

    def retire(self) -> None:
        """Take no more jobs, and end once all are done."""
        with self._lock:
            self._closed = True
            self._notify()

    def shutdown(self) -> None:
        """End now, with all that runs and waits."""
        with self._lock:
            self._closed = self._ending = True
            self._notify()
        if self._thread is not None:
            self._thread.join(2 * _END_SECONDS)

    def _rouse(self) -> None:
        """Have the thread look, from any other one."""
        with self._lock:
            self._notify()

    def _notify(self) -> None:
        """The same; whoever calls holds the lock, or the descriptor could be something else's by now."""
        with suppress(OSError):
            os.write(self._wake[1], b"!")

    @property
    def _built(self) -> int:
        return os.geteuid() if self._uid is None else self._uid

    # -- in the thread ---------------------------------------------------------------------------

    def _supervise(self) -> None:
        try:
            self._scratch = Scratch(self._uid)
            while not self._ending and (not self._closed or self._is_busy):
                self._turn()
        except Exception as error:  # noqa: BLE001  whoever waits has to hear of it
            log.exception("internal error while supervising jobs; the jobs of one interpreter fail")
            self._fail(f"{reasons.INTERNAL}: {error!r}")
        finally:
            with self._lock:
                self._closed = True
            self._fail(_OVER)
            for interpreter in self._interpreters:
                interpreter.cancel(_OVER)
                self._ended.append(interpreter.process)
            for process in self._ended:
                try:
                    process.wait(_END_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
            self._interpreters.clear()
            if self._scratch is not None:
                self._scratch.remove()
            with self._lock:
                for fd in self._wake:
                    os.close(fd)
                self._wake = -1, -1

    @property
    def _is_busy(self) -> bool:
        return bool(self._waiting) or any(each.running for each in self._interpreters)

    def _turn(self) -> None:
        self._tidy()
        self._feed()
        handlers = {fd: handle for each in self._interpreters for fd, handle in each.handlers.items()}
        poll = select.poll()
        poll.register(self._wake[0], select.POLLIN)
        for fd in handlers:
            poll.register(fd, select.POLLIN)
        patience = max(0.0, min(60.0, self._next_event() - time.monotonic())) + 0.001
        for fd, _event in poll.poll(patience * 1000):
            if fd == self._wake[0]:
                with suppress(BlockingIOError):
                    os.read(fd, 1 << 12)
            else:
                # Another one may have closed it meanwhile, and even have opened something else under its number.
                now = [each.handlers.get(fd) for each in self._interpreters]
                if handlers[fd] in now:
                    handlers[fd]()
        self._beside.settle()
        for each in self._interpreters:
            each.pass_time()

    def _next_event(self) -> float:
        """When something has to be done at the latest, by time.monotonic()."""
        return min((each.next_event() for each in self._interpreters), default=NEVER)

    def _tidy(self) -> None:
        """Part with interpreters that died, hang, or aren't needed any more."""
        for each in list(self._interpreters):
            if not each.dead and each.hangs and not _has_news(each):
                each.dead = f"the interpreter {self.interpreter} doesn't begin its jobs"
                log.warning("%s; starting another interpreter in its place", each.dead)
                with self._lock:
                    self._waiting.extendleft(reversed(self._once_more(each)))
            if each.dead and not each.running:
                each.cancel(each.dead)
                self._interpreters.remove(each)
                self._ended.append(each.process)
        self._ended = [process for process in self._ended if process.poll() is None]

    def _once_more(self, interpreter: Interpreter) -> list[Call]:
        """What an interpreter that hangs has not begun; what met that once too often isn't tried any more."""
        again: list[Call] = []
        for call in interpreter.take_back():
            if call.future.done():
                continue
            call.starts += 1
            if call.starts < MAX_STARTS:
                again.append(call)
            else:
                call.future.set_exception(self._lost(interpreter.dead))
        return again

    def _feed(self) -> None:
        while True:
            with self._lock:
                free = self._workers - sum(len(each.running) for each in self._interpreters)
                if not self._waiting or free <= 0:
                    return
                call = self._waiting.popleft()
            if not call.future.running() and not call.future.set_running_or_notify_cancel():
                continue
            interpreter = self._current()
            call.ticket.built = self._built
            if interpreter is None:
                call.future.set_exception(self._lost(self._problem))
                continue
            try:
                taken = interpreter.run(call, self._limits.seconds)
            except OSError as error:
                call.future.set_exception(CrashError(f"no job can be begun: {error.strerror or error}"))
                continue
            if not taken:
                interpreter.dead = "it takes no orders"
                with self._lock:
                    self._waiting.appendleft(call)
                return

    def _current(self) -> Interpreter | None:
        """The interpreter that takes jobs; None if none can be started: `_problem` says why."""
        for each in self._interpreters:
            if not each.dead:
                return each
        try:
            return self._start()
        except TimeoutError:
            self._problem = f"the interpreter {self.interpreter} can't be started: its filesystem doesn't answer"
            return None
        except OSError as error:
            if self._uid is None:
                self._problem = f"the interpreter {self.interpreter} can't be started: {error.strerror or error}"
                return None
            # As an other user it can't be executed: it lies in somebody's home, perhaps.
            self._problem = f"uid {self._uid} can't execute {self.interpreter} ({error.strerror}), so they run as root"
            self._uid = None
            return self._current()

    def _start(self) -> Interpreter:
        uid, scratch = self._uid, self._scratch.path  # type: ignore[union-attr]
        command = [self.interpreter, "-S", "-s", "-B", "-c", _BEGIN.format(MODULES)]
        if uid is not None:
            # Where there are namespaces, something else is mounted there.
            os.chown(scratch, uid, uid)

        def start(orders: int, asking: int, errors: int) -> subprocess.Popen[bytes]:
            rest = [str(orders), str(asking), MODULES, scratch, self._root, self._confining.how]
            return subprocess.Popen(  # noqa: S603  an interpreter that was found trusted
                [*command, *rest], env={**self._environment, "TMPDIR": scratch}, cwd="/",
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, pass_fds=[orders, asking],
                user=uid, group=uid, extra_groups=None if uid is None else [],
            )  # fmt: skip

        services = Services(self._trust, self._publisher, self._built, self._tell, self._beside)
        interpreter = started_in_time(lambda: Interpreter(start, services))
        self._interpreters.append(interpreter)
        return interpreter

    def _tell(self, interpreter: Interpreter) -> None:
        problem = interpreter.problem and f"the kernel gives them no namespaces ({interpreter.problem})"
        problems = "; ".join(filter(None, [self._problem, problem]))
        self._confining.told(Confinement(self._built, bool(interpreter.namespaces), interpreter.landlock, problems))

    def _fail(self, reason: str) -> None:
        with self._lock:
            lost = list(self._waiting)
            self._waiting.clear()
        for call in lost:
            if call.future.running() or call.future.set_running_or_notify_cancel():
                call.future.set_exception(self._lost(reason))


class Pools:
    """A pool for each interpreter and set of Numba's settings, the few that were used last.

    Those for kernels are others: what makes an interpreter ready for these is nothing to functions for the CPU. Where
    there are too many, one of the user goes who has most of them: nobody's settings cost others their pools. One that
    several users use belongs to the one who has the fewest others.
    """

    def __init__(self, make: Callable[[str, Mapping[str, str], bool], ForkingPool], most: int = 8) -> None:
        """*make* gives a pool for an interpreter and settings, for kernels or not; not more than *most* are kept."""
        self._make = make
        self._most = most
        self._pools: dict[tuple[str, tuple[tuple[str, str], ...], bool], ForkingPool] = {}
        self._users: dict[object, int] = {}
        """By the same, the uid of whom it belongs to."""

    def has(self, interpreter: str, settings: Mapping[str, str], kernels: bool = False) -> bool:
        """Whether there is a pool for these already."""
        pool = self._pools.get(_key(interpreter, settings, kernels))
        return pool is not None and not pool.closed

    def get(
        self, interpreter: str, settings: Mapping[str, str], kernels: bool = False, *, uid: int = -1
    ) -> ForkingPool:
        """The pool for these, for a job of *uid*. Raises what making one raises."""
        key = _key(interpreter, settings, kernels)
        pool = self._pools.pop(key, None)
        before = self._users.pop(key, uid)
        if pool is None or pool.closed:
            pool = self._make(interpreter, settings, kernels)
        used = Counter(self._users.values())
        self._pools[key], self._users[key] = pool, min(before, uid, key=used.__getitem__)
        while len(self._pools) > self._most:
            used = Counter(self._users.values())
            goes = next(each for each in self._pools if used[self._users[each]] == max(used.values()))
            del self._users[goes]
            self._pools.pop(goes).retire()
        return pool

    def retire(self) -> None:
        """Keep none: what runs goes on, what comes gets new ones."""
        for pool in self._emptied():
            pool.retire()

    def kill(self) -> None:
        """End everything now."""
        for pool in self._emptied():
            pool.shutdown()

    def _emptied(self) -> Collection[ForkingPool]:
        pools, self._pools, self._users = self._pools, {}, {}
        return pools.values()


def _key(interpreter: str, settings: Mapping[str, str], kernels: bool) -> tuple[str, tuple[tuple[str, str], ...], bool]:
    return interpreter, tuple(sorted(settings.items())), kernels


def name_of(function: Callable[..., Any]) -> str:
    """Return how an order names a function."""
    return f"{function.__module__}:{function.__qualname__}"


def _has_news(interpreter: Interpreter) -> bool:
    """Whether it said something that wasn't read yet: who is stopped for long must not take others for stopped."""
    poll = select.poll()
    for fd in interpreter.handlers:
        poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))
