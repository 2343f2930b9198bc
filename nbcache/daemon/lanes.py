"""Jobs that go through a profile: how long they keep a worker, and when they go on.

A lane takes as long as there is anything to build, and others want workers too. So one that runs is told to stop when
somebody else's request finds no worker free. It ends after what it is compiling, and waits behind that request.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

from nbcache.daemon import turns
from nbcache.daemon.claims import Claims
from nbcache.daemon.pool import CrashError, JobError
from nbcache.errors import NbcacheError
from nbcache.passing import let_pass
from nbcache.protocol import profiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

    from nbcache.daemon.turns import Job
    from nbcache.protocol.requests import Request
    from nbcache.store.directory import Store

_log = logging.getLogger("nbcache")
SHARE: Final = 0.5
"""Which part of a job's time a lane takes before it lets another job go on with the profile."""
CRASHES: Final = 2
"""How often a lane may crash: what it did so is left to the program."""


def make_room(waiting: Iterable[Job], free: int) -> None:
    """Have lanes end where others wait for their workers."""
    found = list(waiting)
    others = any(job.future is None and not job.request.is_profile and turns.is_fresh(job) for job in found)
    for job in found:
        if job.claims is not None:
            job.claims.stop = others and free <= 0


def claims_for(job: Job, store: Callable[[], Store]) -> Claims:
    """What a lane that begins may claim."""
    job.claims = Claims(store)
    return job.claims


def profile_of(request: Request, store: Store) -> str:
    """Return the profile that a lane is to go through, as text. Raises NbcacheError.

    It is read here, since a job can't tell whose a file is. This process may be able to read more than who asks.
    """
    wanted = request.types
    found = profiles.read(store.path, request.source or "", store.trust, int(wanted["uid"]))
    if found is None or not (found.head.shared or request.uid in {0, found.head.uid}):
        raise NbcacheError("there is no such profile that may be used")
    package = str(wanted["package"])
    return profiles.encode(found.of_package(package) if package else found).decode("ascii")


def goes_on(job: Job, future: Future[Any]) -> bool:
    """A lane has ended: whether it is to go on later. If so, it waits behind what waits now."""
    stopped = job.claims is not None and job.claims.stop
    job.let_go()
    try:
        said = future.result()
        built, more, problem = _whole(said.get("built")), said.get("more") is True, said.get("problem")
        job.attempts = 0
    except CrashError as error:
        built, more, problem = 0, job.attempts < CRASHES, str(error)
    except JobError as error:
        built, more, problem = 0, False, str(error)
    except Exception as raised:  # noqa: BLE001  another executor may raise what it likes
        let_pass(raised)
        built, more, problem = 0, False, repr(raised)
    if problem is not None:
        _log.info("%s: %.300s", job.request.function, problem)
    else:
        _log.info("built %d functions of %s for %s", built, job.request.function, job.request.host)
    job.asked = time.monotonic()
    return more and (built > 0 or stopped or problem is not None)


def _whole(value: object) -> int:
    return value if type(value) is int else 0
