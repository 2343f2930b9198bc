"""What one daemon did, and what it couldn't: for people (``nbcache status``). Bounded; touches local disk alone.

::

    jobs        the number of the next job
    job/<n>     [key, what, when, seconds, outcome]     of jobs n, n + MAX_JOBS, ... the last one: a ring
    failures    {key: [what, reason, when, count]}      the latest MAX_FAILURES
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nbcache.daemon import rows

if TYPE_CHECKING:
    from nbcache.daemon.state import State

MAX_JOBS: Final = 1000
"""How many jobs are remembered."""
MAX_FAILURES: Final = 200
"""How many failures are remembered."""
MAX_TEXT: Final = 1000
"""The longest text that is kept of a reason or a function [characters]."""
BUILT: Final = "built"
"""The outcome of a job that put an entry into the store."""
_JOB: Final = (str, str, float, float, str)
_FAILURE: Final = (str, str, float, int)


@dataclass(frozen=True, slots=True)
class Job:
    """One thing the daemon did."""

    key: str
    what: str
    """Function and signature, readable."""
    when: float
    """When it ended, Unix time [s]."""
    seconds: float
    """How long it took [s]."""
    outcome: str
    """:data:`BUILT` or a word or two on what became of it."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What can't be built."""

    key: str
    what: str
    reason: str
    when: float
    """The last time, Unix time [s]."""
    count: int


class History:
    """Jobs and failures, in a :class:`~nbcache.daemon.state.State`. Threads may share one; no method raises."""

    def __init__(self, state: State) -> None:
        """Go on where the state ends."""
        self._state = state
        self._guard = threading.Lock()
        self._next = int(rows.number(state.get("jobs")))

    def job_done(self, key: str, what: str, seconds: float, outcome: str, when: float | None = None) -> None:
        """Remember that a job ended (default: now). :data:`BUILT` takes back a failure of that key."""
        with self._guard:
            name = f"job/{self._next % MAX_JOBS}"
            self._next += 1
            job = (key, what[:MAX_TEXT], time.time() if when is None else when, seconds, outcome[:MAX_TEXT])
            values: dict[str, object] = {name: job, "jobs": self._next}
            if outcome == BUILT:
                failed = self._failed()
                if failed.pop(key, None) is not None:
                    values["failures"] = failed
            self._state.put(values)

    def failure(self, key: str, what: str, reason: str, when: float | None = None) -> None:
        """Remember that something couldn't be built (default: now). Beyond :data:`MAX_FAILURES` the oldest go."""
        with self._guard:
            failed = self._failed()
            count = failed.pop(key, ("", "", 0.0, 0))[3] + 1
            failed[key] = (what[:MAX_TEXT], reason[:MAX_TEXT], time.time() if when is None else when, count)
            for oldest in sorted(failed, key=lambda name: failed[name][2])[:-MAX_FAILURES]:
                del failed[oldest]
            self._state.put({"failures": failed})

    def recent_jobs(self, most: int) -> list[Job]:
        """Return the last jobs, the newest first."""
        last = self._next
        numbers = range(last - 1, max(last - min(most, MAX_JOBS), 0) - 1, -1)
        found = (rows.row(self._state.get(f"job/{number % MAX_JOBS}"), _JOB) for number in numbers)
        return [Job(*row) for row in found if row is not None]

    def failures(self) -> list[Failure]:
        """Return what couldn't be built and wasn't since, the newest first."""
        found = [Failure(key, *row) for key, row in self._failed().items()]
        return sorted(found, key=lambda failure: failure.when, reverse=True)

    def _failed(self) -> dict[str, tuple[str, str, float, int]]:
        found = ((key, rows.row(row, _FAILURE)) for key, row in rows.mapping(self._state.get("failures")).items())
        return {key: row for key, row in found if row is not None}
