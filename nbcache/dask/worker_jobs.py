"""What of a farm runs in a Dask worker: it has jobs carried out by processes of their own, and keeps nothing.

A job changes the process that it runs in, and may crash it. So a Dask worker's own process runs none: it has a pool as
a daemon has one (:class:`nbcache.daemon.pool.ForkingPool`), with the same limits, confinement and checks. What a job
hands in goes into a store of this worker's, for the jobs after it, and home with the result, where the daemon publishes
it.

One user's jobs share a store, and no two users' do: what one user's job hands in is never an answer to another's.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import json
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import distributed

import nbcache
from nbcache.config import Settings
from nbcache.daemon import cluster, interpreters
from nbcache.daemon.pool import Confining, CrashError, ForkingPool, InterpreterError, JobError, Limits, Pools
from nbcache.daemon.publisher import Publisher, Ticket
from nbcache.dask import result_grammar
from nbcache.dask.result_grammar import Outcome
from nbcache.errors import NbcacheError
from nbcache.file_trust import Trust
from nbcache.setting_syntax import read
from nbcache.store import entry, tree
from nbcache.store.directory import Store

TELL_SECONDS: Final = 0.25
"""How often a job's progress is told [s]."""
MAX_STORES: Final = 4
"""How many users' stores a worker keeps, the ones that were used last."""


def fitness() -> list[tuple[str, str]]:
    """Return what this worker has to have in common with the daemon's host, with labels."""
    from nbcache.glue.keys import conditions

    return [("nbcache", nbcache.__version__), *conditions.host_components()]


def describe() -> bytes:
    """Return :func:`fitness` as what goes home (:mod:`nbcache.dask.result_grammar`)."""
    return result_grammar.described(fitness())


def carry_out(order: bytes, topic: str, task: str) -> bytes:
    """Carry out an order of :meth:`nbcache.daemon.cluster.Farm.carry`; return what came of it, as `results` has it.

    Meanwhile, tell under *topic*, as events of Dask's, how much processor time was spent on it::

        {"task": task, "worked": seconds}
    """
    asked = json.loads(order)
    worker = distributed.get_worker()

    def tell(worked: float) -> None:
        worker.log_event(topic, {"task": task, "worked": worked})

    found = _stores.of(asked["session"], asked["asked"], asked["uids"]).carry_out(asked, tell)
    try:
        return result_grammar.encoded(found)
    except (ValueError, TypeError) as error:
        return result_grammar.encoded(Outcome({"error": f"what the job returned can't be told: {error}"}))


@dataclass(slots=True)
class _Gathered(Ticket):
    """A ticket that remembers what was handed in on it."""

    entries: list[bytes] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    usage: list[bytes] = field(default_factory=list)

    def took(self, key: str, data: bytes) -> None:
        """See Ticket."""
        self.entries.append(data)
        self.keys.add(key)


class _Gathering(Publisher):
    """Publishes into this worker's store, and lays aside what is to go home."""

    def usage(self, ticket: Ticket, content: bytes) -> None:
        """See Publisher."""
        if isinstance(ticket, _Gathered):
            ticket.usage.append(content)


class _UserStore:
    """The store of one user's jobs, with the interpreters that run them."""

    def __init__(self, uids: list[int]) -> None:
        worker = distributed.get_worker()
        # Dask removes what a worker leaves there, also one that was killed.
        self._root = tempfile.mkdtemp(prefix="nbcache-farm-", dir=worker.local_directory)
        tree.make_tree(self._root, tag_root=True)
        self._store = Store(self._root, Trust(frozenset(uids)), writable=True)
        self._publisher = _Gathering(lambda: self._store)
        self._threads = int(worker.state.nthreads)
        self._pools: dict[tuple[Any, ...], Pools] = {}
        self._lock = threading.Lock()

    def carry_out(self, asked: Mapping[str, Any], tell: Callable[[float], None]) -> Outcome:
        ticket = _Gathered(asked["key"], asked=asked["asked"], what=asked["what"])
        try:
            said = self._said(asked, ticket, tell)
        except (NbcacheError, OSError, RuntimeError) as error:
            said = {"crash": str(error), "to blame": "environment"}
        if asked["key"] and asked["key"] not in ticket.keys:
            ticket.entries += self._built_before(asked["key"])
        return Outcome(said, os.uname().nodename[: cluster.MAX_HOST], ticket.entries, ticket.usage)

    def _said(self, asked: Mapping[str, Any], ticket: _Gathered, tell: Callable[[float], None]) -> dict[str, Any]:
        # One that only the client has needn't be here: by the key that comes out, it shows whether this one does.
        interpreter, settings, kernels = asked["where"]
        interpreter = interpreter if os.path.exists(interpreter) else sys.executable
        with self._lock:
            limits = Limits(asked["seconds"], asked["bytes"])
            pool = self._pools_for(asked, limits).get(interpreter, settings, kernels)
            done = pool.order(asked["call"], asked["args"], ticket=ticket)
        while not concurrent.futures.wait([done], TELL_SECONDS).done:
            worked = pool.worked(done)
            if worked is not None:
                tell(worked)
        try:
            return {"result": done.result()}
        except InterpreterError as error:
            return {"crash": str(error), "to blame": "environment"}
        except CrashError as error:
            return {"crash": str(error)}
        except JobError as error:
            return {"error": str(error)}

    def _pools_for(self, asked: Mapping[str, Any], limits: Limits) -> Pools:
        store = self._store
        settings = Settings(trusted_keys=read("trusted_keys", asked["keys"]), log=asked["log"])

        def make(interpreter: str, numba_settings: Mapping[str, str], kernels: bool) -> ForkingPool:
            problem = interpreters.problem(interpreter, store.trust)
            if problem is not None:
                raise NbcacheError(f"the interpreter {interpreter} on {os.uname().nodename} {problem}")
            # As whoever this worker runs: any task of the cluster may do as much.
            environment = interpreters.environment(store.trust, settings, numba_settings, kernels=kernels)
            return ForkingPool(
                interpreter, store.path, environment,
                self._threads, limits, trust=store.trust, publisher=self._publisher, confining=Confining(),
            )  # fmt: skip

        key = (limits, settings.trusted_keys, settings.log)
        if key not in self._pools:
            self._pools[key] = Pools(make)
        return self._pools[key]

    def _built_before(self, key: str) -> list[bytes]:
        """What an earlier job built on its way; it went home with that one, and may have been refused there."""
        found = []
        for each in self._store.find(key):
            sections = {name: each.section(name) or b"" for name in each.section_sizes}
            found.append(entry.encode(each.header, sections))
        return found

    def close(self) -> None:
        with self._lock:
            for pools in self._pools.values():
                pools.kill()
        shutil.rmtree(self._root, ignore_errors=True)


class _Stores:
    """The stores of this process, by the daemon's session and the user who asks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stores: dict[tuple[str, int], _UserStore] = {}
        atexit.register(self._close)

    def of(self, session: str, user: int, uids: list[int]) -> _UserStore:
        with self._lock:
            store = self._stores.pop((session, user), None) or _UserStore(uids)
            self._stores[session, user] = store
            while len(self._stores) > MAX_STORES:
                self._stores.pop(next(iter(self._stores))).close()
            return store

    def _close(self) -> None:
        for store in self._stores.values():
            store.close()


_stores = _Stores()
