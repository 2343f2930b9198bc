"""How long one process waits for others: an account of waiting that came to nothing.

Waiting pays if what is waited for comes. Whether it will, nobody can know, so this is what holds whatever is broken:

- **An allowance.** Waiting without any sign of progress is never more than :data:`SHARE` of what the process has lived
  otherwise, and :data:`FLOOR_SECONDS`. A program that waits in vain then takes a quarter as long again, however many
  functions it has and however short-lived it is: no guess is needed of what a function would take to compile. On a
  crowded machine, where everybody is slower, a process has lived longer.
- **Progress** is processor time that somebody spends on what is waited for, as far as that can be seen. It would be
  spent here as well, so waiting for as long costs at most as much again. Without an end to it, it is no progress: the
  bounds for one function and for the process hold all the same.
- **A budget** for the process, all of its threads and functions: ``NBCACHE_WAIT_BUDGET``.
- **A crowd** is no reason to give up: for as long as whoever builds could have run and had no processor, this process
  would have had none either, so that isn't counted. Thirty processes that all gave up at once would each take as long.

What was waited for and came is charged only as far as it took longer than compiling would have. A daemon is asked for
one more function only while all of that is less than :data:`ASKING_SHARE`: one that is slower than compiling, since it
has just started or imports anew what the program has imported, costs a program a twentieth. With
``NBCACHE_ON_MISS=wait`` the share is :data:`PATIENT_SHARE` for both, which keeps the program within twice its time.
Only who says how long, by ``NBCACHE_WAIT_SECONDS`` or ``NBCACHE_WAIT_BUDGET``, waits that long: there is no
allowance then.

"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from nbcache import other_processes
from nbcache.config import Settings
from nbcache.counting import Counters
from nbcache.process import os, time

FLOOR_SECONDS: Final = 0.2
"""What may be waited in vain in any process [s]."""
SHARE: Final = 0.25
"""What may be waited in vain as a share of what the process has lived otherwise."""
PATIENT_SHARE: Final = 1 / 3
"""The same for who would rather wait than compile."""
ASKING_SHARE: Final = 0.05
"""Which share of that waiting may have cost so far where a daemon is asked for one more function."""
CROWDED: Final = 8.0
"""How much longer than its processor time a process is taken to have been busy: one that slept is none the older."""
_ENDLESS: Final = float("inf")


class Patience:
    """The account of one process. Threads may wait at once; a forked child has an account of its own."""

    def __init__(self, settings: Settings, counters: Counters) -> None:
        """Nothing was waited for yet."""
        self.insists = settings.on_miss == "wait" and settings.says_how_long
        """Whether waiting without any sign of progress has no other end than the limits that somebody set."""
        self.is_told = settings.says_how_long
        """Whether somebody set the limits, which then hold by the clock."""
        self._is_patient = settings.on_miss == "wait"
        self.is_wanted = self.is_told or self._is_patient
        """Whether somebody wants others to be waited for, be it in vain."""
        self._most = 0.0 if settings.on_miss == "compile" else settings.wait_seconds
        self._budget = settings.waiting_in_all
        self._counters = counters
        self._restart()

    def _restart(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._spent = self._waited = 0.0
        self._born = _birth()

    def wait(self) -> Wait:
        """Begin to wait; a context manager."""
        if self._pid != os.getpid():
            self._restart()
        return Wait(self, self._most)

    @property
    def budget(self) -> float:
        """How long may still be waited in all [s]."""
        return self._budget - self._spent

    @property
    def allowance(self) -> float:
        """How long may still be waited without a sign of progress [s]."""
        return self._left_of(PATIENT_SHARE if self._is_patient else SHARE)

    @property
    def asks(self) -> bool:
        """Whether a daemon may be asked for one more: none that is slower than compiling has cost too much lately."""
        return self._is_patient or self._left_of(ASKING_SHARE) > 0

    def _left_of(self, share: float) -> float:
        if self.insists:
            return _ENDLESS
        lived = min(time.monotonic() - self._born - self._waited, CROWDED * time.process_time())
        return FLOOR_SECONDS + share * max(0.0, lived) - self._spent

    def charge(self, waited: float, in_vain: float, *, came: bool) -> None:
        """Put down how long somebody waited [s], and how much of it was to no purpose."""
        with self._lock:
            self._waited += waited
            self._spent += in_vain
        self._counters.waited(waited, came=came)


class Wait:
    """One function's waiting. What :meth:`left` says holds until the next sign of progress."""

    __slots__ = ("_began", "_excused", "_most", "_patience", "_progress", "_slept", "_worth", "came")

    def __init__(self, patience: Patience, most: float) -> None:
        self._patience = patience
        self._most = most
        self._began = self._progress = time.monotonic()
        self._worth = self._excused = 0.0
        self._slept = False
        self.came = False
        """Whether what was waited for is here."""

    def __enter__(self) -> Wait:  # noqa: PYI034  # Self is new in Python 3.11
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Settle up, also when the program's own exception ends the waiting."""
        if self._slept:
            waited = time.monotonic() - self._began
            self._patience.charge(waited, max(0.0, waited - self._excused - self._worth), came=self.came)

    @property
    def left(self) -> float:
        """How long may still be waited for this, as things are [s]; nothing more if it isn't positive."""
        now = time.monotonic()
        waited, silent = now - self._began - self._excused, now - self._progress
        return min(self._most - waited, self._patience.budget - waited, self._patience.allowance - silent)

    @property
    def lasted(self) -> float:
        """How long this has been waited for [s]."""
        return time.monotonic() - self._began

    def sleep(self, seconds: float) -> None:
        """Wait for so long [s], or as long as is allowed."""
        self._slept = True
        time.sleep(max(0.0, min(seconds, self.left)))

    def progress(self) -> None:
        """Somebody was seen to work on it until now."""
        self._progress = time.monotonic()

    def excuse(self, seconds: float) -> None:
        """Whoever works on it was kept from that for so long [s], as this process would have been."""
        if not self._patience.is_told:
            self._excused = min(self._excused + max(0.0, seconds), time.monotonic() - self._began)

    def done(self, seconds: float) -> None:
        """It came: compiling it would have taken so long [s]."""
        self.came = True
        self._worth = max(0.0, seconds)


def _birth() -> float:
    """When this process began, by the monotonic clock [s]; about now if that can't be known."""
    with suppress(OSError, AttributeError, ValueError):
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - other_processes.birth(os.getpid()) / os.sysconf("SC_CLK_TCK")
        return time.monotonic() - max(0.0, age)
    return time.monotonic()


LOOK_SECONDS: Final = 0.1
"""How often one looks [s]."""
LEAST: Final = 0.02
"""Which part of the time has to be spent by a processor to count: on a crowded machine it is a small one."""


class Watch:
    """Looks at one piece of work now and then.

    ``told`` tells its processor time so far, and for how long whoever does it could have run and had no processor [s];
    None for what isn't known.
    """

    def __init__(self, told: Callable[[], tuple[float | None, float | None]]) -> None:
        """Begin to watch: what was before is no progress, and no matter."""
        self._told = told
        self._looked = self._since = time.monotonic()
        self._kept = told()[1]
        self.last: float | None = None
        """What was spent when it last grew by something that counts [s]."""

    def look(self, wait: Wait) -> bool:
        """Tell *wait* what was seen since the last time; return whether work was done."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return False
        self._looked = now
        before, (spent, self._kept) = self._kept, self._told()
        if before is not None and self._kept is not None:
            # Less, where somebody else has taken over.
            wait.excuse(self._kept - before)
        advanced = spent is not None and self._advanced(spent, now)
        if advanced:
            wait.progress()
        return advanced

    def _advanced(self, spent: float, now: float) -> bool:
        if self.last is None or spent < self.last:
            # Begun since then, seen for the first time, or gone on with by another process.
            self.last, self._since = spent, now
            return spent > 0
        if spent - self.last <= LEAST * (now - self._since):
            return False
        self.last, self._since = spent, now
        return True


PACE_SECONDS: Final = 0.5
"""Over how long the pace of who builds is taken [s]."""
LAGGING: Final = 1.5
"""How many times as long as compiling it here something may still take at that pace to be waited for."""


class Pace:
    """Whether what somebody else builds is there sooner than it would be here.

    Workers that let everything else go first may get hardly any time where others are at work as well.
    """

    def __init__(self, seconds: float | None) -> None:
        """Compiling takes about so long [s]; None if nobody knows: then only who gives way to others is too slow."""
        self._seconds = seconds
        self._since = time.monotonic()
        self._first: float | None = None

    def lags(self, spent: float | None, *, gives_way: bool = False) -> bool:
        """Whether who builds, and has *spent* so much processor time on it [s], is too slow to be waited for."""
        if self._seconds is None and not gives_way:
            return False
        waited = time.monotonic() - self._since
        if spent is not None and (self._first is None or spent < self._first):
            self._first, self._since, waited = spent, time.monotonic(), 0.0
        if waited < PACE_SECONDS:
            return False
        pace = (spent - self._first) / waited if spent is not None and self._first is not None else 0.0
        if self._seconds is None:
            return pace * LAGGING < 1
        left = max(self._seconds - (spent or 0.0), 0.1 * self._seconds)
        return left > LAGGING * self._seconds * pace
