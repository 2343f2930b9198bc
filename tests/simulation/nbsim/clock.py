"""A clock that jumps from one event to the next, and what stands in for threads, futures and sleep on it.

Each simulated thread is a greenlet: it runs until it waits for something, and then whatever is due next runs. So code
that was written for threads runs as it is, thousands of hosts fit into one process, and the same seed gives the same
course of events.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent, greenlet

if TYPE_CHECKING:
    from collections.abc import Callable


class _Waiting:
    """Somebody who waits; the first who wakes it does."""

    __slots__ = ("greenlet", "woken")

    def __init__(self, waiter: greenlet) -> None:
        self.greenlet = waiter
        self.woken = False


class Clock:
    """What the simulated code has for the module ``time``; and the events."""

    def __init__(self) -> None:
        """Begin at 0."""
        self.now = 0.0
        self._events: list[tuple[float, int, _Waiting]] = []
        self._numbers = itertools.count()
        self._hub = getcurrent()

    def monotonic(self) -> float:
        """Return how late it is [s]."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let others run for so long [s]."""
        self.wait(_Waiting(getcurrent()), seconds)

    def start(self, call: Callable[..., object], *args: Any) -> None:
        """Run something as a thread, soon."""
        self._due(self.now, _Waiting(greenlet(lambda: call(*args), self._hub)))

    def run(self) -> None:
        """Let everything happen, until nothing is left but those who wait for ever."""
        while self._events:
            when, _, waiting = heapq.heappop(self._events)
            if not waiting.woken:
                self.now = when
                waiting.woken = True
                waiting.greenlet.switch()

    def wait(self, waiting: _Waiting, seconds: float | None) -> bool:
        """Wait until woken; return whether that was before so long [s] had passed."""
        if seconds is not None:
            self._due(self.now + max(0.0, seconds), waiting)
        deadline = None if seconds is None else self.now + max(0.0, seconds)
        self._hub.switch()
        return deadline is None or self.now < deadline

    def wake(self, waiting: _Waiting) -> None:
        """Have somebody go on who waits."""
        if not waiting.woken:
            # Whoever still stands in the queue with the old mark is passed over.
            waiting.woken = True
            self._due(self.now, _Waiting(waiting.greenlet))

    def _due(self, when: float, waiting: _Waiting) -> None:
        heapq.heappush(self._events, (when, next(self._numbers), waiting))


class Future:
    """What stands in for ``concurrent.futures.Future``."""

    def __init__(self, clock: Clock) -> None:
        """Nothing is known yet."""
        self._clock = clock
        self._done = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._waiting: list[_Waiting] = []

    def set_result(self, result: Any) -> None:
        """It is over."""
        self._done, self._result = True, result
        self._wake()

    def set_exception(self, error: BaseException) -> None:
        """It failed."""
        self._done, self._error = True, error
        self._wake()

    def result(self, seconds: float | None = None) -> Any:
        """Return what came of it, or raise that; raise FutureTimeoutError after so long [s]."""
        if not self._done:
            waiting = _Waiting(getcurrent())
            self._waiting.append(waiting)
            self._clock.wait(waiting, seconds)
        if not self._done:
            raise FutureTimeoutError
        if self._error is not None:
            raise self._error
        return self._result

    def cancel(self) -> bool:
        """Like one that runs."""
        return False

    def _wake(self) -> None:
        for waiting in self._waiting:
            self._clock.wake(waiting)


class Threading:
    """What stands in for the module ``threading``; locks are real, since nobody waits while holding one."""

    Lock = staticmethod(threading.Lock)

    def __init__(self, clock: Clock) -> None:
        """Of one clock."""
        self._clock = clock

    def Condition(self) -> Condition:
        """Return a condition."""
        return Condition(self._clock)

    def Thread(self, *, target: Callable[[], object], **_: object) -> Thread:
        """Return a thread."""
        return Thread(self._clock, target)


class Thread:
    """What stands in for ``threading.Thread``."""

    def __init__(self, clock: Clock, target: Callable[[], object]) -> None:
        """Not started yet."""
        self._clock = clock
        self._target = target

    def start(self) -> None:
        """Run it, soon."""
        self._clock.start(self._target)


class Condition:
    """What stands in for ``threading.Condition``; only one greenlet runs at a time, so there is nothing to lock."""

    def __init__(self, clock: Clock) -> None:
        """Nobody waits."""
        self._clock = clock
        self._waiting: list[_Waiting] = []

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until notified; return whether that was before so long [s] had passed."""
        waiting = _Waiting(getcurrent())
        self._waiting.append(waiting)
        return self._clock.wait(waiting, seconds)

    def notify_all(self) -> None:
        """Have all go on who wait."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            self._clock.wake(each)


class Executor:
    """What stands in for ``ThreadPoolExecutor``."""

    def __init__(self, clock: Clock) -> None:
        """Of any number of threads."""
        self._clock = clock

    def submit(self, call: Callable[[], object]) -> Future:
        """Run something as a thread, soon."""
        future = Future(self._clock)

        def run() -> None:
            try:
                future.set_result(call())
            except Exception as error:
                future.set_exception(error)

        self._clock.start(run)
        return future
