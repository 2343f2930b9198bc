"""The process between a daemon and a Dask cluster: see :mod:`nbcache.daemon.farm`, which starts it.

It carries orders there, as tasks for those workers that fit, and brings home what came of them. Nothing depends on it:
when it ends, the cluster drops its tasks and the daemon has its jobs again.

A worker fits if its host and its toolchain are the daemon's: what is built there is found under the same keys, and its
processor can do exactly what this one can. Whoever comes to the cluster is asked once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import uuid
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, Final

import distributed

from nbcache.daemon import channel, syscalls
from nbcache.daemon.channel import BadMessageError, Channel
from nbcache.daemon.worker import Link
from nbcache.daemon.zygote import MAX_ORDER, PROTOCOL_VERSION
from nbcache.dask import node

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
_MAX_SHOWN: Final = 80


class Lost(Exception):  # noqa: N818  it is none: the daemon has the job again
    """No worker is left for a job."""


class Bridge:
    """One connection to a scheduler, and the jobs that it carries."""

    def __init__(self, orders: Channel, client: distributed.Client) -> None:
        """Take *orders*, which doesn't block, for a connected *client*."""
        self._orders = orders
        self._client = client
        self._topic = f"nbcache-farm-{uuid.uuid4().hex}"
        self._own: dict[str, str] = {}
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
        self._own = dict(await asyncio.to_thread(node.fitness))
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
        self._there = {address: int(each["nthreads"]) for address, each in found["workers"].items()}
        for address in self._there.keys() - self._asked:
            self._asked.add(address)
            self._in_background(self._judge(address))
        self._asked &= self._there.keys()
        self._fit = {address: threads for address, threads in self._fit.items() if address in self._there}
        self._tell()

    async def _judge(self, address: str) -> None:
        """Ask a worker what it is, as a task, so that no loop of its waits for Numba."""
        task = self._client.submit(
            node.fitness, key=f"nbcache-fitness-{uuid.uuid4().hex}", workers=[address], pure=False, priority=100
        )
        try:
            theirs = dict(await asyncio.wait_for(task.result(), FITNESS_SECONDS))
        except asyncio.TimeoutError:
            self._asked.discard(address)
            return
        except Exception as error:  # noqa: BLE001  whatever it has instead of our nbcache
            if address in self._there:
                self._refuse(address, f"it has no nbcache like this one: {type(error).__name__}: {error}")
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
        slots = sum(self._fit.values())
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
            found = await self._outcome(order, link)
            await asyncio.to_thread(_deliver, link, found)
        except OSError:
            return  # the daemon is done with it
        finally:
            link.close()

    async def _outcome(self, order: bytes, link: Link) -> dict[str, Any]:
        while True:
            try:
                return await self._attempt(order, link)
            except Lost:
                now = asyncio.get_running_loop().time()
                if now - self._last > AWAY_SECONDS:
                    return {"said": {"crash": "no worker of the farm is left that fits", "to blame": "farm"}}
                await asyncio.sleep(LOOK_SECONDS / 4)
            except distributed.KilledWorker as error:
                return {"said": {"crash": f"the workers that ran it died: {error}"}}
            except Exception as error:  # noqa: BLE001  the cluster may raise what it likes
                return {"said": {"crash": f"the farm failed: {type(error).__name__}: {error}"[:1000]}}

    async def _attempt(self, order: bytes, link: Link) -> dict[str, Any]:
        """Have some worker carry it out. Raises Lost when none is there that may; what Dask raises."""
        places = set(self._fit)
        if not places:
            raise Lost
        name = f"nbcache-build-{uuid.uuid4().hex}"
        task = self._client.submit(
            node.carry_out, order, self._topic, name, key=name, workers=sorted(places), pure=False
        )
        self._links[name] = link
        try:
            waiting = asyncio.ensure_future(task.result())
            try:
                while not (await asyncio.wait({waiting}, timeout=LOOK_SECONDS))[0]:
                    if not places & self._fit.keys():
                        raise Lost
                return dict(waiting.result())
            except CancelledError as error:
                # By the scheduler, which lost what it knew.
                raise Lost from error
            finally:
                waiting.cancel()
        finally:
            del self._links[name]
            await _dropped(task)

    def _worked(self, event: tuple[Any, Any]) -> None:
        """A job had so much processor time: whoever waits for it wants to know that it gets on."""
        told = event[1]
        link = self._links.get(str(told.get("task")))
        if link is not None:
            with suppress(OSError):
                link.say({"worked": float(told["worked"])})

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


def _deliver(link: Link, found: dict[str, Any]) -> None:
    """Hand the daemon what a job made, and what it said, in a thread that may wait. Raises OSError."""
    if "host" in found:
        link.say({"host": str(found["host"])})
    for data in found.get("entries", ()):
        fd = channel.sealed(data)
        try:
            link.ask({"entry": True}, fd)
        finally:
            os.close(fd)
    for data in found.get("usage", ()):
        fd = channel.sealed(data)
        try:
            link.say({"usage": True}, fd)
        finally:
            os.close(fd)
    link.say(found["said"])
    link.say({"done": True})


async def _client(address: str) -> distributed.Client:
    """Connect. Raises what Dask raises."""
    for attempt in range(CONNECT_ATTEMPTS):
        try:
            return await distributed.Client(
                address, asynchronous=True, timeout=CONNECT_SECONDS, set_as_default=False, name="nbcache-farm"
            )
        except AssertionError:
            # Of a busy scheduler's first messages, which Dask takes for one.
            if attempt == CONNECT_ATTEMPTS - 1:
                raise
    raise AssertionError


async def _connected(orders: Channel, address: str) -> None:
    try:
        client = await _client(address)
    except Exception as error:  # noqa: BLE001  whatever it is, the daemon says it
        orders.send({"problem": f"no scheduler answers there: {str(error) or type(error).__name__}"[:300]})
        return
    try:
        await Bridge(orders, client).serve()
    except Exception as error:  # noqa: BLE001
        orders.send({"problem": f"the scheduler is gone: {str(error) or type(error).__name__}"[:300]})
    finally:
        # Whatever is left ends with this process, whether or not somebody is there to hear of it.
        with suppress(Exception):
            await asyncio.wait_for(client.close(), 1.0)


def main() -> None:
    """Carry orders until the daemon is gone, or the scheduler."""
    orders, address = sys.argv[1:]
    with suppress(OSError):
        syscalls.prctl(syscalls.PARENT_DEATH_SIGNAL, signal.SIGKILL)
    # The one who ends it is the daemon, by closing the channel; a terminal's signals reach the whole group.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # What becomes of the connection is told in the daemon's words, once.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    ours = Channel.of(int(orders))
    os.set_blocking(ours.fileno(), False)
    ours.send({"ready": PROTOCOL_VERSION})
    asyncio.run(_connected(ours, address))
    # Threads of Dask's may wait for a cluster that is gone.
    os._exit(0)
