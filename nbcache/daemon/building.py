"""Which jobs run, and what came of them: from a request that was taken in to its answer."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, Final

from nbcache.daemon import failures, housekeeping, interpreters, job_functions, lanes, whose_turn
from nbcache.daemon.cluster import Farm, exposure
from nbcache.daemon.confinement import Confinement, Uids
from nbcache.daemon.interpreters import Judging
from nbcache.daemon.job_run import FarmError
from nbcache.daemon.pool import Confining, CrashError, ForkingPool, InterpreterError, JobError, Pools
from nbcache.daemon.presence import Presence
from nbcache.daemon.publisher import Claims, Publisher, Ticket
from nbcache.daemon.remote_builds import Remote
from nbcache.daemon.shared_parts import Commons, Sparing
from nbcache.daemon.whose_turn import Job
from nbcache.errors import NbcacheError
from nbcache.metrics import meter
from nbcache.one_line import log
from nbcache.protocol import spool
from nbcache.store import quarantine, reasons
from nbcache.store.usage import SELF_TEST

ATTEMPTS: Final = 2
"""How often a job is tried whose process ended without a word."""
START_SECONDS: Final = 0.1
"""How long jobs are begun in one turn of the daemon [s]: requests are read and answered in the same turns."""
AGAIN_SECONDS: Final = 1.0
"""How soon a job is tried again whose lease was somebody else's, if nothing else happens [s]."""
MAX_FAILURES_SAID: Final = 1000
"""How many failures are logged in an hour; the store has them all (`nbcache status`)."""


class Building:
    """Runs jobs in workers, and answers the requests for each when it is over."""

    def __init__(self, commons: Commons, presence: Presence, wake: Callable[[], None]) -> None:
        """Start no worker yet; *wake* is called, in any thread, when a job ended."""
        self._commons = commons
        self._presence = presence
        self._wake = wake
        self._pools = Pools(self._make_pool)
        self._judging = Judging(wake)
        self._uids = Uids(commons.options.uids)
        self._failures_said = Sparing(log, MAX_FAILURES_SAID)
        self._remote = Remote(lambda: commons.settings, commons.problems)
        most = commons.options.limits.result
        self._publisher = Publisher(
            lambda: commons.store, commons.audit, self._waited_for, self._remote.offer, most=most
        )
        self._here = commons.workers
        self._served: dict[int, float] = {}
        """When a job of each uid was begun last, by the monotonic clock [s]."""
        self._farm = self._make_farm(commons.options.farm) if commons.options.farm else None
        self.failures_grew = False
        """Whether failures were written that nobody has swept since."""

    def retire(self) -> None:
        """Have jobs that begin from now on run in new workers."""
        self._pools.retire()

    def close(self) -> None:
        """End all workers, and let others build what isn't built."""
        self._pools.kill()
        if self._farm is not None:
            self._farm.shutdown()
        self._remote.close()
        for job in self._commons.jobs.values():
            job.let_go()

    def start(self) -> None:
        """Start as many jobs as there are workers free."""
        if self._farm is not None:
            self._commons.workers = self._room(self._farm)
        free = self._commons.workers - self._commons.jobs.busy
        lanes.make_room(self._commons.jobs.values(), free)
        deadline = time.monotonic() + START_SECONDS
        running = {job.held for job in self._commons.jobs.values() if job.future is not None}
        for job in whose_turn.ordered(self._commons.jobs.values(), self._served) if free > 0 else ():
            if free <= 0:
                return
            if time.monotonic() > deadline:
                if time.monotonic() - job.refused > AGAIN_SECONDS:
                    self._wake()
                return
            if job.held in running:
                job.refused = time.monotonic()
            elif not self._is_looked_for(job):
                with self._commons.sparing.containing(job.request.function, partial(self._give_up, job)):
                    if self._has_interpreter(job) and self._start_job(job):
                        free -= 1
                        running.add(job.held)

    def _is_looked_for(self, job: Job) -> bool:
        """Whether the remote tiers are being asked for what a job would build; they are asked once."""
        if not job.looked:
            job.looked = True
            # A self-test is about building, and nobody else has its function.
            no_key = job.request.function == SELF_TEST or job.request.is_profile
            job.look = None if no_key else self._remote.fetch(job.request.key)
            if job.look is not None:
                job.look.add_done_callback(lambda _look: self._wake())
        return job.look is not None and not job.look.done()

    def _has_interpreter(self, job: Job) -> bool:
        """Whether what a job needs to run is there, or known not to be."""
        if self._goes_to_farm(job) or self._pools.has(*_environment(job)):
            return True
        return self._judging.is_over(job.request.interpreter, self._commons.store.trust, job.request.uid)

    def _start_job(self, job: Job) -> bool:
        store, key = self._commons.store, job.request.key
        if self._is_held(job):
            self._finish(job, None)
            return False
        # Held until the request is answered: another daemon, or a client that builds for itself, waits or goes on.
        job.lease = store.lease(job.held)
        if job.lease is None:
            job.refused = time.monotonic()
            self._get_ready(job)
            return False
        if self._is_held(job):
            self._finish(job, None)
            return False
        if job.paths and spool.failure(store.path, key, job.request.scope) is not None:
            # Another user's job was told so, while this one waited.
            self._give_up(job)
            return False
        job.attempts += 1
        job.started = self._served[job.uid] = time.monotonic()
        try:
            line = job.request.line().decode("ascii")
            submit = self._submit_for(job)
            aside = quarantine.condemned(store.path, store.trust, job.request.uid)
            job.ticket = ticket = Ticket(key, asked=job.request.uid, what=job.request.function, aside=tuple(aside))
            if job.request.is_profile:
                told = self._begin_lane(job, ticket)
                seconds = self._commons.options.limits.seconds * lanes.SHARE
                job.future = submit(job_functions.build_profile, line, told, seconds, ticket=ticket)
            else:
                job.future = submit(job_functions.build, line, True, job.suspect, ticket=ticket)
        except (NbcacheError, OSError, RuntimeError) as error:
            self._finish(job, str(error), failures.of(error, failures.ENVIRONMENT))
            return False
        job.future.add_done_callback(lambda _future: self._wake())
        return True

    def _get_ready(self, job: Job) -> None:
        """Have an interpreter for a job that somebody else does first, and tell that in the heartbeat.

        A client that doesn't wait for a new daemon compiles what it asks for itself, and goes on to ask for more once
        the daemon has finished something.
        """
        where = _environment(job)
        if job.paths and not self._goes_to_farm(job) and not self._pools.has(*where):
            with suppress(NbcacheError, OSError, RuntimeError):
                ready = self._pools.get(*where, uid=job.request.uid).submit(job_functions.get_ready)
                ready.add_done_callback(lambda _future: self._presence.got_ready())

    def _is_held(self, job: Job) -> bool:
        """Whether what a job is to build is there. What a profile lists has other keys than the request for it."""
        return not job.request.is_profile and self._commons.store.holds(job.request.key, job.request.uid)

    def _make_farm(self, address: str) -> Farm:
        commons = self._commons
        farm = Farm(
            address, lambda: commons.store, lambda: commons.settings, commons.options.limits, self._publisher,
            confining=Confining(self._uids.give()), changed=self._wake,
        )  # fmt: skip
        exposed = exposure(address)
        if exposed is not None:
            log.warning("%s", exposed)
        farm.start()
        return farm

    def _room(self, farm: Farm) -> int:
        """How many jobs may run at once: on the farm, or where that is out of reach and nobody waits for it, here."""
        waits, problem = self._commons.options.farm_waits, farm.problem
        meanwhile = "nothing is built until it can" if waits else "building on this host meanwhile"
        self._commons.problems.report(
            "farm", None if problem is None else f"the farm {farm.address} can't be used ({problem}); {meanwhile}"
        )
        if farm.slots:
            self._presence.confined = f"on the farm {farm.address}"
        return farm.slots or (0 if waits else self._here)

    def _submit_for(self, job: Job) -> Callable[..., Future[Any]]:
        """Have a job run somewhere. Raises what making a pool raises."""
        if self._farm is not None and self._goes_to_farm(job):
            job.pool = self._farm
            return partial(self._farm.carry, _environment(job))
        job.pool = pool = self._pools.get(*_environment(job), uid=job.request.uid)
        return pool.submit

    def _goes_to_farm(self, job: Job) -> bool:
        return self._farm is not None and self._farm.slots > 0 and not job.stays

    def _make_pool(self, interpreter: str, numba_settings: Mapping[str, str], kernels: bool) -> ForkingPool:
        commons, trust = self._commons, self._commons.store.trust
        problem = self._judging.problem(interpreter)
        if problem is not None:
            raise NbcacheError(f"the interpreter {interpreter} {problem}")
        environment = interpreters.environment(trust, commons.settings, numba_settings, kernels=kernels)
        return ForkingPool(
            interpreter, commons.store.path, environment, self._here, commons.options.limits,
            trust=trust, publisher=self._publisher, confining=Confining(self._uids.give(), told=self._tell_confined),
        )  # fmt: skip

    def _waited_for(self, key: str) -> set[int]:
        """Whose requests wait for a key, or whose job has claimed it."""
        jobs = self._commons.jobs
        return jobs.askers(key) | {job.uid for job in list(jobs.values()) if job.has_claimed(key)}

    def _begin_lane(self, job: Job, ticket: Ticket) -> str:
        """Return the profile that a job is to go through. Raises NbcacheError."""
        if self._farm is not None:
            raise NbcacheError("a daemon with a farm builds single functions alone")
        askers, uid = self._commons.jobs.askers, job.uid
        ticket.key, ticket.claims = "", Claims(lambda: self._commons.store, lambda key: askers(key) <= {uid})
        job.claims = ticket.claims
        return lanes.profile_of(job.request, self._commons.store)

    def _tell_confined(self, given: Confinement) -> None:
        self._presence.confined = given.summary
        self._commons.problems.report("confinement", given.complaint)

    def collect(self) -> None:
        """Answer the requests for the jobs that have ended."""
        for job in list(self._commons.jobs.values()):
            if job.future is not None and job.future.done():
                future, job.future = job.future, None
                self._presence.finished(time.monotonic() - job.started)
                with self._commons.sparing.containing(job.request.function, partial(self._give_up, job)):
                    self._judge(job, future)

    def _judge(self, job: Job, future: Future[Any]) -> None:
        if job.request.is_profile:
            if not lanes.goes_on(job, future):
                self._give_up(job)
            return
        request = job.request
        to_blame = failures.FUNCTION
        farmed = self._farm is not None and job.pool is self._farm
        try:
            to_blame, reason = failures.read(future.result())
            came_back = reason == job_functions.TRIED
            # A job that may not even read the store can't tell, and one that lies is no source.
            if reason in {None, job_functions.TRIED, job_functions.UNPUBLISHED}:
                held = self._commons.store.holds(request.key, request.uid)
                if came_back and held and job.suspect:
                    since = time.time() - time.monotonic() + job.started
                    housekeeping.approve(self._commons.store, request.key, request.uid, since)
                to_blame, reason = failures.RESOURCES, None if held else job_functions.UNPUBLISHED
        except FarmError as error:
            log.warning("%s: %s; it waits for another worker", request.what, error)
            job.attempts -= 1
            job.let_go()
            return
        except CrashError as error:
            if job.attempts < ATTEMPTS and not (farmed and isinstance(error, InterpreterError)):
                self._commons.meter.job(meter.CRASHED, time.monotonic() - job.started)
                log.warning("%s: %s; trying once more", request.what, error)
                job.let_go()
                return
            reason = str(error)
            if isinstance(error, InterpreterError):
                to_blame = failures.ENVIRONMENT
        except JobError as error:
            reason = f"{reasons.INTERNAL}: {error}"
        if reason is not None and failures.tells_scarcity(reason):
            to_blame = failures.RESOURCES
        if farmed and to_blame == failures.ENVIRONMENT and not self._commons.options.farm_waits:
            log.info("%s can't be built on the farm: %s", request.what, reason)
            job.stays = True
            job.let_go()
            return
        self._finish(job, reason, to_blame)

    def _finish(self, job: Job, reason: str | None, to_blame: str = failures.FUNCTION) -> None:
        """Answer everybody who asked for this."""
        commons, request = self._commons, job.request
        if request.function == SELF_TEST:
            self._finish_test(job, reason)
            return
        what = request.what
        if request.is_profile:
            # Which keys that would have been, nobody knows: there is nothing to write down.
            self._failures_said.warning(request.key, "could not build %s: %s", what, reason)
            self._give_up(job)
            return
        if reason is None:
            log.info("built %s for %s", what, request.host)
            spool.forget_failure(commons.store.path, request.key, request.scope)
        else:
            self._failures_said.warning(request.key, "could not build %s: %s", what, reason)
            if to_blame != failures.RESOURCES:
                # What is said of a function, a job has said, which runs what its user likes: to others that is no word.
                own = request.uid in {0, os.geteuid()}
                scope = "" if to_blame == failures.FUNCTION and own else request.scope
                spool.failed(commons.store.path, request, reason, job.attempts, scope=scope)
                self.failures_grew = True
        if job.attempts:
            seconds = time.monotonic() - job.started
            commons.meter.job(meter.BUILT if reason is None else meter.FAILED, seconds)
            self._presence.answered(what, seconds, meter.BUILT if reason is None else reason)
        self._give_up(job)

    def _finish_test(self, job: Job, reason: str | None) -> None:
        # Probes come every few seconds: neither history nor log is about them, and nothing of theirs is kept.
        log.debug("self-test: %s", reason)
        if reason is not None:
            # Whose name is what who asked says: to others it is no word.
            spool.failed(self._commons.store.path, job.request, reason, job.attempts, scope=job.request.scope)
        self._commons.tests.append((time.monotonic(), job.request.key, job.request.scope))
        self._give_up(job)

    def _give_up(self, job: Job) -> None:
        """Be done with a job: whoever asked sees it by the request, which is gone."""
        self._commons.jobs.over(job)
        for path in job.paths:
            self._commons.answers.answer(path)
        job.let_go()


def _environment(job: Job) -> tuple[str, Mapping[str, str], bool]:
    """What a job's interpreter is started as."""
    return job.request.interpreter, job.request.settings, job.request.cc != ""
