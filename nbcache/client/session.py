"""One process's dealings with the store: look up, load, or compile once and publish.

Whatever goes wrong in here is a logged miss.  No exception reaches the compilation that asked, and
nothing is waited for longer than ``NBCACHE_WAIT_SECONDS``.
"""

from __future__ import annotations

import atexit
import logging
import time
from typing import TYPE_CHECKING, Any

from nbcache import config
from nbcache.client import logs
from nbcache.stats import Counters
from nbcache.store.directory import Refusal, Store
from nbcache.store.entry import Header

if TYPE_CHECKING:
    from nbcache.config import Settings
    from nbcache.glue.frames import Frame
    from nbcache.glue.units import Unit

_log = logging.getLogger("nbcache")
_POLL_SECONDS = (0.005, 0.1)
_active: ClientSession | None = None


class ClientSession:
    """Implements `nbcache.glue.seams.Session` over a store."""

    def __init__(self, settings: Settings, store: Store) -> None:
        from nbcache.glue.frames import FrameStack
        from nbcache.glue.units import KeyMaker

        self.settings = settings
        self.store = store
        self.frames = FrameStack()
        self.maker = KeyMaker()
        self.counters = Counters()
        self.enabled = True
        self._loaded: dict[str, Any] = {}
        self._leases: dict[int, Any] = {}

    @property
    def cache_path(self) -> str | None:
        """The store's directory."""
        return self.store.path if self.enabled else None

    # -- asked by Numba, through the seams -------------------------------------------------------

    def load(self, owner: Any, sig: Any, target_context: Any) -> Any | None:
        """A CompileResult, or None with a frame opened for the compilation that follows."""
        from nbcache.glue.frames import Frame, new_build

        if not self.enabled:
            return None
        unit = None
        try:
            unit = self._identify(owner, sig)
            if isinstance(unit, str):
                self.frames.push(Frame(None, new_build("0" * 12), reason=unit))
                return None
            found = self._find(unit, target_context)
            if found is None:
                found = self._wait_for_others(unit, target_context)
            if found is None:
                self.frames.push(Frame(unit, new_build(unit.key)))
            return found
        except Exception:
            self._fault("looking up", unit)
            self.frames.push(Frame(None, new_build("0" * 12), reason="a fault of nbcache"))
            return None

    def save(self, cres: Any) -> None:
        """The compilation of the innermost frame succeeded: publish it."""
        frame = self.frames.top()
        if not self.enabled or frame is None:
            return
        try:
            if frame.unit is None:
                cres.library._nbcache_taint = frame.reason
            else:
                self._save(frame, frame.unit, cres)
        except Exception:
            cres.library._nbcache_taint = "a fault of nbcache"
            self._fault("publishing", frame.unit)

    # -- finding ---------------------------------------------------------------------------------

    def _identify(self, owner: Any, sig: Any) -> Unit | str:
        from nbcache.glue.identity import Unidentifiable
        from nbcache.glue.units import unit_for

        unit = unit_for(self.maker, owner, sig)
        try:
            unit.key  # noqa: B018  computed here so that it is known to exist
        except Unidentifiable as exc:
            reason = str(exc)
            self.counters.uncacheable(reason, unit.name)
            _log.debug("%s can't be cached: it depends on %s", unit.name, reason)
            return reason
        return unit

    def _find(self, unit: Unit, target_context: Any) -> Any | None:
        from nbcache.glue import artifacts

        known = self._loaded.get(unit.key)
        if known is not None:
            cres = artifacts.share(unit, target_context, *known)
            if cres is not None:
                self.counters.hit(unit.key, unit.name, 0.0)
                return cres
        if self.settings.recache:
            return None
        reasons: list[str] = []
        for entry in self.store.find(unit.key, reasons.append):
            try:
                cres, kept = artifacts.unpack(unit, target_context, entry.section, entry.header.build)
            except artifacts.Unloadable as exc:
                reasons.append(str(exc))
                continue
            self._loaded.setdefault(unit.key, kept)
            self.counters.hit(unit.key, unit.name, entry.header.compile_seconds)
            _log.debug("hit: %s %s", unit.name, unit.signature_text)
            return cres
        for reason in reasons:
            _log.info("%s %s was passed over: %s", unit.name, unit.signature_text, reason)
        self._last_reason = reasons[0] if reasons else "new"
        return None

    def _wait_for_others(self, unit: Unit, target_context: Any) -> Any | None:
        """Single flight: whoever compiles first holds a lease, the others wait for the entry.

        Only the outermost compilation takes part, so there is no cycle of waiting.
        """
        self.counters.miss(self._last_reason)
        if len(self.frames) or not self.store.writable:
            return None
        deadline = time.monotonic() + self.settings.wait_seconds
        pause, longest = _POLL_SECONDS
        lease = self.store.lease(unit.key)
        waited = False
        while lease is None and time.monotonic() < deadline:
            time.sleep(pause)
            pause = min(pause * 1.5, longest)
            waited = True
            if self.store.exists(unit.key):
                found = self._find(unit, target_context)
                if found is not None:
                    return found
            lease = self.store.lease(unit.key)
        if lease is None:
            return None
        if waited or self.store.exists(unit.key):
            # Published between the look-up and the lease.
            found = self._find(unit, target_context)
            if found is not None:
                lease.release()
                return found
        self.frames.on_close(lease.release)
        return None

    # -- publishing ------------------------------------------------------------------------------

    def _save(self, frame: Frame, unit: Unit, cres: Any) -> None:
        from nbcache.glue import artifacts

        seconds = time.perf_counter() - frame.started
        self.counters.built(unit.key, f"{unit.name} {unit.signature_text}", seconds)
        try:
            packed = artifacts.pack(unit, frame, cres)
        except artifacts.Unstorable as exc:
            reason = str(exc)
            cres.library._nbcache_taint = reason
            self.counters.uncacheable(reason, unit.name)
            _log.debug("%s can't be cached: %s", unit.name, reason)
            return
        self._loaded.setdefault(unit.key, packed.kept)
        if not self.store.writable:
            return
        header = Header(
            key=unit.key,
            kind=unit.kind,
            function=unit.name,
            signature=unit.signature_text,
            toolchain=self.maker.conditions.summary(),
            compile_seconds=seconds,
            created=time.time(),
            build=frame.build,
            guard=packed.guard,
            extra={},
        )
        published = self.store.publish(header, packed.sections)
        if published.ok:
            self.counters.published(unit.key)
        else:
            self.counters.error("publish")
            logs.once(_log, logging.WARNING, "%s was not published: %s", unit.name, published.reason)

    # -- the rest --------------------------------------------------------------------------------

    def _fault(self, doing: str, unit: Unit | str | None) -> None:
        name = getattr(unit, "name", "a function")
        self.counters.error(f"fault while {doing}")
        logs.once(_log, logging.WARNING, "a fault of nbcache while %s %s; Numba compiles as usual", doing, name)
        _log.debug("the fault", exc_info=True)

    def finish(self) -> None:
        """At the end of the process: leave a usage record, tidy up the store now and then."""
        if self.counters.empty:
            return
        snapshot = self.counters.snapshot()
        self.store.write_usage(snapshot)
        if snapshot["published"]:
            self.store.tidy()


def activate(settings: Settings | None) -> None:
    """Start using the store that the settings name.  Numba must be imported."""
    global _active  # noqa: PLW0603  one process, one session
    settings = config.load() if settings is None else settings
    if _active is not None and _active.enabled:
        return
    logs.configure(settings)
    for problem in settings.problems:
        _log.warning("%s", problem)
    if settings.disable or settings.dir is None:
        return
    store = Store.open(settings)
    if isinstance(store, Refusal):
        _log.warning("nbcache stays off: %s", store.reason)
        return
    from nbcache.glue import forks, seams

    session = ClientSession(settings, store)
    reason = seams.install(session)
    if reason is not None:
        _log.warning("nbcache stays off: %s", reason)
        return
    _active = session
    forks.protect(session.frames.restart_names, session.finish)
    atexit.register(session.finish)


def deactivate() -> None:
    """Stop using the store in this process."""
    if _active is not None and _active.enabled:
        from nbcache.glue import seams

        _active.enabled = False
        seams.remove()
        _active.finish()
        atexit.unregister(_active.finish)


def stats() -> dict[str, Any]:
    """This process's counts, or those of an unused cache."""
    return (_active.counters if _active is not None else Counters()).snapshot()
