"""One process's dealings with the store: look up, load, or compile once and publish.

Whatever goes wrong in here is a logged miss.  No exception reaches the compilation that asked, and
nothing is waited for longer than `nbcache.client.patience` allows.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import time
import weakref
from typing import TYPE_CHECKING, Any

from nbcache import __version__, config
from nbcache.client import logs
from nbcache.counting import Counters
from nbcache.passing import let_pass
from nbcache.store.directory import Refusal, Store
from nbcache.store.entry import Header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from nbcache.client.others import Others
    from nbcache.client.trials import Trials
    from nbcache.config import Settings
    from nbcache.glue.artifacts import Packed
    from nbcache.glue.frames import Frame
    from nbcache.glue.units import Unit
    from nbcache.glue.wrappers import RuntimeUnit, WrapperUnit
    from nbcache.store.directory import FoundEntry

_log = logging.getLogger("nbcache")
QUARANTINED = "quarantined"
"""Why an entry is passed over that programs crashed with."""
_active: ClientSession | None = None


class ClientSession:
    """Implements `nbcache.glue.seams.Session` over a store."""

    def __init__(self, settings: Settings, store: Store) -> None:
        from nbcache.glue.caveats import Watch
        from nbcache.glue.frames import FrameStack
        from nbcache.glue.history import History
        from nbcache.glue.units import KeyMaker

        self.settings = settings
        self.store = store
        self.maker = KeyMaker()
        self.frames = FrameStack(Watch, self.maker)
        self.maker.installed.recall = self._remembered
        self.maker.installed.remember = self._remember
        self.history = History(self.maker)
        self.counters = Counters()
        self.enabled = True
        self.has_hits = False
        """Whether anything was loaded, and so possibly nothing of Numba's registries was."""
        self._libraries: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
        self._twins: dict[str, int] = {}
        self._owners: dict[str, str] = {}
        self._last_reason = "new"
        self._others: Others | None = None
        self._trials: Trials | None = None
        self._condemned: set[str] = set()
        self._usable = False
        """Whether the last look-up saw anything that others could use."""
        self._told = 0
        self._recorded: set[str] = set()
        self._caveats: list[tuple[Any, ...]] = []

    @property
    def cache_path(self) -> str | None:
        """The store's directory."""
        return self.store.path if self.enabled else None

    # -- asked by Numba, through the seams -------------------------------------------------------

    def load(self, owner: Any, sig: Any, target_context: Any) -> Any | None:
        """A CompileResult or LiteralsRequested, or None with a frame opened for the compilation that follows.

        Raises what a warning's filters say has to be raised.
        """
        if not self.enabled:
            return None
        if self._trials is not None and not len(self.frames):
            self._trials.go_on()
        self._caveats = []
        found = self._load(owner, sig, target_context)
        self._warn()
        return found

    def _warn(self) -> None:
        """Warn of what the compilation of what was just loaded warned of."""
        if self._caveats:
            from nbcache.glue.caveats import repeat

            packed, self._caveats = self._caveats, []
            repeat(packed)

    def _load(self, owner: Any, sig: Any, target_context: Any) -> Any | None:
        from nbcache.glue.frames import Frame, new_build

        unit = None
        try:
            unit = self._identify(owner, sig)
            if isinstance(unit, str):
                self.frames.push(Frame(None, new_build("0" * 12), reason=unit))
                return None
            found = self._find(unit, target_context)
            if found is None and unit.of_the_past:
                # An overload that a hit promised, and what it was made from is no more; better than none.
                _log.info(
                    "%s: compiling an overload that a loaded function relied on and that can no longer be loaded",
                    unit.name,
                )
                self.frames.push(Frame(None, new_build("0" * 12), reason="what it was made from changed"))
                return None
            if found is None:
                found = self._from_others(unit, target_context)
            if found is not None and not len(self.frames):
                self._record(unit)
            if found is None:
                frame = Frame(unit, new_build(unit.key))
                self._owners[frame.build] = unit.key
                self.frames.push(frame)
            return found
        except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
            let_pass(raised)
            self._fault("looking up", unit)
            self.frames.push(Frame(None, new_build("0" * 12), reason="internal error of nbcache"))
            return None

    def load_block(self, lifted: Any, args: tuple[Any, ...]) -> Any | None:
        """The same for an ``objmode`` block; no frame is opened for one that can't be told from others."""
        from nbcache.glue.artifacts import origin_of
        from nbcache.glue.units import LiftedUnit

        def identify() -> Unit | None:
            origin = origin_of(lifted, self.frames.top())
            return None if origin is None else LiftedUnit(self.maker, self.frames, lifted, args, origin)

        return self._load_unit(identify, lifted.targetctx)

    def stencil(self, stencil: Any, args: tuple[Any, ...], out: bool, build: Callable[[], Any]) -> Any:
        """A CompileResult for a stencil that is called from Python, loaded or what *build* returns."""
        from nbcache.glue.artifacts import settle_stencil
        from nbcache.glue.units import StencilUnit

        def identify() -> Unit | None:
            self.maker.prepare()
            return StencilUnit(self.maker, self.frames, stencil, args, out=out)

        depth = len(self.frames)
        cres = self._load_unit(identify, stencil._targetctx)  # noqa: SLF001  the only name it has
        if cres is not None:
            settle_stencil(stencil, cres)
            return cres
        cres = build()
        if len(self.frames) > depth:
            self.save(cres)
        return cres

    def _load_unit(self, identify: Callable[[], Unit | None], target_context: Any) -> Any | None:
        """A CompileResult, or None, with a frame opened if there is a unit to publish."""
        found = self._look_up(identify, target_context)
        self._warn()
        return found

    def _look_up(self, identify: Callable[[], Unit | None], target_context: Any) -> Any | None:
        from nbcache.glue.frames import Frame, new_build
        from nbcache.glue.identity import Unidentifiable

        if not self.enabled:
            return None
        unit = None
        try:
            unit = identify()
            if unit is None:
                return None
            try:
                unit.key  # noqa: B018  computed here so that it is known to exist
            except Unidentifiable as exc:
                self.counters.uncacheable(str(exc), unit.name)
                _log.debug("%s can't be cached: it depends on %s", unit.name, exc)
                return None
            found = self._find(unit, target_context)
            if found is None:
                self.counters.miss(self._last_reason)
                self.frames.push(Frame(unit, new_build(unit.key)))
            return found
        except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
            let_pass(raised)
            self._fault("looking up", unit)
            return None

    def save(self, cres: Any) -> None:
        """The compilation of the innermost frame succeeded: publish it."""
        from nbcache.glue import artifacts

        frame = self.frames.top()
        if frame is None:
            return
        # Also where the cache was switched off meanwhile: the code refers to it.
        artifacts.hold(cres.library, frame.held)
        if not self.enabled:
            return
        try:
            if not frame.portable or (frame.unit is None and frame.taint):
                artifacts.taint(cres.library, frame.taint or frame.reason)
            elif frame.unit is None:
                return
            else:
                self._save(frame, frame.unit, cres)
        except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
            let_pass(raised)
            artifacts.taint(cres.library, "internal error of nbcache")
            self._fault("publishing", frame.unit)
        if frame.unit is not None:
            frame.unit.forget()

    def literals_requested(self, owner: Any, positions: Iterable[int]) -> None:
        """The compilation of the innermost frame asked for literals instead: publish that."""
        frame = self.frames.top()
        unit = frame.unit if frame is not None else None
        if not self.enabled or frame is None or unit is None or unit.owner is not owner:
            return
        try:
            self._save_request(frame, unit, tuple(sorted(positions)))
        except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
            let_pass(raised)
            self._fault("publishing", unit)

    def _save_request(self, frame: Frame, unit: Unit, positions: tuple[int, ...]) -> None:
        from nbcache.glue import artifacts

        seconds, own, uses, past = self._finished(frame, unit)
        request = artifacts.LiteralsRequested(positions)
        packed = self._pack(unit, None, own, lambda: artifacts.pack_request(unit, frame, request, uses, past))
        if packed is not None:
            self._publish(unit, frame.build, seconds, packed)

    def _finished(self, frame: Frame, unit: Unit) -> tuple[float, float, dict[str, Any], str]:
        """Seconds in all and on its own, the uses, and the past that they need, of a compilation that ends."""
        from nbcache.glue import effects, witness

        seconds, own = self.frames.finished()
        witness.settle(frame)
        self.maker.close(frame)
        unit.meets(self.maker.extensions.relevant(frame.consulted.packed))
        unit.asks = tuple(frame.consulted.asks)
        done = [effect for effect in frame.effects.values() if (effect.obj, effect.args) != (unit.owner, unit.args)]
        effects.remember(unit.owner, unit.args, lambda: done)
        uses = self.history.record(unit, done)
        self.history.built(unit, uses)
        return seconds, own, uses, self.history.guard(uses)

    def wrapper(self, kind: str, cres: Any, signature: Any, shape: object, build: Callable[[], Any]) -> Any:
        """A ufunc wrapper: (library, environment, name), loaded, or built by *build* and published."""
        from nbcache.glue.wrappers import WrapperUnit, finish, prepare, wrappable, wrapper_info

        if not self.enabled:
            return build()
        try:
            unit = WrapperUnit(self.maker, kind, cres, signature, shape) if wrappable(cres) else None
            found = self._find_library(unit) if unit is not None else None
            if found is not None:
                return wrapper_info(cres, *found)
        except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
            let_pass(raised)
            unit = None
            self._fault("looking up", None)
        started = time.perf_counter()
        # The kernel may be a hit, which initialises nothing; building needs Numba's registries.
        prepare(cres)
        info = build()
        try:
            if unit is not None:
                finish(info.library)
                self._save_library(unit, info.library, info.name, time.perf_counter() - started)
        except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
            let_pass(raised)
            self._fault("publishing", None)
        return info

    def runtime(self, target_context: Any, build: Callable[[], Any]) -> Any:
        """The library of Numba's runtime, loaded, or built by *build* and published."""
        from nbcache.glue.wrappers import RuntimeUnit

        unit = None
        try:
            if self.enabled:
                unit = RuntimeUnit(self.maker, target_context)
                found = self._find_library(unit)
                if found is not None:
                    return found[0]
        except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
            let_pass(raised)
            self._fault("looking up", unit)
            unit = None
        started = time.perf_counter()
        library = build()
        try:
            if unit is not None:
                self._save_library(unit, library, "", time.perf_counter() - started)
        except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
            let_pass(raised)
            self._fault("publishing", unit)
        return library

    def _find_library(self, unit: RuntimeUnit | WrapperUnit) -> tuple[Any, str] | None:
        from nbcache.glue import artifacts

        def load(entry: FoundEntry) -> tuple[Any, str]:
            found = artifacts.unpack_library(unit, entry.section)
            self.counters.hit(unit.key, unit.name, entry.header.compile_seconds)
            return found

        found = self._first(unit, load)
        if found is None:
            self.counters.miss(self._last_reason)
        return found

    def _save_library(self, unit: RuntimeUnit | WrapperUnit, library: Any, name: str, seconds: float) -> None:
        from nbcache.glue import artifacts

        packed = self._pack(unit, library, seconds, lambda: artifacts.pack_library(unit, library, name))
        if packed is not None:
            self._publish(unit, "", seconds, packed)

    # -- finding ---------------------------------------------------------------------------------

    def _identify(self, owner: Any, sig: Any) -> Unit | str:
        from nbcache.glue.identity import Unidentifiable
        from nbcache.glue.units import unit_for

        self.maker.prepare()
        name = "a function"
        try:
            unit = unit_for(self.maker, self.frames, owner, sig)
            name = unit.name
            unit.key  # noqa: B018  computed here so that it is known to exist
        except Unidentifiable as exc:
            reason = str(exc)
            self.counters.uncacheable(reason, name)
            _log.debug("%s can't be cached: it depends on %s", name, reason)
            return reason
        if unit.kind == "dispatcher":
            owed = self.history.identified(owner, unit.args, unit.content, unit.key)
            if owed is not None:
                unit.stands_for(owed)
        return unit

    def _find(self, unit: Unit, target_context: Any, *, waited: bool = False) -> Any | None:
        from nbcache.glue import artifacts

        library = self._libraries.get(unit.key)
        if library is not None:
            shared = artifacts.share(unit, target_context, self.history, library)
            if shared is not None:
                self._hit(unit, shared[1], 0.0)
                return shared[0]

        def load(entry: FoundEntry) -> Any:
            cres, fields = artifacts.unpack(
                unit, target_context, entry.section, entry.header.build, self._other, self.history
            )
            self._owners[entry.header.build] = unit.key
            if not isinstance(cres, artifacts.LiteralsRequested):
                self._libraries.setdefault(unit.key, cres.library)
            self._hit(unit, fields, entry.header.compile_seconds)
            return cres

        return self._first(unit, load, waited=waited)

    def _other(self, key: str, build: str) -> Callable[[str], bytes | None] | None:
        """Access to the entry of one particular build, which something that is loaded calls."""
        self._owners[build] = key
        entries = (entry for entry in self.store.find(key) if entry.header.build == build)
        return next((entry.section for entry in entries if entry.proven or not self._is_condemned(entry)), None)

    def _hit(self, unit: Unit, fields: dict[str, Any], seconds: float) -> None:
        from nbcache.glue import effects
        from nbcache.glue.history import resolved
        from nbcache.glue.past import past_of

        uses = fields["uses"]
        self.has_hits = True
        unit.forget()
        self.counters.hit(unit.key, unit.name, seconds)
        _log.debug("hit: %s %s", unit.name, unit.signature_text)
        caveats = [] if self.history.promises(unit) else fields["caveats"]
        consulted = fields["consulted"]
        past_of(unit.owner).consulted[unit.args] = consulted
        outer = self.frames.top()
        if outer is not None:
            outer.consulted.include(consulted)
        loaded = len(sys.modules)
        urgent = self.history.accept(unit, uses, consulted)
        self.maker.came_late(loaded)
        effects.repeat(unit, uses["visible"])
        for dispatcher, args in urgent:
            effects.deliver(dispatcher, args, self.frames)
        if any(uses.values()):
            effects.remember(unit.owner, unit.args, lambda: resolved(unit, uses))
        self._caveats = caveats

    def _first(
        self, unit: Unit | RuntimeUnit | WrapperUnit, load: Callable[[FoundEntry], Any], *, waited: bool = False
    ) -> Any | None:
        """What *load* makes of the first variant of the unit's key that can be used here."""
        from nbcache.glue.artifacts import InUse, Unloadable

        self._last_reason = "recache" if self.settings.recache else "new"
        if self.settings.recache:
            return None
        reasons: list[str] = []
        self._twins.pop(unit.key, None)
        self._usable = False
        for entry in self.store.find(unit.key, reasons.append):
            if not entry.proven and self._is_condemned(entry, None if waited else unit):
                reasons.append(QUARANTINED)
                continue
            try:
                return load(entry)
            except Unloadable as exc:
                reasons.append(str(exc))
                self._usable = self._usable or entry.whole
                if isinstance(exc, InUse):
                    self._twins[unit.key] = self._twins.get(unit.key, 0) + 1
            except Exception as raised:  # noqa: BLE001  an entry that can't be loaded is a miss, whatever the reason
                let_pass(raised)
                self._fault("loading", unit)
                reasons.append("internal error of nbcache")
        for reason in reasons:
            _log.info("skipped an entry of %s %s: %s", unit.name, unit.signature_text, reason)
            self._last_reason = reason
        return None

    def _is_condemned(self, entry: FoundEntry, unit: Unit | RuntimeUnit | WrapperUnit | None = None) -> bool:
        """Whether an entry that nobody is known to have used well is to be passed over; else it is put on trial.

        What was *waited* for was built just now: the *unit* isn't said then, and nobody waits for a place once more,
        least of all with the lease that others wait for.
        """
        from nbcache.glue import calls

        if self._trials is None:
            from nbcache.client.trials import Trials

            self._trials = Trials(self.store)
        called = not len(self.frames) and calls.is_called(getattr(unit, "owner", None))
        if not self._trials.begin(entry, called=called):
            self._condemned.add(entry.header.key)
            function = entry.header.function
            logs.once(_log, logging.WARNING, "skipped an entry of %s because programs crashed with it", function)
            return True
        return False

    def _record(self, unit: Unit) -> None:
        """Add what the program itself asked for to the warm list, if there is one."""
        if self.settings.record is not None and unit.key not in self._recorded:
            from nbcache.client import recording

            self._recorded.add(unit.key)
            recording.append(self.settings.record, unit)

    def _from_others(self, unit: Unit, target_context: Any) -> Any | None:
        """What a daemon builds, or another process is building.

        Only the outermost compilation takes part, so there is no cycle of waiting.
        """
        self.counters.miss(self._last_reason)
        if len(self.frames):
            return None
        if self._others is None:
            from nbcache.client.others import Others

            self._others = Others(self.settings, self.store, self.counters)
        return self._others.find(
            unit, lambda: self._find(unit, target_context, waited=True), self.frames.on_close, is_there=self._usable
        )

    # -- publishing ------------------------------------------------------------------------------

    def _save(self, frame: Frame, unit: Unit, cres: Any) -> None:
        from nbcache.glue import artifacts

        seconds, own, uses, past = self._finished(frame, unit)
        packed = self._pack(
            unit, cres.library, own, lambda: artifacts.pack(unit, frame, cres, self._owners, uses, past)
        )
        if packed is not None:
            self._libraries.setdefault(unit.key, cres.library)
            artifacts.belongs_to(cres.library, unit)
            if len(self.frames) == 1:
                self._record(unit)
                self._keep_request(unit, packed)
            self._publish(unit, frame.build, seconds, packed)

    def _keep_request(self, unit: Unit, packed: Packed) -> None:
        """Say in the entry how to ask for it, so that it can be built again for another toolchain."""
        from nbcache.client import recording

        request = recording.requested(unit, by_value=False) if self.store.writable else None
        if request is not None:
            packed.sections["request"] = request.line()

    def _pack(
        self, unit: Unit | RuntimeUnit | WrapperUnit, library: Any, seconds: float, pack: Callable[[], Packed]
    ) -> Packed | None:
        from nbcache.glue.artifacts import Unstorable, taint

        self.counters.built(unit.key, f"{unit.name} {unit.signature_text}", seconds)
        try:
            return pack()
        except Unstorable as exc:
            reason = str(exc)
            if library is not None and not exc.linkable:
                taint(library, reason)
            self.counters.uncacheable(reason, unit.name)
            _log.debug("%s can't be cached: %s", unit.name, reason)
            return None

    def _publish(self, unit: Unit | RuntimeUnit | WrapperUnit, build: str, seconds: float, packed: Packed) -> None:
        if not self.store.writable:
            return
        from nbcache.glue.witness import looking_away

        header = Header(
            key=unit.key,
            kind=unit.kind,
            function=unit.name,
            signature=unit.signature_text,
            toolchain=self.maker.conditions.summary(),
            compile_seconds=seconds,
            created=time.time(),
            build=build,
            # A twin gets a variant of its own, so that the next process can load both.
            guard=packed.guard + (f"#{self._twins[unit.key]}" if unit.key in self._twins else ""),
            extra=_origin(),
        )
        # Not waiting for the disk: what a power failure tears fails its checksums and is a miss.
        again = True if unit.key in self._condemned else None
        # Nobody else's code takes part, and looking who does takes as long as the system calls.
        with looking_away():
            published = self.store.publish(header, packed.sections, recache=again, durable=False)
        if published.ok:
            self.counters.published(unit.key)
        else:
            self.counters.error("publish")
            logs.once(_log, logging.WARNING, "%s could not be stored: %s", unit.name, published.reason)

    def _remembered(self, key: str) -> Iterator[bytes]:
        """What `_remember` kept under a key."""
        for entry in self.store.find(key):
            content = entry.section("meta")
            if content is not None:
                yield content

    def _remember(self, key: str, variant: str, content: bytes) -> None:
        """Keep for other processes what isn't code: what the packages register that extend Numba."""
        header = Header(
            key=key,
            kind="extensions",
            function="numba_extensions",
            signature="",
            toolchain=self.maker.conditions.summary(),
            compile_seconds=0.0,
            created=time.time(),
            build="",
            guard=variant,
            extra=_origin(),
        )
        if self.store.writable:
            self.store.publish(header, {"meta": content}, durable=False)

    # -- the rest --------------------------------------------------------------------------------

    def _fault(self, doing: str, unit: Unit | RuntimeUnit | WrapperUnit | str | None) -> None:
        name = getattr(unit, "name", "a function")
        self.counters.error(f"fault while {doing}")
        logs.once(_log, logging.WARNING, "internal error while %s %s; compiling without the cache", doing, name)
        _log.debug("traceback of the internal error", exc_info=True)

    def leave(self) -> None:
        """Before the cache is switched off: see to it that what is loaded goes on as if it had been compiled."""
        if self.has_hits:
            try:
                self.history.keep_promises()
                self.maker.choices.leave()
            except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
                let_pass(raised)
                self._fault("switching off", None)

    def finish(self) -> None:
        """At the end of the process: leave a usage record, tidy up the store now and then."""
        if self._trials is not None:
            self._trials.finish()
        # A forked child may come here twice: by atexit, and by multiprocessing, which atexit calls too.
        if self.counters.empty or self._told == os.getpid():
            return
        self._told = os.getpid()
        self.store.write_usage(self.counters.snapshot())
        # Whoever may: in a fleet that only hits, nobody else would.
        self.store.tidy()


def _origin() -> dict[str, object]:
    """Who made an entry, where, and with what. What jobs say of it, a daemon replaces by what it knows."""
    uid = os.geteuid()
    return {"nbcache": __version__, "asked": uid, "built": uid, "host": os.uname().nodename}


def activate(settings: Settings | None, store: Store | None = None) -> None:
    """Start using the store that the settings name, or the one given.  Numba must be imported."""
    global _active  # noqa: PLW0603  one process, one session
    settings = config.load() if settings is None else settings
    if _active is not None and _active.enabled:
        if _active.settings.dir == settings.dir:
            return
        deactivate()
    logs.configure(settings)
    for problem in settings.problems:
        _log.warning("%s", problem)
    if settings.disable or settings.dir is None:
        return
    found = Store.open(settings) if store is None else store
    if isinstance(found, Refusal):
        _log.warning("nbcache stays off: %s", found.reason)
        return
    from nbcache.glue import releases

    # Before anything that needs Numba's internals, which a newer release may not have.
    reason = releases.problem()
    if reason is None:
        from nbcache.glue import forks, seams

        session = ClientSession(settings, found)
        reason = seams.install(session)
    if reason is not None:
        _log.warning("nbcache stays off: %s", reason)
        return
    _active = session
    forks.protect(_in_child, _finish)
    atexit.register(session.finish)


def _in_child() -> None:
    if _active is not None:
        _active.frames.restart()


def _finish() -> None:
    if _active is not None:
        _active.finish()


def forget() -> None:
    """Before this process ends without its exit functions: it leaves no record, and blames nothing that it used."""
    if _active is not None:
        _active.counters = Counters()
        _active.finish()


def deactivate() -> None:
    """Stop using the store in this process."""
    if _active is not None and _active.enabled:
        from nbcache.glue import seams

        _active.leave()
        _active.enabled = False
        seams.remove()
        _active.finish()
        atexit.unregister(_active.finish)


def stats() -> dict[str, Any]:
    """This process's counts, or those of an unused cache."""
    return (_active.counters if _active is not None else Counters()).snapshot()
