"""What a daemon's jobs may ask of it: to judge a file, to take an entry, to claim a key, to write down what was used.

To look at a file may wait for a file server, for ever. Who waits then is whoever brought the file, and nobody else:
what may hang is done in a thread for each user, and what comes of it in the thread that asks (:class:`Beside`).
"""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from nbcache.daemon import channel
from nbcache.daemon.channel import BadMessageError, Channel
from nbcache.daemon.job_run import Running
from nbcache.daemon.publisher import Publisher, Ticket
from nbcache.file_trust import Trust
from nbcache.store.usage import MAX_RECORD


@dataclass(frozen=True, slots=True)
class Services:
    """What jobs may ask for."""

    trust: Trust
    """Judges for those who can't."""
    publisher: Publisher
    built: int
    """The uid that they run as."""
    confined: Callable[[Any], None]
    """Is told of each interpreter that started."""
    beside: Beside = field(default_factory=lambda: Beside(lambda: None))
    """Deals with what jobs pass on that may hang."""

    def judge(
        self, job: Running, said: dict[str, Any], fds: list[int], fail: Callable[[Running, Exception], None]
    ) -> None:
        """Answer what a job asks of a file, or *fail* it; later, as a file's server may not answer. Raises OSError."""

        def work() -> Callable[[], None]:
            try:
                answer = {"problem": self._judge(said, fds)}
            except Exception as error:  # noqa: BLE001  whatever it is costs that job, and no other
                return partial(fail, job, error)
            return partial(tell, answer)

        def tell(answer: dict[str, Any]) -> None:
            if not job.gone and job.channel is not None:
                try:
                    job.channel.send(answer)
                except OSError as error:
                    fail(job, error)

        self._do(job, work, fds)

    def discard(self, job: Running, fds: list[int]) -> None:
        """Close what a job passed on, whatever that is. Raises OSError."""
        if fds:
            # Also that may have to wait for a file's server.
            self._do(job, partial(channel.close_all, fds), fds)

    def _do(self, job: Running, work: Callable[[], Callable[[], None] | None], fds: list[int]) -> None:
        try:
            self.beside.do(job.call.ticket.asked, work)
        except OSError:
            channel.close_all(fds)
            raise

    def answer(self, end: Channel, ticket: Ticket, said: dict[str, Any], fds: list[int]) -> None:
        """Do what was asked for. Raises BadMessageError, OSError."""
        if "judge" in said:
            # An interpreter's own question, about what it imports.
            end.send({"problem": self._judge(said, fds)})
        elif "entry" in said:
            done = self.publisher.take(ticket, lambda most: channel.unsealed(fds, most))
            end.send({"ok": done.ok, "reason": done.reason})
        elif ticket.claims is not None and "claim" in said:
            channel.close_all(fds)
            end.send({"ok": ticket.claims.take(str(said["claim"])), "stop": ticket.claims.stop})
        elif ticket.claims is not None and "release" in said:
            channel.close_all(fds)
            ticket.claims.release(str(said["release"]))
        elif "usage" in said:
            self.publisher.usage(ticket, channel.unsealed(fds, MAX_RECORD))
        else:
            channel.close_all(fds)
            raise BadMessageError("it means nothing")

    def _judge(self, said: dict[str, Any], fds: list[int]) -> str | None:
        try:
            if len(fds) != 1:
                raise BadMessageError("it names nothing to be judged")
            status = os.fstat(fds[0])
            if said["judge"] == "owner":
                return self.trust.owner_problem(status, fds[0])
            return self.trust.writers_problem(status, fds[0], may_be_sticky=bool(said.get("sticky")))
        except OSError as error:
            return f"can't be examined: {error.strerror or error}"
        finally:
            channel.close_all(fds)


IDLE_SECONDS: Final = 5.0
"""How long a thread stays that has nothing to do [s]."""


class Beside:
    """One thread asks and settles; the others are made as they are needed. No work may raise."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """*wake* is called, in any thread, when there is something to be settled."""
        self._wake = wake
        self._lock = threading.Lock()
        self._waiting: dict[int, queue.SimpleQueue[Callable[[], Callable[[], None] | None]]] = {}
        self._done: deque[Callable[[], None]] = deque()

    def do(self, whose: int, work: Callable[[], Callable[[], None] | None]) -> None:
        """Have *work* done after all else that is *whose* (a uid); what it returns, if anything, is called by `settle`.

        Raises OSError where no thread can be made.
        """
        with self._lock:
            waiting = self._waiting.get(whose)
            if waiting is None:
                waiting = queue.SimpleQueue()
                thread = threading.Thread(
                    target=self._work, args=(whose, waiting), name="nbcache looks at files", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError as error:
                    raise OSError(str(error)) from error
                self._waiting[whose] = waiting
            waiting.put(work)

    def settle(self) -> None:
        """Call what came of all that is done."""
        while self._done:
            self._done.popleft()()

    def _work(self, whose: int, waiting: queue.SimpleQueue[Any]) -> None:
        while True:
            try:
                work = waiting.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if waiting.empty():
                        del self._waiting[whose]
                        return
                continue
            left = work()
            if left is not None:
                self._done.append(left)
                self._wake()
