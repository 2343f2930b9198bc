"""Workers as an executor: each call runs in a child of its own, forked from an interpreter that is warm.

:class:`ForkingPool` is a :class:`concurrent.futures.Executor`; whatever else is one (a cluster engine's, say) can stand
in for it, as long as its processes have the hook switched on over the store.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import socket
import subprocess
import threading
from collections import deque
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Final

from nbcache.daemon.zygote import PROTOCOL_VERSION
from nbcache.errors import NbcacheError
from nbcache.protocol import effort

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_log = logging.getLogger("nbcache")
START_SECONDS: Final = 120.0
"""How long an interpreter may take to import Numba, on a busy machine and a cold network filesystem [s]."""


class CrashError(NbcacheError):
    """A job's process ended without a result: killed, overdue, out of memory. To try again may help."""


class JobError(NbcacheError):
    """A job raised. Its text is what."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a job may take."""

    seconds: float = 300.0
    bytes: int = 4 << 30
    """More than the process has when it starts; 0 for no limit."""


class ForkingPool(Executor):
    """At most *workers* jobs at once, in children of one interpreter.

    ``submit(function, *args)``: a function at the top level of a module of that interpreter's, and JSON. The future
    raises :class:`JobError` for what the function raised, and :class:`CrashError`. An interpreter that died is started
    again for the next job.
    """

    def __init__(
        self, interpreter: str, root: str, environment: Mapping[str, str], workers: int, limits: Limits
    ) -> None:
        """Start nothing yet; *root* is the store."""
        self._root = root
        self.interpreter = interpreter
        self._environment = dict(environment)
        self._workers = workers
        self._limits = limits
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: deque[tuple[int, Future[Any], str, tuple[Any, ...]]] = deque()
        self._running: dict[int, Future[Any]] = {}
        self._children: dict[int, int] = {}
        self._zygote: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._closed = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See the class. Raises RuntimeError after `shutdown`, OSError when the interpreter can't be started."""
        if kwargs:
            msg = "jobs take no keyword arguments"
            raise TypeError(msg)
        call = f"{fn.__module__}:{fn.__qualname__}"
        future: Future[Any] = Future()
        with self._lock:
            if self._closed:
                msg = "the pool was shut down"
                raise RuntimeError(msg)
            if self._connection is None:
                self._start()
            self._waiting.append((next(self._numbers), future, call, args))
            self._feed()
        return future

    def worked(self, future: Future[Any]) -> float | None:
        """How much processor time was spent on a call so far [s]; None if that isn't known.

        Before its process is there, that of the interpreter which is to fork it, and may still be importing Numba.
        """
        with self._lock:
            number = next((number for number, each in self._running.items() if each is future), None)
            child = None if number is None else self._children.get(number)
            zygote = self._zygote
        if child is not None:
            return effort.processor_time(child)
        return None if number is None or zygote is None else effort.processor_time(zygote.pid, children=False)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more jobs; with *cancel_futures*, drop the waiting ones; end the interpreter once all are done.

        Without *wait*, kill what runs.
        """
        with self._lock:
            self._closed = True
            dropped = list(self._waiting) if cancel_futures or not wait else []
            if dropped:
                self._waiting.clear()
            pending = [*self._running.values(), *(future for _, future, _, _ in self._waiting)]
        for _, future, _, _ in dropped:
            future.cancel()
        if wait:
            for future in pending:
                with suppress(Exception):
                    future.exception()
        with self._lock:
            connection, zygote = self._connection, self._zygote
            self._connection = None
        if connection is not None:
            # Not close(): another thread reads from it.
            with suppress(OSError):
                socket.socket(fileno=os.dup(connection.fileno())).shutdown(socket.SHUT_RDWR)
        if zygote is not None:
            with suppress(subprocess.TimeoutExpired):
                zygote.wait(5)
            if zygote.poll() is None:
                zygote.kill()
                zygote.wait()

    # -- with the lock held ----------------------------------------------------------------------

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._zygote = subprocess.Popen(  # noqa: S603  an interpreter that was found trusted
                [self.interpreter, "-m", "nbcache.daemon.zygote", str(theirs.fileno()), self._root],
                env=self._environment, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], cwd="/",
            )  # fmt: skip
        self._connection = Connection(ours.detach())
        threading.Thread(
            target=self._listen, args=(self._connection, self._zygote), name="nbcache pool", daemon=True
        ).start()

    def _feed(self) -> None:
        while self._waiting and len(self._running) < self._workers and self._connection is not None:
            number, future, call, args = self._waiting.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            order = {"job": number, "call": call, "args": args}
            order.update(seconds=self._limits.seconds, bytes=self._limits.bytes)
            self._running[number] = future
            # A broken socket is noticed, and this job with it, by whoever listens.
            with suppress(OSError):
                self._connection.send_bytes(json.dumps(order).encode())

    # -- in the thread ---------------------------------------------------------------------------

    def _listen(self, connection: Connection, zygote: subprocess.Popen[bytes]) -> None:
        reason = f"the interpreter {self.interpreter} ended"
        try:
            while True:
                said = json.loads(connection.recv_bytes())
                if "ready" in said:
                    if said["ready"] != PROTOCOL_VERSION:
                        reason = f"the nbcache of {self.interpreter} is of another version"
                        break
                elif "child" in said:
                    with self._lock:
                        self._children[said["job"]] = said["child"]
                else:
                    self._settle(said)
        except (EOFError, OSError, ValueError):
            pass
        zygote.kill() if zygote.poll() is None else None
        with suppress(subprocess.TimeoutExpired):
            zygote.wait(5)
        with self._lock:
            lost = list(self._running.values())
            self._running.clear()
            self._children.clear()
            if self._connection is connection:
                self._connection = None
            connection.close()
            if not self._closed and self._waiting:
                with suppress(OSError):
                    self._start()
                    self._feed()
        for future in lost:
            future.set_exception(CrashError(reason))

    def _settle(self, said: dict[str, Any]) -> None:
        with self._lock:
            future = self._running.pop(said["job"], None)
            self._children.pop(said["job"], None)
            self._feed()
        if future is None:
            return
        if "crash" in said:
            future.set_exception(CrashError(said["crash"]))
        elif "error" in said:
            future.set_exception(JobError(said["error"]))
        else:
            future.set_result(said["result"])


class Pools:
    """A pool for each interpreter and set of Numba's settings, the few that were used last."""

    def __init__(self, make: Callable[[str, Mapping[str, str]], Executor], most: int = 8) -> None:
        """*make* gives an executor for an interpreter and settings; not more than *most* are kept."""
        self._make = make
        self._most = most
        self._pools: dict[tuple[str, tuple[tuple[str, str], ...]], Executor] = {}

    def get(self, interpreter: str, settings: Mapping[str, str]) -> Executor:
        """The executor for these. Raises what making one raises."""
        key = (interpreter, tuple(sorted(settings.items())))
        pool = self._pools.pop(key, None) or self._make(interpreter, settings)
        self._pools[key] = pool
        while len(self._pools) > self._most:
            self._retire(self._pools.pop(next(iter(self._pools))))
        return pool

    def retire(self) -> None:
        """Keep none: what runs goes on, what comes gets new ones."""
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            self._retire(pool)

    def kill(self) -> None:
        """End everything now."""
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            pool.shutdown(wait=False)

    @staticmethod
    def _retire(pool: Executor) -> None:
        threading.Thread(target=pool.shutdown, name="nbcache retires a pool", daemon=True).start()
