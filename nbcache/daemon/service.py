"""The service behind ``nbcache serve``: takes requests out of the spool, has each built once, answers.

One thread decides; workers are processes (:mod:`nbcache.daemon.pool`), and a watchdog observer only wakes it up. All
state that matters lies in the spool and in the store: a request is removed when it is answered and not before, so a
daemon that is killed at any point has lost nothing but time, and any number of daemons may serve one store.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import pkgutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import nbcache.protocol
import nbcache.store
from nbcache.config import Settings
from nbcache.daemon import housekeeping, whose_turn
from nbcache.daemon.audit import Audit
from nbcache.daemon.building import Building
from nbcache.daemon.failures import Answers
from nbcache.daemon.housekeeping import Housekeeping
from nbcache.daemon.intake import Intake, Watch
from nbcache.daemon.presence import NEWS_SECONDS, Notifier, Presence
from nbcache.daemon.saved_files import Saves
from nbcache.daemon.shared_parts import Commons, Options, Problems, Sparing
from nbcache.daemon.whose_turn import Job, Jobs
from nbcache.errors import StoreRefusedError
from nbcache.metrics.meter import Meter
from nbcache.one_line import log
from nbcache.protocol import spool
from nbcache.protocol.requests import Request
from nbcache.protocol.spool import Waiting
from nbcache.store import first_askers, layout, tree
from nbcache.store.directory import Store
from nbcache.store.opened import Refusal

DRAIN_SECONDS: Final = 8.0
"""How long running jobs may go on when the daemon is asked to stop [s]."""
SCAN_SECONDS: Final = 1.0
"""How often the spool is looked through, whatever the observer says [s]."""
PASS_SECONDS: Final = 0.5
"""The same where nobody tells what arrives [s]."""


class Service:
    """A daemon over one store.  ``run`` returns when `stop` was called, or a signal came."""

    def __init__(self, settings: Settings, options: Options, load_settings: Callable[[], Settings]) -> None:
        """Open the store.  Raises StoreRefusedError."""
        _import_what_is_imported_late()
        store = _open(settings)
        meter = Meter()
        # It tries which one is good, and remembers that; without descriptors, none would be.
        with suppress(OSError):
            tempfile.gettempdir()
        state = _state_of(options.state, store.path)
        if state:
            with suppress(OSError):  # which the audit log tells
                os.makedirs(state, 0o700, exist_ok=True)
        self._load_settings = load_settings
        self._commons = Commons(
            settings, options, store, options.workers or os.cpu_count() or 1, Jobs(),
            Answers(meter), Problems(), Sparing(log), meter, Audit(state),
        )  # fmt: skip
        self._wake = threading.Event()
        self._presence = Presence(self._commons)
        self._building = Building(self._commons, self._presence, self._wake.set)
        self._intake = Intake(self._say_odd)
        self._saves = Saves(self._commons, self._wake.set)
        self._room = whose_turn.Room(self._commons.jobs)
        self._stopping = False
        self._is_whole = False
        """Whether the store was found or made complete."""
        self._is_removed = False
        """Whether somebody has removed the store, and nobody is to make it again."""
        self._reload = False
        self._busy_at = time.monotonic()

    @property
    def store(self) -> Store:
        """The store that is served."""
        return self._commons.store

    @property
    def settings(self) -> Settings:
        """Those that hold, with the directory of the store that is served."""
        return self._commons.settings._replace(dir=self._commons.store.path)

    @property
    def meter(self) -> Meter:
        """What it counts, for whoever watches it."""
        return self._commons.meter

    # -- running ---------------------------------------------------------------------------------

    def run(self, notifier: Notifier) -> None:
        """Serve, and tell the service manager how it goes."""
        commons, root = self._commons, self._commons.store.path
        self._presence.choose_name()
        watch = Watch(_requests_of(root), self._arrived)
        house = Housekeeping(commons, self._presence.file_time)
        try:
            self._presence.give_sign()
            house.start()
            notifier.ready(f"serving {root}")
            log.info("serving %s as daemon %s with %d workers", root, self._presence.name, commons.workers)
            while not self._stopping:
                self._wake.clear()
                if self._reload:
                    notifier.reloading()
                    self._read_settings()
                    notifier.ready(f"serving {root}")
                self._turn(watch)
                self._end_if_idle()
                notifier.alive()
                self._wake.wait(self._rest() if watch.watches else min(self._rest(), PASS_SECONDS))
            notifier.stopping()
            if not self._is_removed:
                self._drain(notifier)
        finally:
            self._stopping = True
            house.stop()
            self._saves.stop()
            watch.close()
            self._intake.close()
            self._building.close()
            house.join()
            housekeeping.forget_tests(commons, age=0.0)
            self._presence.withdraw()

    def _turn(self, watch: Watch) -> None:
        """Do all that is to be done now."""
        building = self._building
        building.collect()
        if not self._mend(watch):
            return
        self._scan(watch)
        self._build_again()
        self._saves.turn()
        building.start()
        if building.failures_grew:
            building.failures_grew = False
            spool.sweep_failures(self._commons.store.path)
        self._presence.give_sign()

    def _end_if_idle(self) -> None:
        idle, now = self._commons.options.idle, time.monotonic()
        if self._commons.jobs:
            self._busy_at = now
        elif 0 < idle < now - self._busy_at:
            log.info("nothing was asked for in %g seconds", idle)
            self._stopping = True

    def stop(self) -> None:
        """Take no more requests, and end soon."""
        self._stopping = True
        self._wake.set()

    def reload(self) -> None:
        """Read the settings again, soon."""
        self._reload = True
        self._wake.set()

    def handle_signals(self) -> None:
        """SIGTERM and SIGINT stop, SIGHUP reloads."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: self.stop())
        signal.signal(signal.SIGHUP, lambda _number, _frame: self.reload())

    def _read_settings(self) -> None:
        self._reload = False
        settings = self._load_settings()
        for problem in settings.problems:
            log.warning("%s", problem)
        if settings.dir != self._commons.settings.dir:
            log.warning(
                "NBCACHE_DIR was changed, which takes effect after a restart; still serving %s",
                self._commons.store.path,
            )
            return
        self._commons.settings = settings
        try:
            self._commons.store = _open(settings)
        except StoreRefusedError as error:
            log.warning("read the settings again; the store can't be used with them: %s", error)
        self._building.retire()
        log.info("read the settings again")

    def _mend(self, watch: Watch) -> bool:
        """Make again what was deleted of the store, and watch it; return whether it can be used."""
        root = self._commons.store.path
        lost = [] if os.path.isdir(root) else [root]
        lost = lost or [f"{root}/{name}" for name in tree.missing(root)]
        if lost and self._is_whole and self._commons.options.alone:
            # A program's user has no idea that there is a helper, and has removed the program's cache.
            log.info("the store %s was removed", root)
            self._is_removed = self._stopping = True
            return False
        if lost or not watch.alive:
            problem = self._make_again()
            self._commons.problems.report("store", problem)
            if problem is not None:
                return False
            watch.restart(_requests_of(root))
            if lost:
                log.warning("recreated what was missing: %s", ", ".join(lost))
        self._is_whole = True
        links = tree.links(root)
        self._commons.problems.report(
            "links",
            f"ignoring symbolic links in {root}, which must be directories: {', '.join(links)}" if links else None,
        )
        return True

    def _make_again(self) -> str | None:
        """Make what is missing of the store; return why that can't be done."""
        root = self._commons.store.path
        parent = os.path.dirname(root)
        if not os.path.isdir(parent):
            # Nobody but an operator knows whether it will be mounted again.
            return f"{root} is missing, and so is {parent}: nothing is served until {parent} exists"
        try:
            self._commons.store = _open(self._commons.settings._replace(dir=root))
            tree.make_tree(root, whole=True)
        except StoreRefusedError as error:
            return f"nothing is served until this is corrected: {error}"
        except OSError as error:
            return f"{root} is missing and can't be recreated: {error.strerror or error}"
        return None

    def _rest(self) -> float:
        """How long nothing has to be done unless something happens [s]."""
        rest = NEWS_SECONDS if self._commons.jobs.busy or self._presence.is_stale else SCAN_SECONDS
        return min(rest, self._intake.pause)

    def _arrived(self, path: str) -> None:
        """In the observer's thread: something appeared in the spool."""
        self._intake.arrived(path)
        self._wake.set()

    def _drain(self, notifier: Notifier) -> None:
        self._presence.give_sign(draining=True)
        deadline = time.monotonic() + DRAIN_SECONDS
        while self._commons.jobs.awaited and time.monotonic() < deadline:
            self._wake.wait(0.1)
            self._wake.clear()
            self._building.collect()
            notifier.alive()
        left = self._commons.jobs.awaited
        log.info(
            "stopping; %s", f"abandoned {left} running jobs, their requests remain" if left else "all jobs are finished"
        )

    # -- requests --------------------------------------------------------------------------------

    def _scan(self, watch: Watch) -> None:
        self._room = whose_turn.Room(self._commons.jobs)
        self._intake.turn(self._commons.store.path, self._commons.heard, self._offer)
        requests = _requests_of(self._commons.store.path)
        for path in watch.follow(f"{requests}/{name}" for name in self._intake.drops):
            self._intake.look_again(os.path.basename(path))
            self._wake.set()
        self._commons.answers.answer_again()

    def _build_again(self) -> None:
        """Take in what was removed: in the place of what its user has waiting for these keys, and after what runs."""
        again, jobs = self._commons.again, self._commons.jobs
        for _ in range(len(again)):
            request = again.popleft()
            job = jobs.get((request.uid, request.key))
            if job is not None and job.future is not None:
                again.append(request)
                continue
            # The requests of a job that is dropped lie in the spool still, and are taken in again after this one.
            jobs.begin(Job(request, set(), time.monotonic(), suspect=True))

    def _say_odd(self, name: str) -> None:
        self._commons.sparing.warning(
            "odd", "ignoring %s in the requests directory: it is not a user's directory", name
        )

    def _offer(self, waiting: Waiting, insists: bool) -> bool:
        """Take a request in; return whether there was room. Who *insists* may take the place of an older one."""
        job = self._commons.jobs.get((waiting.uid, waiting.key))
        if self._commons.answers.ignores(waiting.path) or (job is not None and waiting.path in job.paths):
            return True
        if job is None and not self._room.has(waiting.uid, insists=insists):
            return False
        with self._commons.sparing.containing(waiting.name, partial(self._commons.answers.answer, waiting.path)):
            self._look_at(waiting)
        return True

    def _look_at(self, waiting: Waiting) -> None:
        job = self._commons.jobs.get((waiting.uid, waiting.key))
        request = spool.take(waiting, self._commons.heard)
        if request is None:
            return
        age = self._age(waiting)
        self._commons.meter.asked(waiting.path, age)
        if isinstance(request, str):
            self._reject(waiting, request)
        elif job is not None:
            job.paths.add(waiting.path)
        elif age > spool.MAX_AGE:
            self._reject(waiting, "it is older than a day")
        elif self._is_settled(request):
            self._commons.answers.answer(waiting.path)
        elif spool.is_answered(waiting.path):
            self._commons.answers.ignore(waiting.path)
        else:
            self._commons.jobs.begin(Job(request, {waiting.path}, time.monotonic() - age))
            self._room.take(waiting.uid, request.size)

    def _is_settled(self, request: Request) -> bool:
        if request.is_profile:
            return False  # its key is nothing that is ever there
        root, key = self._commons.store.path, request.key
        return self._commons.store.holds(key, request.uid) or spool.failure(root, key, request.scope) is not None

    def _age(self, waiting: Waiting) -> float:
        """How old a request is [s], by our clock or by the one that dated it: either may be wrong, or jump."""
        with suppress(OSError):
            return min(time.time(), self._presence.file_time()) - os.lstat(waiting.path).st_mtime
        return 0.0

    def _reject(self, waiting: Waiting, reason: str) -> None:
        self._commons.sparing.warning(reason, "rejected the request %s: %s", waiting.name, reason)
        self._commons.meter.rejected(waiting.path)
        spool.rejected(self._commons.store.path, waiting, reason)
        self._building.failures_grew = True
        self._commons.answers.answer(waiting.path)


def _import_what_is_imported_late() -> None:
    """Import all modules that programs leave until they need them: a daemon may have no descriptor left by then."""
    for package in (nbcache.store, nbcache.protocol):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def _requests_of(root: str) -> str:
    return f"{root}/{layout.REQUESTS}"


def _open(settings: Settings) -> Store:
    opened = Store.open(settings)
    if isinstance(opened, Refusal):
        raise StoreRefusedError(settings.dir or "", opened.reason)
    if not opened.writable:
        raise StoreRefusedError(opened.path, f"{opened.path} can't be written: a daemon has to publish")
    if opened.trust.uids - {0, os.geteuid()}:
        with suppress(OSError):
            first_askers.begin(opened.path)
    return opened


def _state_of(base: str, root: str) -> str:
    """The folder for a store's state, "" for none: stores don't share one, nor do names of stores tell them apart."""
    return base and os.path.join(base, hashlib.blake2b(os.fsencode(root), digest_size=8).hexdigest())
