"""A farm: the hosts of a cluster as one more executor of a daemon's.

The daemon speaks to the cluster through one process, the *bridge* (:mod:`nbcache.dask.bridge`), because anybody may be
at a cluster's other end. The bridge opens no pickle, is confined, and is believed no more than a job: what it says is
checked here, and the entries that it hands in like everybody's (:mod:`nbcache.daemon.publisher`). It is to the daemon
what an interpreter is: it takes orders over a channel, and answers each over the job's own. It has words of its own::

    about itself    {"slots": how many jobs the cluster can run at once}    {"refused": "which worker, and why"}
                    {"problem": why it is about to end}    {"unconfined": why the kernel doesn't confine it}
    about a job     {"worked": how much processor time was spent on it so far [s]}    {"host": where it ran}
                    {"crash": text, "to blame": "farm" | "environment"}

A farm is never in the way: while there is no bridge, no scheduler or no worker that fits, `slots` is 0 and `problem`
says why. Another bridge is started after :data:`FIRST_PAUSE`, then less and less often.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final

from nbcache import config, environ
from nbcache.config import Settings
from nbcache.daemon import channel
from nbcache.daemon.job_run import NEVER, CrashError, FarmError, InterpreterError, Running
from nbcache.daemon.job_services import Services
from nbcache.daemon.pool import MODULES, Confining, ForkingPool, Limits, name_of
from nbcache.daemon.publisher import Publisher, Ticket
from nbcache.daemon.supervisor import Interpreter
from nbcache.grammar import Malformed, number, text, up_to
from nbcache.one_line import log, one_line
from nbcache.secret import revealed
from nbcache.store.directory import Store

FIRST_PAUSE: Final = 2.0
"""How soon another bridge is started after one ended [s]; twice as long after each that came to nothing."""
LONGEST_PAUSE: Final = 60.0
"""How long that becomes [s]."""
SLACK_SECONDS: Final = 120.0
"""How much longer than a job may take it is waited for [s]: its host counts the job's own time, and may begin late."""
MAX_REFUSED: Final = 1000
"""How many lines one bridge may have logged about workers that don't fit."""
MAX_SLOTS: Final = 10_000
"""How many jobs a cluster may run at once."""
MAX_HOST: Final = 100
"""The longest name of a host [characters]."""
ENVIRONMENT: Final = {
    "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1",
    # Threads that a library starts when it is loaded would be left out when the bridge confines itself.
    "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
}  # fmt: skip
_BEGIN: Final = f"import sys; sys.path.append({MODULES!r}); from nbcache.dask.bridge import main; main()"


class Bridge(Interpreter):
    """The process between this one and a cluster, with the jobs that it carries."""

    who = "the bridge to the farm"
    lost = FarmError
    crashes: Mapping[str, type[CrashError]] = {"farm": FarmError, "environment": InterpreterError}

    def __init__(
        self,
        start: Callable[[int, int, int], subprocess.Popen[bytes]],
        services: Services,
        changed: Callable[[], None],
        unconfined: Callable[[str], None],
    ) -> None:
        """Start it; *changed* is called when `slots` is another number, *unconfined* with why it isn't confined."""
        self.slots = 0
        self._changed = changed
        self._refused = 0
        self._unconfined = unconfined
        self._worked: dict[int, float] = {}
        super().__init__(start, services)

    def worked(self, number: int) -> float | None:
        """See Interpreter: what its host told last."""
        return self._worked.get(number)

    def _hear_else(self, said: dict[str, Any]) -> None:
        if "slots" in said:
            self.slots = up_to(MAX_SLOTS)(said["slots"])
            self._changed()
        elif "refused" in said and self._refused < MAX_REFUSED:
            self._refused += 1
            log.warning("the farm does without %s", one_line(str(said["refused"])[:1000]))
        elif "problem" in said:
            self.problem = one_line(str(said["problem"])[:300])
        elif "unconfined" in said:
            self._unconfined(one_line(str(said["unconfined"])[:300]))

    def _understand(self, job: Running, said: dict[str, Any], fds: list[int]) -> None:
        if "host" in said:
            channel.close_all(fds)
            job.call.ticket.host = host_name(said["host"])
        elif "worked" in said:
            channel.close_all(fds)
            self._worked[job.call.number] = _seconds(said["worked"])
        else:
            super()._understand(job, said, fds)

    def _forget(self, job: Running) -> None:
        self._worked.pop(job.call.number, None)
        super()._forget(job)

    def _identify(self, job: Running, pid: int) -> None:  # noqa: ARG002
        """Its process is on another host, and the bridge is asked to have it ended."""
        job.begun = True
        if job.call.future.done():
            self._end(job)


def _seconds(told: Any) -> float:
    if number(told) < 0:
        raise Malformed("a time", told)
    return float(told)


def host_name(told: Any) -> str:
    """Read what may be the name of a host."""
    if not 0 < len(text(told)) <= MAX_HOST or not told.isprintable():
        raise Malformed("the name of a host", told)
    return str(told)


class Farm(ForkingPool):
    """Carries jobs to the cluster whose scheduler is at *address*; see the module.

    The future raises FarmError for a job that the cluster was given and can't run any more.
    """

    _lost = FarmError

    def __init__(
        self,
        address: str,
        store: Callable[[], Store],
        settings: Callable[[], Settings],
        limits: Limits,
        publisher: Publisher,
        *,
        confining: Confining | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """Start nothing yet. *changed* is called, in another thread, when `slots` or `problem` did."""
        patient = Limits(2 * limits.seconds + SLACK_SECONDS, limits.bytes)
        super().__init__(
            sys.executable, store().path, {}, 0, patient, trust=store().trust, publisher=publisher, confining=confining
        )
        self.address = address
        self.slots = 0
        """How many jobs the cluster can run at once."""
        self.problem: str | None = None
        """Why it runs none; None if it does, or was not reached yet."""
        self.is_refused = False
        """Whether a connection was tried, in vain."""
        self._store = store
        self._settings = settings
        self._own_limits = limits
        self._changed = changed
        self._session = secrets.token_hex(8)
        self._is_told = False
        self._again = 0.0
        self._pause = FIRST_PAUSE

    def start(self) -> None:
        """Connect, in another thread, and stay connected until `shutdown`."""
        with self._lock:
            self._begin()

    def carry(
        self, where: tuple[str, Mapping[str, str], bool], fn: Callable[..., Any], /, *args: Any, ticket: Ticket
    ) -> Future[Any]:
        """Have a function run on the cluster; see :class:`ForkingPool`.

        *where*: in which interpreter, or in their own where hosts lack it; under which settings of Numba; for kernels
        or not.
        """
        store, ours = self._store(), self._settings()
        order = {
            "call": name_of(fn), "args": args, "bytes": self._own_limits.bytes, "seconds": self._own_limits.seconds,
            "where": where, "uids": sorted(store.trust.uids), "keys": revealed(ours.trusted_keys), "log": ours.log,
            "session": self._session, "key": ticket.key, "asked": ticket.asked, "what": ticket.what,
        }  # fmt: skip
        return self._queue(order, ticket)

    @property
    def _built(self) -> int:
        return -1

    # -- in the thread ---------------------------------------------------------------------------

    def _bridge(self) -> Bridge | None:
        found = (each for each in self._interpreters if isinstance(each, Bridge) and not each.dead)
        return next(found, None)

    def _tidy(self) -> None:
        ended = [f"{each.problem or each.dead}" for each in self._interpreters if each.dead]
        super()._tidy()
        now = time.monotonic()
        if ended:
            self.is_refused = True
            self._again = now + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
            self._now(0, ended[-1])
        if self._bridge() is None and now >= self._again and not self._closed:
            self._again = now + self._pause
            try:
                self._start()
            except OSError as error:
                self._now(0, f"its bridge can't be started: {error.strerror or error}")

    def _next_event(self) -> float:
        return min(super()._next_event(), self._again if self._bridge() is None else NEVER)

    def _current(self) -> Interpreter | None:
        self._problem = self.problem or ""
        return self._bridge()

    def _start(self) -> Interpreter:
        plain = {name: value for name, value in environ.for_children().items() if not name.startswith(config.PREFIX)}
        uid = "" if self._uid is None else str(self._uid)
        if uid:
            # Dask has a directory of settings in everybody's home.
            plain["HOME"] = self._scratch.path  # type: ignore[union-attr]

        def start(orders: int, _asking: int, errors: int) -> subprocess.Popen[bytes]:
            return subprocess.Popen(  # noqa: S603  this interpreter
                [self.interpreter, "-c", _BEGIN, str(orders), self.address, uid],
                env={**plain, **ENVIRONMENT}, cwd="/",
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, pass_fds=[orders],
            )  # fmt: skip

        services = Services(self._trust, self._publisher, -1, lambda _each: None)
        bridge = Bridge(start, services, self._counted, self._say_unconfined)
        self._interpreters.append(bridge)
        return bridge

    def _say_unconfined(self, why: str) -> None:
        # Each further bridge says it as well, and a cluster that is away has many.
        if not self._is_told:
            self._is_told = True
            log.warning("the bridge to the farm can't be confined as it should be: %s", why)

    def _counted(self) -> None:
        bridge = self._bridge()
        slots = 0 if bridge is None else bridge.slots
        if slots:
            self._pause = FIRST_PAUSE
        self._now(slots, None if slots else "no worker there fits")

    def _now(self, slots: int, problem: str | None) -> None:
        before = self.slots, self.problem
        # How many jobs it is given at once as well.
        self.slots = self._workers = slots
        self.problem = problem
        if before[0] and not slots:
            self._fail(str(problem))
        elif slots and before[0] != slots:
            log.info("the farm %s can run %d jobs at once", self.address, slots)
        if before != (slots, problem):
            self._changed()


def scheduler_problem(address: str) -> str | None:
    """Say why this is no address of a scheduler's; None if it may be one."""
    scheme, _, rest = address.partition("://")
    if scheme not in {"tcp", "tls", "ws", "wss", "ucx"} or not rest.partition(":")[0]:
        return "an address such as tls://HOST:8786 or tcp://HOST:8786 is wanted"
    return None


def exposure(address: str) -> str | None:
    """Say what an operator should know about an address; None where only those with a certificate are heard."""
    if address.startswith(("tls://", "wss://")):
        return None
    return f"the farm {address} is reached without TLS: whoever reaches it can have code run by all who use this store"


def missing() -> str | None:
    """Say what has to be installed for a farm; None if it is."""
    import importlib.util

    if importlib.util.find_spec("distributed") is None:
        return "the package distributed is missing: pip install 'nbcache[dask]'"
    return None
