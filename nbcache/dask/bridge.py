"""The process between a daemon and a Dask cluster: see :mod:`nbcache.daemon.cluster`, which starts it.

It carries orders there, as tasks for those workers that fit, and brings home what came of them. Nothing depends on it:
when it ends, the cluster drops its tasks and the daemon has its jobs again.

Anybody who reaches the scheduler can be one of its workers, so nothing of what comes from there is believed: results
are bytes that are read by a grammar (:mod:`nbcache.dask.result_grammar`), no pickle is opened
(:mod:`nbcache.dask.result_grammar`), numbers and names are checked here and by the daemon once more. Should code of
theirs run here all the same, it finds a process that opens no file but those of Python and /etc, writes none, starts
nothing, and signals nobody (:func:`confine`).

A worker fits if its host and its toolchain are the daemon's: what is built there is found under the same keys, and its
processor can do exactly what this one can. Whoever comes to the cluster is asked once.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import os
import signal
import sys
import sysconfig
import uuid
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, Final

import distributed
from distributed.security import Security

from nbcache.daemon import channel, cluster, confinement, linux_calls
from nbcache.daemon.channel import BadMessageError, Channel
from nbcache.daemon.job_side import Link
from nbcache.daemon.zygote import MAX_ORDER, PROTOCOL_VERSION, limit
from nbcache.dask import result_grammar, worker_jobs
from nbcache.dask.result_grammar import BadResultError, Outcome

CONNECT_SECONDS: Final = 10.0
"""How long a scheduler may take to answer [s]."""
CONNECT_ATTEMPTS: Final = 3
"""How often connecting is tried where it isn't refused."""
LOOK_SECONDS: Final = 1.0
"""How often the scheduler is asked which workers there are [s]."""
AWAY_SECONDS: Final = 10.0
"""How long there may be no worker that fits before the daemon gets its jobs back [s]: a nanny starts another one."""
FITNESS_SECONDS: Final = 300.0
"""How long a worker may take to say what it is: it may be busy, and has to import Numba [s]."""
MAX_THREADS: Final = 4096
"""How many threads one worker may say that it has."""
MAX_WORKERS: Final = 10_000
"""How many workers are looked at."""
MEMORY: Final = 4 << 30
"""How much more memory this process may have than it starts with [bytes]: what comes is of any size."""
_READABLE: Final = ("/etc", "/usr", "/lib", "/lib64", "/proc", "/dev")
_KILLED: Final = "KilledWorker"
_MAX_SHOWN: Final = 80


class Lost(Exception):  # noqa: N818  it is none: the daemon has the job again
    """No worker is left for a job."""


class Bridge:
    """One connection to a scheduler, and the jobs that it carries."""

    def __init__(self, orders: Channel, client: distributed.Client, own: dict[str, str]) -> None:
        """Take *orders*, which doesn't block, for a connected *client*; *own* is what workers have to be like."""
        self._orders = orders
        self._client = client
        self._topic = f"nbcache-farm-{uuid.uuid4().hex}"
        self._own = own
        self._asked: set[str] = set()
        """The workers that were asked what they are."""
        self._fit: dict[str, int] = {}
        """Those that fit, with how many threads they have."""
        self._there: dict[str, int] = {}
        self._told = 0
        self._last = 0.0
        """When there was one that fits."""
        self._jobs: dict[int, asyncio.Task[None]] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._over = asyncio.Event()
        self._links: dict[str, Link] = {}
        """Those of jobs that are under way, by the names of their tasks."""

    async def serve(self) -> None:
        """Run until the daemon is gone. Raises OSError when the scheduler is."""
        loop = asyncio.get_running_loop()
        self._last = loop.time()
        self._client.subscribe_topic(self._topic, self._worked)
        loop.add_reader(self._orders.fileno(), self._take)
        while not self._over.is_set():
            await self._look()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._over.wait(), LOOK_SECONDS)

    # -- the cluster -----------------------------------------------------------------------------

    async def _look(self) -> None:
        """See which workers there are."""
        found = await asyncio.wait_for(self._client.scheduler.identity(), CONNECT_SECONDS)
        self._there = _workers(found)
        for address in self._there.keys() - self._asked:
            self._asked.add(address)
            self._in_background(self._judge(address))
        self._asked &= self._there.keys()
        self._fit = {address: threads for address, threads in self._fit.items() if address in self._there}
        self._tell()

    async def _judge(self, address: str) -> None:
        """Ask a worker what it is, as a task, so that no loop of its waits for Numba."""
        task = self._client.submit(
            worker_jobs.describe, key=f"nbcache-fitness-{uuid.uuid4().hex}", workers=[address], pure=False, priority=100
        )
        try:
            theirs = result_grammar.description(await asyncio.wait_for(task.result(), FITNESS_SECONDS))
        except asyncio.TimeoutError:
            self._asked.discard(address)
            return
        except Exception as error:  # noqa: BLE001  whatever it has instead of our nbcache
            if address in self._there:
                self._refuse(address, f"it has no nbcache like this one: {result_grammar.words(error)}")
            return
        problem = difference(self._own, theirs)
        if problem is not None:
            self._refuse(address, problem)
        elif address in self._there:
            self._fit[address] = self._there[address]
            self._tell()

    def _refuse(self, address: str, why: str) -> None:
        self._orders.send({"refused": f"{address}: {why}"[:1000]})

    def _tell(self) -> None:
        now = asyncio.get_running_loop().time()
        slots = min(sum(self._fit.values()), cluster.MAX_SLOTS)
        if slots:
            self._last = now
        if slots != self._told and (slots or now - self._last > AWAY_SECONDS):
            self._told = slots
            self._orders.send({"slots": slots})

    # -- jobs ------------------------------------------------------------------------------------

    def _take(self) -> None:
        """Take an order."""
        try:
            received = self._orders.receive()
        except BlockingIOError:
            return
        except (BadMessageError, OSError):
            received = None
        if received is None:
            self._over.set()
            return
        order, fds = received
        if "kill" in order:
            task = self._jobs.get(int(order["kill"]))
            if task is not None:
                task.cancel()
            channel.close_all(fds)
            return
        number = int(order["job"])
        end, content, errors = fds
        os.close(errors)
        task = asyncio.ensure_future(self._carry(end, channel.unsealed([content], MAX_ORDER)))
        self._jobs[number] = task
        task.add_done_callback(lambda _task: self._jobs.pop(number, None))

    async def _carry(self, end: int, order: bytes) -> None:
        """See a job through, from its order to what it said last."""
        link = Link(Channel.of(end))
        try:
            link.say({"started": True})
            await asyncio.to_thread(_deliver, link, await self._outcome(order, link))
        except OSError:
            return  # the daemon is done with it
        finally:
            link.close()

    async def _outcome(self, order: bytes, link: Link) -> Outcome:
        while True:
            try:
                return await self._attempt(order, link)
            except Lost:
                now = asyncio.get_running_loop().time()
                if now - self._last > AWAY_SECONDS:
                    return Outcome({"crash": "no worker of the farm is left that fits", "to blame": "farm"})
                await asyncio.sleep(LOOK_SECONDS / 4)
            except BadResultError as error:
                return Outcome({"crash": f"a worker of the farm sent something else than a result: {error}"})
            except Exception as error:  # noqa: BLE001  the cluster may raise what it likes
                words = result_grammar.words(error)
                died = _KILLED in words
                return Outcome(
                    {"crash": f"{'the workers that ran it died' if died else 'the farm failed'}: {words}"[:1000]}
                )

    async def _attempt(self, order: bytes, link: Link) -> Outcome:
        """Have some worker carry it out. Raises Lost when none is there that may; BadResultError; what Dask raises."""
        places = set(self._fit)
        if not places:
            raise Lost
        name = f"nbcache-build-{uuid.uuid4().hex}"
        task = self._client.submit(
            worker_jobs.carry_out, order, self._topic, name, key=name, workers=sorted(places), pure=False
        )
        self._links[name] = link
        try:
            waiting = asyncio.ensure_future(task.result())
            try:
                while not (await asyncio.wait({waiting}, timeout=LOOK_SECONDS))[0]:
                    if not places & self._fit.keys():
                        raise Lost
                return result_grammar.outcome(waiting.result())
            except CancelledError as error:
                # By the scheduler, which lost what it knew.
                raise Lost from error
            finally:
                waiting.cancel()
        finally:
            del self._links[name]
            await _dropped(task)

    def _worked(self, event: object) -> None:
        """A job had so much processor time: whoever waits for it wants to know that it gets on."""
        told = event[1] if isinstance(event, tuple) and len(event) == 2 else None
        if not isinstance(told, dict):
            return
        link, worked = self._links.get(str(told.get("task"))), told.get("worked")
        if link is not None and isinstance(worked, float) and math.isfinite(worked):
            with suppress(OSError):
                link.say({"worked": worked})

    def _in_background(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


async def _dropped(task: distributed.Future) -> None:
    with suppress(Exception):
        await task.cancel()


def difference(own: dict[str, str], theirs: dict[str, str]) -> str | None:
    """Say what a worker has otherwise than the daemon's host; None if nothing."""
    for label in [*own, *(theirs.keys() - own.keys())]:
        ours, its = own.get(label, "none"), theirs.get(label, "none")
        if label == "host/features":
            mine, other = (set(filter(None, text.split(","))) for text in (ours, its))
            if mine != other:
                more, less = ", ".join(sorted(other - mine)), ", ".join(sorted(mine - other))
                told = "; ".join(filter(None, [more and f"it has {more}", less and f"it lacks {less}"]))
                return f"its processor differs: {told[: 4 * _MAX_SHOWN]}"
        elif ours != its:
            name = label.rpartition("/")[2]
            return f"its {name} is {its[:_MAX_SHOWN]}, and the daemon's host has {ours[:_MAX_SHOWN]}"
    return None


def _workers(found: Any) -> dict[str, int]:
    """Return the workers that a scheduler tells of, with their threads. Raises what is raised by what it says else."""
    there: dict[str, int] = {}
    for address, each in list(found["workers"].items())[:MAX_WORKERS]:
        threads = each["nthreads"]
        # One that says something else runs nothing, and is asked nothing.
        if type(threads) is int and 0 < threads <= MAX_THREADS:
            there[str(address)] = threads
    return there


def _deliver(link: Link, found: Outcome) -> None:
    """Hand the daemon what a job made, and what it said, in a thread that may wait. Raises OSError."""
    if found.host:
        link.say({"host": found.host})
    for data in found.entries:
        with channel.sealed(data) as fd:
            link.ask({"entry": True}, fd)
    for data in found.usage:
        with channel.sealed(data) as fd:
            link.say({"usage": True}, fd)
    link.say(found.said)
    link.say({"done": True})


class _Prepared(Security):  # type: ignore[misc]  # of Dask's
    """Dask's settings for TLS, with the certificates read: later this process can't."""

    def __init__(self) -> None:
        """Read what Dask's configuration names. Raises what Dask raises."""
        super().__init__()
        self._arguments = super().get_connection_args("client")

    def get_connection_args(self, role: str) -> dict[str, Any]:  # noqa: ARG002  Dask's signature
        """See Security."""
        return dict(self._arguments)


def become(uid: int) -> str:
    """Have this process, which is root, go on as another user; return why it can't, "" if it could."""
    needed = os.__file__, distributed.__file__, __file__
    os.seteuid(uid)
    kept = [path for path in needed if not os.access(path, os.R_OK, effective_ids=True)]
    os.seteuid(0)
    if kept:
        return f"uid {uid} can't read {kept[0]}, so it runs as root, without root's capabilities"
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    return ""


def confine() -> None:
    """Take from this process whatever it doesn't need any more. Raises OSError if the kernel can't."""
    threads = os.listdir("/proc/self/task")
    limit(MEMORY)
    paths = {*_READABLE, *sys.path, *sysconfig.get_paths().values(), sys.prefix, sys.base_prefix}
    confinement.settle_speaker(sorted(path for path in paths if path and os.path.exists(path)))
    if len(threads) > 1:
        # All that is about the thread that asks for it, and those that it starts.
        raise OSError(errno.EBUSY, "it had more than one thread")


async def _client(address: str, security: Security) -> distributed.Client:
    """Connect. Raises what Dask raises."""
    for attempt in range(CONNECT_ATTEMPTS):
        try:
            return await distributed.Client(
                address, security=security, asynchronous=True, timeout=CONNECT_SECONDS, set_as_default=False,
                name="nbcache-farm",
            )  # fmt: skip
        except AssertionError:
            # Of a busy scheduler's first messages, which Dask takes for one.
            if attempt == CONNECT_ATTEMPTS - 1:
                raise
    raise AssertionError


async def _connected(orders: Channel, address: str, own: dict[str, str], security: Security) -> None:
    try:
        client = await _client(address, security)
    except Exception as error:  # noqa: BLE001  whatever it is, the daemon says it
        orders.send({"problem": f"no scheduler answers there: {str(error) or type(error).__name__}"[:300]})
        return
    try:
        await Bridge(orders, client, own).serve()
    except Exception as error:  # noqa: BLE001
        orders.send({"problem": f"the scheduler is gone: {str(error) or type(error).__name__}"[:300]})
    finally:
        # Whatever is left ends with this process, whether or not somebody is there to hear of it.
        with suppress(Exception):
            await asyncio.wait_for(client.close(), 1.0)


def main() -> None:
    """Carry orders until the daemon is gone, or the scheduler."""
    orders, address, uid = sys.argv[1:]
    # The one who ends it is the daemon, by closing the channel; a terminal's signals reach the whole group.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # What becomes of the connection is told in the daemon's words, once.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    ours = Channel.of(int(orders))
    os.set_blocking(ours.fileno(), False)
    ours.send({"ready": PROTOCOL_VERSION})
    own = dict(worker_jobs.fitness())
    try:
        security = _Prepared()
    except Exception as error:  # noqa: BLE001  no such file, no certificate, not what Dask wants
        ours.send({"problem": f"Dask's settings for TLS are of no use: {str(error) or type(error).__name__}"[:300]})
        return
    result_grammar.seal()
    problem = become(int(uid)) if uid else ""
    try:
        confine()
    except OSError as error:
        problem = f"{problem}; {error.strerror or error}".removeprefix("; ")
    if problem:
        ours.send({"unconfined": problem})
    with suppress(OSError):
        # Now: becoming another user undoes it.
        linux_calls.prctl(linux_calls.PARENT_DEATH_SIGNAL, signal.SIGKILL)
    asyncio.run(_connected(ours, address, own, security))
    # Threads of Dask's may wait for a cluster that is gone.
    os._exit(0)
