"""Filling a store before anybody asks: from a warm list, from a module, from what a store holds already."""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, as_completed
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from nbcache import environ
from nbcache.config import Settings
from nbcache.daemon import failures, interpreter_boot, interpreters, job_functions
from nbcache.daemon.cluster import Farm
from nbcache.daemon.job_run import FarmError
from nbcache.daemon.pool import Confining, CrashError, ForkingPool, JobError, Limits, Pools
from nbcache.daemon.publisher import Publisher, Ticket
from nbcache.protocol import requests
from nbcache.protocol.requests import BadRequestError, Request
from nbcache.store.directory import Store

FARM_SECONDS: Final = 120.0
"""How long a cluster may take to show a worker that fits [s]: each has to import Numba first."""
_POLL_SECONDS: Final = 0.1
_NO_SUCH_INSTRUCTION: Final = "SIGILL"


@dataclass(frozen=True, slots=True)
class Wish:
    """Something that is to be built: a request, or everything in a module that has a signature of its own."""

    name: str
    request: Request | None = None
    module: str = ""
    cpu: str = ""
    """The processor that it is to be built for; "" for what Numba's settings say."""
    cc: str = ""
    """The compute capability that it is to be built for; "" for none, or for that of the request."""

    @property
    def settings(self) -> dict[str, str]:
        """Numba's settings that it is to be built under."""
        settings = environ.numba_settings() if self.request is None else dict(self.request.settings)
        return {**settings, **(environ.processor_settings(self.cpu) if self.cpu else {})}

    @property
    def is_for_gpu(self) -> bool:
        """Whether it is compiled for a GPU, all of it."""
        return self.request is not None and self.request.is_for_gpu

    @property
    def has_device(self) -> bool:
        """Whether kernels may be compiled for it."""
        return self.cc != "" or (self.request is not None and self.request.cc != "")


@dataclass(frozen=True, slots=True)
class Granted:
    """What became of a wish; ``reason`` is None if it was built, or was there."""

    wish: Wish
    reason: str | None


def from_list(lines: Iterable[bytes]) -> Iterator[Wish | str]:
    """What a warm list holds, each key once; text for a line that is no request."""
    seen: set[str] = set()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            request = requests.read(line)
        except BadRequestError as error:
            yield f"line {number}: {error}"
            continue
        if request.key not in seen:
            seen.add(request.key)
            yield _wish(request)


def from_store(store: Store) -> Iterator[Wish]:
    """What the entries of a store were asked for as, each once, to be built under this process's settings."""
    seen: set[tuple[str, str, str]] = set()
    settings = environ.numba_settings()
    for info in store.scan():
        for entry in store.find(info.key):
            request = requests.of_entry(entry)
            if request is not None and (asked := (request.function, request.call, repr(request.types))) not in seen:
                seen.add(asked)
                yield _wish(request._replace(settings=settings))


def for_processors(wishes: Iterable[Wish], cpus: Iterable[str]) -> list[Wish]:
    """Each wish once for each of these processors (:mod:`nbcache.processors`); what is for a GPU, once."""
    wishes = list(wishes)
    kernels = [wish for wish in wishes if wish.is_for_gpu]
    others = [wish for wish in wishes if not wish.is_for_gpu]
    return [
        *(dataclasses.replace(wish, name=f"{wish.name} for {cpu}", cpu=cpu) for cpu in cpus for wish in others),
        *kernels,
    ]


def for_capabilities(wishes: Iterable[Wish], ccs: Iterable[str]) -> list[Wish]:
    """What is for a GPU once for each of these compute capabilities, likewise each module; all else as it is."""
    found: list[Wish] = []
    wishes, ccs = list(wishes), list(ccs)
    with_kernels = {wish.request.module for wish in wishes if wish.request is not None and wish.is_for_gpu}
    for wish in wishes:
        if wish.request is None:
            found += [dataclasses.replace(wish, name=f"{wish.name} for {cc}", cc=cc) for cc in ccs]
        elif wish.is_for_gpu:
            found += [_wish(wish.request._replace(cc=cc)) for cc in ccs]
        elif wish.request.module in with_kernels:
            # To import it may mean to compile kernels, for any device.
            found.append(dataclasses.replace(wish, request=wish.request._replace(cc=ccs[0])))
        else:
            found.append(wish)
    # A list that was recorded on several devices has some of them more than once.
    return list({(wish.name, _identity(wish)): wish for wish in found}.values())


def _identity(wish: Wish) -> str:
    """What tells apart what is to be built; compute capabilities are in the key, which is another one then."""
    request = wish.request
    if request is None or not request.is_for_gpu:
        return "" if request is None else request.key
    return repr((request.types, request.value, request.modules, request.path, sorted(request.settings.items())))


def grant(
    store: Store,
    settings: Settings,
    wishes: Iterable[Wish],
    *,
    workers: int,
    limits: Limits,
    path: list[str],
    confined: bool = False,
) -> Iterator[Granted]:
    """Build everything, *workers* at once, in children of this interpreter; yield each as it is done.

    *path*: where modules are looked for besides where each request says. *confined*: as a daemon's jobs are, or not at
    all.
    """
    publisher = Publisher(lambda: store, most=limits.result)
    how = interpreter_boot.REQUIRED if confined else interpreter_boot.UNCONFINED

    def make(interpreter: str, numba_settings: Mapping[str, str], kernels: bool) -> ForkingPool:
        environment = interpreters.environment(store.trust, settings, numba_settings, kernels=kernels)
        # Whoever prewarms has their own modules imported, with their own rights, unless they want it otherwise.
        return ForkingPool(
            interpreter, store.path, environment, workers or os.cpu_count() or 1, limits,
            trust=store.trust, publisher=publisher, confining=Confining(how=how),
        )  # fmt: skip

    pools = Pools(make)
    try:
        yield from _granted(wishes, path, lambda wish: pools.get(*_where(wish)).submit)
    finally:
        pools.kill()


def farm(
    address: str, store: Store, settings: Settings, wishes: Iterable[Wish], *, limits: Limits, path: list[str]
) -> Iterator[Granted]:
    """Build everything on the Dask cluster whose scheduler is at *address*, as `grant` does here.

    Raises FarmError where no worker there can be used within :data:`FARM_SECONDS`.
    """
    changed = threading.Event()
    publisher = Publisher(lambda: store, most=limits.result)
    cluster = Farm(address, lambda: store, lambda: settings, limits, publisher, changed=changed.set)
    try:
        cluster.start()
        deadline = time.monotonic() + FARM_SECONDS
        while not cluster.slots:
            changed.clear()
            if cluster.is_refused or time.monotonic() > deadline:
                msg = f"the cluster {address} can't be used: {cluster.problem or 'no worker there has answered'}"
                raise FarmError(msg)
            changed.wait(_POLL_SECONDS)
        yield from _granted(wishes, path, lambda wish: partial(cluster.carry, _where(wish)))
    finally:
        cluster.shutdown()


def _granted(
    wishes: Iterable[Wish], path: list[str], submit_for: Callable[[Wish], Callable[..., Future[Any]]]
) -> Iterator[Granted]:
    pending: dict[Future[str | None], Wish] = {}
    for wish in wishes:
        submit = submit_for(wish)
        if wish.request is None:
            done = submit(job_functions.import_module, wish.module, path, wish.cc, ticket=_ticket(wish))
        else:
            request = wish.request._replace(path=(*wish.request.path, *path), settings=wish.settings)
            done = submit(job_functions.build, request.line().decode(), False, ticket=_ticket(wish))
        pending[done] = wish
    for future in as_completed(pending):
        yield Granted(pending[future], _reason(future.result, pending[future].cpu))


def _reason(result: Callable[[], Any], cpu: str) -> str | None:
    try:
        return failures.read(result())[1]
    except (CrashError, JobError) as error:
        if cpu and _NO_SUCH_INSTRUCTION in str(error):
            return f"importing it runs code for {cpu}, which this host's processor can't ({error})"
        return str(error)


def _where(wish: Wish) -> tuple[str, dict[str, str], bool]:
    return sys.executable, wish.settings, wish.has_device


def _ticket(wish: Wish) -> Ticket:
    return Ticket(asked=os.geteuid(), what=wish.name)


def _wish(request: Request) -> Wish:
    return Wish(request.what, request)
