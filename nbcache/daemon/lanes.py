"""Jobs that go through a profile: how long they keep a worker, and when they go on.

A lane takes as long as there is anything to build, and others want workers too. So one that runs is told to stop when
somebody else's request finds no worker free. It ends after what it is compiling, and waits behind that request.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any, Final

from nbcache.daemon import whose_turn
from nbcache.daemon.pool import CrashError, JobError
from nbcache.daemon.whose_turn import Job
from nbcache.errors import NbcacheError
from nbcache.one_line import log
from nbcache.protocol import profiles
from nbcache.protocol.requests import Request
from nbcache.store.directory import Store

SHARE: Final = 0.5
"""Which part of a job's time a lane takes before it lets another job go on with the profile."""
ATTEMPTS: Final = 3
"""How often in a row a lane may bring nothing into the store: what it does so is left to the program."""
TURN_SECONDS: Final = 10.0
"""How long a lane may run before it makes room for another user's first one [s]: it begins with seconds of imports."""
REFUSED_SECONDS: Final = 10.0
"""How long after its lease was somebody else's a request has no use for a worker [s]."""


def make_room(jobs: Iterable[Job], free: int) -> None:
    """Have lanes end where others wait for their workers."""
    found, now = list(jobs), time.monotonic()
    running = [job for job in found if job.claims is not None]
    served = {job.uid for job in found if job.future is not None}
    building = {job.held for job in found if job.future is not None}
    waiting = [
        job for job in found
        if job.future is None and whose_turn.is_fresh(job) and now - job.refused > REFUSED_SECONDS
        and job.held not in building and not any(lane.has_claimed(job.request.key) for lane in running)
    ]  # fmt: skip
    functions = any(not job.request.is_profile for job in waiting)
    first = any(job.request.is_profile and job.uid not in served for job in waiting)
    for job in running:
        assert job.claims is not None
        over = (first and now - job.started > TURN_SECONDS) or job.unasked
        job.claims.stop = job.superseded or (free <= 0 and (functions or (over and bool(waiting))))


def profile_of(request: Request, store: Store) -> str:
    """Return the profile that a lane is to go through, as text. Raises NbcacheError.

    It is read here, since a job can't tell whose a file is. This process may be able to read more than who asks. What
    it says is for the job to read, which takes a while.
    """
    uid = int(request.types["uid"])
    for folder in profiles.folders(store.path, store.trust, uid):
        found = profiles.read_from(folder, request.source or "", store.trust, bytes.decode)
        if found is not None and (request.uid in {0, uid} or _is_for_all(found[1], folder.status)):
            return found[0]
    raise NbcacheError("there is no such profile that may be used")


def _is_for_all(status: os.stat_result, above: os.stat_result) -> bool:
    """Whether everybody may read a file of this status in such a directory."""
    return bool(status.st_mode & stat.S_IROTH and above.st_mode & stat.S_IXOTH)


def goes_on(job: Job, future: Future[Any]) -> bool:
    """A lane has ended: whether it is to go on later. If so, it waits behind what waits now.

    What it says of itself is a job's word: it goes on as long as it brings something, and somebody asks for it.
    """
    job.let_go()
    try:
        said = future.result() if isinstance(future.result(), dict) else {}
        built, more, problem = _whole(said.get("built")), said.get("more") is True, said.get("problem")
        job.left = _whole(said.get("left"))
        if job.ticket is not None and job.ticket.admitted:
            job.built += job.ticket.admitted
            job.attempts = 0
    except CrashError as error:
        built, more, problem = 0, True, str(error)
    except JobError as error:
        built, more, problem = 0, False, str(error)
    if problem is not None:
        log.info("%s: %.300s", job.request.what, problem)
    else:
        log.info("built %d functions of %s for %s", built, job.request.what, job.request.host)
    if not job.unasked:
        job.asked = time.monotonic()
    return more and job.attempts < ATTEMPTS and (job.unasked or any(map(os.path.lexists, job.paths)))


def _whole(value: object) -> int:
    return value if type(value) is int else 0
