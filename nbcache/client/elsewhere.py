"""What others do for this process: a daemon that is asked to build, another process that is building the same thing.

Waiting for them never takes longer than :mod:`nbcache.client.waiting_account` allows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nbcache import other_processes
from nbcache.client import waiting_account
from nbcache.client.logs import log
from nbcache.client.waiting_account import Patience, Wait
from nbcache.process import os, time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nbcache.client.cold_start import ColdStart
    from nbcache.client.progress import Progress
    from nbcache.config import Settings
    from nbcache.counting import Counters
    from nbcache.glue.keys.units import Unit
    from nbcache.protocol.heartbeats import Heartbeat
    from nbcache.protocol.profiles import Profile
    from nbcache.store.directory import Store
    from nbcache.store.locks import Lease

_POLL_SECONDS: Final = (0.005, 0.1)
_SELDOM: Final = 0.02
_SELDOM_SECONDS: Final = 0.5
"""What part of the time waited so far may pass between two looks, and how much at most [s]."""


class Elsewhere:
    """Everybody else at work on one store, as one process sees them. How long they are waited for: `Patience`."""

    def __init__(self, settings: Settings, store: Store, counters: Counters) -> None:
        """Look at nothing yet."""
        self._settings = settings
        self._store = store
        self._counters = counters
        self._patience = Patience(settings, counters)
        self._daemons = Daemons(store, self._patience)
        self._given_up = ""
        """The key whose lease was last waited for in vain."""
        self._cold: ColdStart | None = None
        self._progress: Progress | None = None
        if settings.progress:
            from nbcache.client.progress import Progress

            self._progress = Progress()
        self.shares = False
        """Whether others are compiling what this process needs, all of it: then it takes a lease for each function,
        also for one inside another that it compiles, and asks for none by itself."""
        self._lanes: list[str] = []
        """The requests by which they were asked to."""
        self._expected: Mapping[tuple[str, str], float] = {}
        """How long compiling takes, by function and signature, as far as that is known [s]."""

    def missed(self, unit: Unit, compiled: float) -> None:
        """A function isn't there that the program itself asks for, which has *compiled* for so long [s]."""
        if self.shares and self._lanes:
            from nbcache.protocol import spool  # it is there already

            # Once the last one is answered, whatever came of it, nobody is at work any more.
            self._lanes = [path for path in self._lanes if spool.waits(path)]
            in_vain = self._cold is not None and self._cold.is_in_vain(self._daemons.has_helper)
            self.shares = bool(self._lanes) and not in_vain
        if self.shares:
            return
        workers = self._daemons.workers
        if self._cold is None and (workers or self._settings.jobs):
            from nbcache.client.cold_start import ColdStart  # most processes find nobody to ask

            self._cold = ColdStart(self._settings, self._store)
        asked = None if self._cold is None else self._cold.missed(unit, workers, compiled)
        if asked is not None:
            self.share(*asked)
            if self._progress is not None:
                self._progress.began(asked[0], len(asked[1]))

    def share(self, profile: Profile, lanes: Sequence[str] = ()) -> None:
        """From now on others are compiling what a profile lists, and this process divides that with them, as long as
        one of the requests for *lanes* waits to be answered; if there are none, to the end.
        """
        self.shares, self._lanes, self._expected = True, list(lanes), profile.seconds_of

    def find(
        self,
        unit: Unit,
        load: Callable[[], Any | None],
        keep: Callable[[Callable[[], None]], None],
        *,
        is_there: bool,
    ) -> Any | None:
        """Return what *load* finds once others have built it; None if this process is to build it.

        Then *keep* is given what is to be called when that is done. No daemon is asked for what *is there* and of no
        use here: it would not be built again. Damage is another matter, and so is what programs crashed with.
        """
        settings = self._settings
        if self._progress is not None:
            keep = self._told_of(unit, keep)
        with self._patience.wait() as wait:
            found = None
            asks = settings.on_miss != "compile" and not (settings.recache or is_there)
            # Who shares the work would wait behind all the rest for what he can compile meanwhile.
            asks = asks and not (self.shares and self._store.writable)
            if asks and wait.left > 0 and self._daemons.worth_asking() and self._daemons.build(unit, wait):
                found = self._came(load, wait)
            if found is None:
                found = self._wait_for_lease(unit, load, keep, wait, is_there=is_there)
            if found is not None and self._progress is not None:
                self._progress.erase()
                self.ready(unit)
            return found

    def ready(self, unit: Unit) -> None:
        """A function was loaded, or compiled here."""
        if self._progress is not None:
            self._progress.ready(unit.name, unit.signature_text)

    def _told_of(self, unit: Unit, keep: Callable[[Callable[[], None]], None]) -> Callable[[Callable[[], None]], None]:
        """Tell that a function is compiled now, unless it comes from elsewhere, and when that is over."""
        progress = self._progress
        assert progress is not None
        progress.says("compiling", unit.name)

        def told(release: Callable[[], None]) -> None:
            def closed() -> None:
                release()
                self.ready(unit)
                progress.end()

            progress.begin()
            keep(closed)

        return told

    def _came(self, load: Callable[[], Any | None], wait: Wait) -> Any | None:
        before = self._counters.saved_seconds
        found = load()
        if found is not None:
            wait.done(self._counters.saved_seconds - before)
        return found

    def _wait_for_lease(
        self,
        unit: Unit,
        load: Callable[[], Any | None],
        keep: Callable[[Callable[[], None]], None],
        wait: Wait,
        *,
        is_there: bool,
    ) -> Any | None:
        """Single flight: whoever compiles first holds a lease, the others wait for the entry."""
        if not self._store.writable:
            return None
        before = self._store.stamp(unit.key) if is_there else None
        lease = self._store.lease(unit.key)
        waited = lease is None
        if lease is None:
            lease, found = self._outwait(unit, load, wait, before)
            if lease is None:
                return found
        kept = False
        try:
            # Published between the look-up and the lease, perhaps.
            found = self._came(load, wait) if waited or self._store.exists(unit.key) else None
            if found is None:
                keep(lease.release)
                kept = True
            return found
        finally:
            if not kept:
                lease.release()

    def _outwait(
        self, unit: Unit, load: Callable[[], Any | None], wait: Wait, seen: tuple[int, int, int] | None
    ) -> tuple[Lease | None, Any | None]:
        """Wait until somebody's lease is over or their entry is there, whichever is first; (None, None) if neither."""
        if wait.left <= 0 or self._is_stuck():
            return None, None
        log.info("%s: waiting for another process that is building it", unit.name)
        pause, longest = _POLL_SECONDS
        watch = waiting_account.Watch(lambda: self._progress_of(unit.key))
        pace = waiting_account.Pace(self._expected.get((unit.name, unit.signature_text)))
        while wait.left > 0 and not pace.lags(watch.last, gives_way=self._daemons.gives_way(unit.key)):
            if self._progress is not None:
                self._progress.says("waiting for", unit.name)
            wait.sleep(pause)
            # Of many who wait, each look costs whoever builds.
            pause = min(pause * 1.5, max(longest, min(_SELDOM * wait.lasted, _SELDOM_SECONDS)))
            watch.look(wait)
            stamp = self._store.stamp(unit.key)
            if stamp != seen:
                seen = stamp
                found = self._came(load, wait)
                if found is not None:
                    return None, found
            lease = self._store.lease(unit.key)
            if lease is not None:
                return lease, None
        log.info("%s: stopped waiting for the process that is building it", unit.name)
        self._given_up = unit.key
        return None, None

    def _is_stuck(self) -> bool:
        """Whether somebody's lease was waited for in vain, and is held still."""
        lease = self._store.lease(self._given_up) if self._given_up else None
        if lease is not None:
            lease.release()
            self._given_up = ""
        return self._given_up != ""

    def _progress_of(self, key: str) -> tuple[float | None, float | None]:
        """How much processor time whoever holds a key's lease has had, and for how long he had none [s]."""
        # A daemon holds it for a job, and what it does itself says nothing.
        spent = self._daemons.spent(key)
        holder = self._store.lease_holder(key) if spent is None else None
        if holder is None:
            return spent, None
        return other_processes.processor_time(holder), other_processes.kept_waiting(holder)


_ASK_SECONDS: Final = (0.002, 0.1)
UNANSWERED_SECONDS: Final = 1.0
"""How long an answer is waited for when the entry is there and nobody works on it [s].

A job may have more to build for its key; or it may have left something behind that doesn't end, and so doesn't either.
"""
LOOK_SECONDS: Final = 1.0
"""How long what the daemons said of themselves is believed [s]."""


class Daemons:
    """The daemons of one store, as one process sees them.

    After the first answer that didn't come in time, a daemon isn't asked again until it has finished something: that it
    gives signs of life doesn't mean that anything gets done. One that has finished nothing yet is asked for the first
    function, so that it gets ready, and isn't waited for.
    """

    def __init__(self, store: Store, patience: Patience) -> None:
        """Look at nothing yet."""
        self._store = store
        self._patience = patience
        self._looked = -LOOK_SECONDS
        self._alive: list[Heartbeat] = []
        self._given_up: dict[tuple[str, int, float], int] = {}
        self._told: frozenset[tuple[str, int, float]] = frozenset()
        """Those that were asked for a function so that they get ready."""

    @property
    def workers(self) -> int:
        """How many jobs a living daemon runs at once that hears this user; 0 where there is none."""
        self._look(LOOK_SECONDS)
        return max((each.workers for each in self._alive if not self._is_stuck(each)), default=0)

    def has_helper(self) -> bool:
        """Whether a helper is alive that hears this user."""
        self._look(LOOK_SECONDS)
        return any(each.gives_way for each in self._alive)

    def worth_asking(self) -> bool:
        """Whether a daemon is alive, would get to a request soon enough, and hasn't been slower than compiling.

        One that is overloaded is of no help to somebody who could compile meanwhile.
        """
        delay = self._delay() if self._patience.asks else None
        return delay is not None and (self._patience.insists or delay <= self._patience.allowance)

    def spent(self, key: str, scope: str = "") -> float | None:
        """How much processor time a daemon's job for a key (and scope) has had [s]; None if there is none."""
        self._look(waiting_account.LOOK_SECONDS)
        return max((spent for each in self._alive if (spent := each.spent(key, scope)) is not None), default=None)

    def gives_way(self, key: str) -> bool:
        """Whether it is a helper that is building a key."""
        return any(each.gives_way and each.spent(key) is not None for each in self._alive)

    def build(self, unit: Unit, wait: Wait) -> bool:
        """Have a unit built; return whether there may be an entry now.

        Returns when there is nothing left of *wait* at the latest, and as soon as it is known that nothing will come.
        """
        from nbcache.client.recording import request_for
        from nbcache.glue.requests.requested import UnaskableError
        from nbcache.protocol import spool  # most processes find nobody to ask

        try:
            request = request_for(unit)
        except UnaskableError as exc:
            log.info("%s can't be requested from a daemon: %s", unit.name, exc)
            return False
        known = spool.failure(self._store.path, unit.key, request.scope)
        if known is not None:
            log.info("%s is not requested, because building it failed before: %s", unit.name, known.reason)
            return False
        path = spool.submit(self._store.path, request)
        if path is None:
            log.info("%s can't be requested from a daemon: the requests directory can't be written", unit.name)
            return False
        if not self._patience.is_wanted and not any(each.finished for each in self._asked()):
            # It has to start an interpreter and import Numba first, which takes longer than it would be waited for.
            log.info("%s: compiling it, because the daemon that was asked has built nothing yet", unit.name)
            self._told = frozenset(each.process for each in self._alive)
            return False
        return self._wait(unit, path, request.scope, wait)

    def _delay(self) -> float | None:
        """How long a request would wait for a worker [s]; None if no daemon is worth waiting for."""
        self._look(LOOK_SECONDS)
        uid = os.geteuid()
        return min((each.delay(uid) for each in self._asked()), default=None)

    def _asked(self) -> list[Heartbeat]:
        """Those that are of use to who waits for a single function.

        A helper is there for what is asked for ahead: who waits has better priority himself.
        """
        return [each for each in self._alive if not (each.gives_way or self._is_stuck(each) or self._gets_ready(each))]

    def _look(self, seconds: float) -> None:
        """Know what the daemons said no longer ago than that [s]."""
        now = time.monotonic()
        if now - self._looked >= seconds:
            self._looked = now
            from nbcache.protocol import heartbeats  # who finds everything doesn't need it

            found = heartbeats.read(self._store.path, self._store.trust)
            uid = os.geteuid()
            self._alive = [each for each in found if each.alive and not each.draining and each.hears(uid)]

    def _is_stuck(self, daemon: Heartbeat) -> bool:
        """Whether it was waited for in vain, and has finished nothing since."""
        return self._given_up.get(daemon.process) == daemon.finished

    def _gets_ready(self, daemon: Heartbeat) -> bool:
        return daemon.process in self._told and not daemon.finished

    def _give_up(self) -> None:
        self._given_up = {each.process: each.finished for each in self._alive}

    def _wait(self, unit: Unit, path: str, scope: str, wait: Wait) -> bool:
        from nbcache.protocol import spool  # as above

        pause, longest = _ASK_SECONDS
        before, quiet = self._store.stamp(unit.key), time.monotonic()
        log.info("%s: waiting for a daemon that was asked for it", unit.name)
        watch = waiting_account.Watch(lambda: (self.spent(unit.key, scope), None))
        while spool.waits(path):
            if self._store.stamp(unit.key) == before:
                quiet = time.monotonic()
            elif wait.left <= 0 or time.monotonic() - quiet > UNANSWERED_SECONDS:
                break
            if wait.left <= 0:
                log.info("%s: no daemon answered in time", unit.name)
                self._give_up()
                return False
            if self._delay() is None:
                log.info("%s: the daemon that was asked is no longer alive", unit.name)
                return False
            wait.sleep(pause)
            pause = min(pause * 1.2, longest)
            if watch.look(wait):
                quiet = time.monotonic()
        # Where a daemon of another uid has answered, it couldn't.
        spool.withdraw(path)
        known = spool.failure(self._store.path, unit.key, scope)
        if known is not None:
            log.info("%s was not built by the daemon: %s", unit.name, known.reason)
        return known is None
