"""One interpreter and its jobs, seen from outside: in the daemon, which runs nothing of what they bring.

What a job says is believed of that job alone: each has a channel of its own, and where something comes from is decided
by the channel. What it may take is decided here: its time is counted by this process, and when that is over it is
killed by this process, whatever state the interpreter is in that forked it. A process that can't be killed (it waits
for a disk, "D state") is waited for by nobody; it only counts as running.

Nothing here waits. Who calls says when something can be read (:attr:`Interpreter.handlers`) and when time has passed.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import Any, Final

from nbcache import other_processes
from nbcache.daemon import channel, linux_calls
from nbcache.daemon.channel import BadMessageError, Channel
from nbcache.daemon.job_run import NEVER, Call, CrashError, Errors, InterpreterError, JobError, Running, ending
from nbcache.daemon.job_services import Services
from nbcache.daemon.publisher import Ticket
from nbcache.daemon.zygote import PROTOCOL_VERSION
from nbcache.grammar import up_to
from nbcache.one_line import log, one_line

START_SECONDS: Final = 120.0
"""How long an interpreter may take to import Numba, on a busy machine and a cold network filesystem [s]."""
FORK_SECONDS: Final = 10.0
"""How long one that is ready may take to begin a job [s]: then it hangs, and another one is started beside it."""
EXECUTE_SECONDS: Final = 10.0
"""How long it may take until an interpreter is being executed [s]; its file may lie on a filesystem that hangs."""
GRACE_SECONDS: Final = 5.0
"""How long a job that has answered may take to end [s]; then it is made to."""
STUCK_SECONDS: Final = 5.0
"""When a killed process counts as one that can't be killed [s]."""
MAX_MESSAGES: Final = 200_000
"""How many things one job may say."""
_AT_ONCE: Final = 64
_number: Final = up_to((1 << 31) - 1)


class Interpreter:
    """A process that forks jobs, with those that it runs."""

    who = "an interpreter"
    lost: type[CrashError] = InterpreterError
    """What becomes of its jobs when it ends."""
    crashes: Mapping[str, type[CrashError]] = {}
    """What a job's crash is by what it blames; of interpreters, nothing else."""

    def __init__(self, start: Callable[[int, int, int], subprocess.Popen[bytes]], services: Services) -> None:
        """Start it, given the ends of two channels and where its standard error goes. Raises OSError."""
        self._services = services
        self.running: dict[int, Running] = {}
        self.handlers: dict[int, Callable[[], None]] = {}
        """What to call when a descriptor can be read; whoever polls takes note of each change."""
        self.ready = False
        self.dead = ""
        """Why it takes no more orders."""
        self.namespaces: bool | None = None
        """Whether jobs get namespaces; None until that is known."""
        self.landlock = False
        """Whether, without namespaces, they are under Landlock."""
        self.problem = ""
        self._guarded = False
        self.pid = 0
        """That of the one who forks, which is a child of `process` where there are namespaces, or a guard."""
        self._ticket = Ticket(built=services.built)
        self._started = time.monotonic()
        self._orders, orders = Channel.pair()
        self._asking, asking = Channel.pair()
        self.errors, writing = Errors.piped(self.who)
        try:
            with orders, asking:
                self.process = start(orders.fileno(), asking.fileno(), writing)
        except BaseException:
            self._close()
            raise
        finally:
            os.close(writing)
        self.handlers[self._orders.fileno()] = self._hear
        self.handlers[self._asking.fileno()] = self._be_asked
        self.handlers[self.errors.fd] = lambda: self._relay(self.errors)

    # -- orders ----------------------------------------------------------------------------------

    def run(self, call: Call, seconds: float) -> bool:
        """Have a job begun; return False if the interpreter doesn't take it."""
        if self._ticket.asked < 0:
            # It runs what its packages say, and what it hands in itself is the word of who had it started.
            self._ticket.asked = call.ticket.asked
        job = Running(call, seconds)
        job.channel, theirs = Channel.pair()
        job.channel.discard = lambda fds: self._services.discard(job, fds)
        job.errors, writing = errors, _ = Errors.piped(f"the job for {call.what}")
        try:
            with channel.sealed(call.order) as order:
                self._orders.send({"job": call.number}, theirs.fileno(), order, writing)
        except OSError:
            self._forget(job)
            return False
        finally:
            theirs.close()
            os.close(writing)
        self.running[call.number] = job
        self.handlers[job.channel.fileno()] = lambda: self._listen(job)
        self.handlers[errors.fd] = lambda: self._relay(errors)
        return True

    def take_back(self) -> list[Call]:
        """Give back the jobs that were never begun: the interpreter hangs, and ends after the rest."""
        found = [job for job in self.running.values() if not job.begun]
        for job in found:
            self._forget(job)
        return [job.call for job in found]

    def cancel(self, reason: str) -> None:
        """End it, and all that it runs."""
        self.dead = self.dead or reason
        if self.process.poll() is None:
            # A guard ends what was started, and can't if it is killed.
            (self.process.terminate if self._guarded else self.process.kill)()
        for job in list(self.running.values()):
            job.kill()
            job.settle(self.lost(reason))
            self._forget(job)
        self._close()

    # -- time ------------------------------------------------------------------------------------

    @property
    def hangs(self) -> bool:
        """Whether it doesn't begin what it was asked to."""
        now = time.monotonic()
        if not self.ready:
            return now - self._started > START_SECONDS
        return any(not job.begun and now - max(job.sent, self._started) > FORK_SECONDS for job in self.running.values())

    def next_event(self) -> float:
        """When `pass_time` has something to do at the latest, by time.monotonic()."""
        waits = [job.sent + FORK_SECONDS for job in self.running.values() if not job.begun and self.ready]
        if not self.ready:
            waits.append(self._started + START_SECONDS)
        for job in self.running.values():
            if not job.call.future.done():
                waits += [job.said_at + GRACE_SECONDS, job.silent_at + GRACE_SECONDS]
                waits.append(job.deadline if job.said is None else NEVER)
            elif not job.stuck:
                waits.append(job.killed_at + STUCK_SECONDS)
        return min(waits, default=NEVER)

    def pass_time(self) -> None:
        """End what is overdue, and say what can't be ended."""
        now = time.monotonic()
        for job in list(self.running.values()):
            if job.call.future.done():
                if now > job.killed_at + STUCK_SECONDS and not job.stuck:
                    job.stuck = True
                    log.warning("%s: its process can't be killed; it occupies a worker until it ends", job.call.what)
            elif now > job.deadline and job.said is None:
                job.settle(CrashError(f"it took longer than {job.seconds:g} s"))
                self._end(job)
            elif now > min(job.said_at, job.silent_at) + GRACE_SECONDS:
                self._conclude(job)

    def worked(self, number: int) -> float | None:
        """How much processor time a job has had [s]; None if it hasn't begun, or that isn't known."""
        job = self.running.get(number)
        return None if job is None or not job.pid else other_processes.processor_time(job.pid)

    # -- what is said ----------------------------------------------------------------------------

    def _hear(self) -> None:
        """The interpreter itself."""
        try:
            for _ in range(_AT_ONCE):
                received = self._orders.receive()
                if received is None:
                    # Its last words may not be read yet.
                    self.errors.read()
                    self.cancel(f"the interpreter ended{self.errors.last and ': ' + self.errors.last}")
                    return
                said, fds = received
                channel.close_all(fds)
                if "ready" in said:
                    self.ready, self._started = True, time.monotonic()
                    if said["ready"] != PROTOCOL_VERSION:
                        self.cancel("its nbcache is of another version")
                        return
                elif "ended" in said:
                    self._ended(_number(said["ended"]), _number(said["status"]))
                else:
                    self._hear_else(said)
        except BlockingIOError:
            return
        except (OSError, ValueError, TypeError, KeyError) as error:
            self.cancel(f"the interpreter said something that is no message: {error}")

    def _hear_else(self, said: dict[str, Any]) -> None:
        """What an interpreter has no word for."""

    def _be_asked(self) -> None:
        """The interpreter, about what it imports."""
        try:
            for _ in range(_AT_ONCE):
                received = self._asking.receive()
                if received is None:
                    del self.handlers[self._asking.fileno()]
                    return
                said, fds = received
                if "namespaces" in said:
                    channel.close_all(fds)
                    self.namespaces, self.pid = bool(said["namespaces"]), self._asking.pid
                    self.landlock, self._guarded = bool(said.get("landlock")), bool(said.get("guarded"))
                    self._services.confined(self)
                elif "problem" in said:
                    channel.close_all(fds)
                    self.problem = one_line(str(said["problem"])[:300])
                else:
                    self._services.answer(self._asking, self._ticket, said, fds)
        except BlockingIOError:
            return
        except (OSError, BadMessageError) as error:
            self.cancel(f"the interpreter said something that is no message: {error}")

    def _listen(self, job: Running) -> None:
        """A job."""
        assert job.channel is not None
        try:
            for _ in range(_AT_ONCE):
                if job.gone:
                    return
                received = job.channel.receive()
                if received is None:
                    job.silent_at = time.monotonic()
                    del self.handlers[job.channel.fileno()]
                    self._conclude(job)
                    return
                self._understand(job, *received)
        except BlockingIOError:
            return
        except (OSError, ValueError) as error:
            self._forsake(job, error)

    def _understand(self, job: Running, said: dict[str, Any], fds: list[int]) -> None:
        assert job.channel is not None
        job.messages += 1
        if "judge" in said and job.begun and job.messages <= MAX_MESSAGES:
            self._services.judge(job, said, fds, self._forsake)
            return
        if not all(map(channel.is_in_memory, fds)):
            self._services.discard(job, fds)
            raise BadMessageError("what came along is no file in memory")
        if job.messages > MAX_MESSAGES:
            channel.close_all(fds)
            raise BadMessageError("it is one too many")
        if "started" in said and not job.begun:
            channel.close_all(fds)
            self._identify(job, job.channel.pid)
        elif not said.keys().isdisjoint({"result", "error", "crash"}) and job.said is None:
            channel.close_all(fds)
            job.said, job.said_at = said, time.monotonic()
        elif "done" in said and job.said is not None:
            channel.close_all(fds)
            self._conclude(job)
        elif job.begun:
            self._services.answer(job.channel, job.call.ticket, said, fds)
        else:
            channel.close_all(fds)
            raise BadMessageError("it is out of turn")

    def _identify(self, job: Running, pid: int) -> None:
        """The kernel says who wrote; that it is a child of the interpreter is checked, for it will be killed."""
        job.begun = True
        with suppress(OSError):
            job.pidfd = linux_calls.pidfd_open(pid)
        parent = other_processes.parent(pid)
        if parent not in {0, self.pid or self.process.pid}:
            raise BadMessageError("it came from another process")
        # One that is gone already needs not be killed; its number may be another's by now.
        job.pid = pid if parent else 0
        if job.pidfd >= 0:
            self.handlers[job.pidfd] = lambda: self._is_gone(job)
        if job.call.future.done():
            self._end(job)

    def _forsake(self, job: Running, error: Exception) -> None:
        job.settle(CrashError(f"it said something that is no message: {error}"))
        self._end(job)

    # -- how it ends -----------------------------------------------------------------------------

    def _ended(self, number: int, status: int) -> None:
        job = self.running.get(number)
        if job is not None:
            job.status = status
            if job.channel is not None and job.channel.fileno() in self.handlers:
                self._listen(job)  # what it said last may still be unread
            self._conclude(job)
            if job.pidfd < 0:
                self._forget(job)

    def _is_gone(self, job: Running) -> None:
        """Its process is no more. How it ended, the interpreter says; not for long, and not if it hangs."""
        del self.handlers[job.pidfd]
        job.silent_at = min(job.silent_at, time.monotonic())
        if job.channel is not None and job.channel.fileno() in self.handlers:
            self._listen(job)
        self._conclude(job)
        if job.call.future.done():
            self._forget(job)

    def _conclude(self, job: Running) -> None:
        """Settle what can be settled, and end what is left of the job."""
        if job.said is not None:
            self._settle_said(job, job.said)
        elif job.status is not None:
            job.settle(CrashError(ending(job.status)))
        elif time.monotonic() > job.silent_at + GRACE_SECONDS:
            job.settle(CrashError("it ended and said nothing"))
        else:
            return
        self._end(job)

    def _settle_said(self, job: Running, said: dict[str, Any]) -> None:
        if "crash" in said:
            job.settle(self.crashes.get(str(said.get("to blame")), CrashError)(str(said["crash"])))
        elif "error" in said:
            job.settle(JobError(str(said["error"])))
        else:
            job.settle(result=said["result"])

    def _end(self, job: Running) -> None:
        if not job.kill():
            with suppress(OSError):
                self._orders.send({"kill": job.call.number})
        was = job.pidfd >= 0 and job.pidfd not in self.handlers
        if was or (job.begun and not job.pid):
            self._forget(job)

    def _forget(self, job: Running) -> None:
        job.gone = True
        self.running.pop(job.call.number, None)
        if job.channel is not None:
            self.handlers.pop(job.channel.fileno(), None)
            job.channel.close()
        if job.errors is not None:
            job.errors.read()
            self._drop(job.errors)
        if job.pidfd >= 0:
            self.handlers.pop(job.pidfd, None)
            os.close(job.pidfd)
            job.pidfd = -1

    def _relay(self, errors: Errors) -> None:
        if not errors.read():
            self._drop(errors)

    def _drop(self, errors: Errors) -> None:
        fd, errors.fd = errors.fd, -1
        if fd >= 0:
            self.handlers.pop(fd, None)
            os.close(fd)

    def _close(self) -> None:
        for end in (self._orders, self._asking):
            if end.fileno() >= 0:
                self.handlers.pop(end.fileno(), None)
                end.close()
        if self.errors.fd >= 0:
            self.errors.read()
            self._drop(self.errors)


def started_in_time(start: Callable[[], Interpreter]) -> Interpreter:
    """Start an interpreter in a thread: that may hang. Raises OSError, TimeoutError after :data:`EXECUTE_SECONDS`."""
    started: Future[Interpreter] = Future()

    def run() -> None:
        try:
            interpreter = start()
        except BaseException as error:  # noqa: BLE001  whoever waits gets it
            started.set_exception(error)
        else:
            started.set_result(interpreter)
            # The process is killed when the thread ends that made it (prctl(2), PR_SET_PDEATHSIG).
            interpreter.process.wait()

    thread = threading.Thread(target=run, name="nbcache starts an interpreter", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise OSError(str(error)) from error
    try:
        return started.result(EXECUTE_SECONDS)
    except FutureTimeoutError:
        started.add_done_callback(_abandon)
        raise TimeoutError from None


def _abandon(started: Future[Interpreter]) -> None:
    if started.exception() is None:
        started.result().cancel("it came too late")
