"""What Numba asks of the client: look up, load, or compile once and publish.

Whatever goes wrong in here is a logged miss.  No exception reaches the compilation that asked, and
nothing is waited for longer than `nbcache.client.waiting_account` allows.
"""

from __future__ import annotations

import functools
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from nbcache.client.logs import log, once
from nbcache.client.open_files import Journal
from nbcache.counting import Counters
from nbcache.passing_exceptions import let_pass, suppressed
from nbcache.process import os, time
from nbcache.store import reasons

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeVar

    from nbcache.client.elsewhere import Elsewhere
    from nbcache.client.lookup import Found
    from nbcache.client.remote import Remote
    from nbcache.client.saving import Saving
    from nbcache.config import Settings
    from nbcache.glue.entries.wrappers import RuntimeUnit, WrapperUnit
    from nbcache.glue.keys.units import Unit
    from nbcache.store.directory import Store
    from nbcache.store.entry import Entry

    U = TypeVar("U", bound=Unit)


class ClientSession:
    """Implements `nbcache.glue.hooks.policy.Session` over a store."""

    def __init__(self, settings: Settings, store: Store) -> None:
        # Whoever asks for a session needs these, which need internals of Numba's.
        from nbcache.client.lookup import Lookup
        from nbcache.glue import own_attributes
        from nbcache.glue.identity.node import Unidentifiable
        from nbcache.glue.keys.key_maker import KeyMaker, frame_stack
        from nbcache.glue.keys.units import unit_for
        from nbcache.glue.overloads.history import History

        self._unit_for, self._unidentifiable, self._marks = unit_for, Unidentifiable, own_attributes
        self.settings = settings
        self.store = store
        self.maker = KeyMaker()
        self.frames = frame_stack(self.maker)
        self.history = History(self.maker)
        self._journal = Journal(store.path) if store.journals else None
        self.counters = Counters() if self._journal is None else Counters(self._journal.note)
        self.enabled = True
        kind = Lookup
        if settings.check:
            from nbcache.client.checking import CheckedLookup as kind  # noqa: N813
        self.lookup = kind(
            store,
            self.maker,
            self.history,
            self.frames,
            counters=self.counters,
            fault=self.fault,
            settings=settings,
            remote=self._reach_out if settings.remote and store.writable else None,
        )
        # Asked for where packages extend Numba, which is where publishing begins to be needed.
        self.maker.installed.recall = lambda key: self.saving.remembered(key)  # noqa: PLW0108
        self.maker.installed.remember = lambda *found: self.saving.remember(*found, here=False)
        self.maker.distributions.recall = lambda key: self.saving.remembered_here(key)  # noqa: PLW0108
        self.maker.distributions.remember = lambda *found: self.saving.remember(
            *found, here=True, what="installed files"
        )
        # Unless its import noted Numba's files: the sooner they are looked at, the surer they are what was imported.
        self.maker.conditions.look_at_files()
        self.elsewhere: Elsewhere | None = None
        """Whom this process shares its compiling with; None before the first miss."""
        self._told, self._recorded = 0, set[str]()

    @functools.cached_property
    def saving(self) -> Saving:
        """What this process adds to the store."""
        from nbcache.client.saving import Saving  # a process that only hits publishes nothing

        writes_profile = self.store.journals and not self.settings.readonly
        return Saving(
            self.store, self.maker, self.history, self.frames,
            counters=self.counters, lookup=self.lookup, writes_profile=writes_profile,
        )  # fmt: skip

    def _reach_out(self) -> Remote:
        from nbcache.client.remote import Remote  # a process that only hits never needs it

        return Remote(self.settings, self.counters)

    @property
    def cache_path(self) -> str | None:
        """The store's directory."""
        return self.store.path if self.enabled else None

    @property
    def has_hits(self) -> bool:
        """Whether anything was loaded, and so possibly nothing of Numba's registries was."""
        return self.lookup.has_hits

    def entries(self, key: str) -> Iterator[Entry]:
        """Yield each entry of a key that may be used here, in the store or in a layer under it."""
        return self.lookup.entries(key)

    def load(self, owner: Any, sig: Any, target_context: Any) -> Any | None:
        """A CompileResult or LiteralsRequested, or None: see :meth:`find`."""
        look_up = functools.partial(self.lookup.overload, target_context=target_context)
        return self.find(functools.partial(self._identify, owner, sig), look_up)

    def _identify(self, owner: Any, sig: Any) -> Unit:
        self.maker.prepare()
        return self._unit_for(self.maker, self.frames, owner, sig)

    def find(self, identify: Callable[[], U], look_up: Callable[..., Found], what: str = "a function") -> Any | None:
        """What *look_up* finds for the unit that *identify* returns, or None with a frame opened for the compilation
        that follows.

        *identify* may raise Unidentifiable. Raises what a warning's filters say has to be raised.
        """
        if not self.enabled or self.frames.aside:
            return None
        unit: U | None = None
        try:
            try:
                unit = identify()
                unit.key  # noqa: B018  computed here so that it is known to exist
            except self._unidentifiable as exc:
                self.open_frame(None, reason=self.uncacheable(exc, unit, what))
                return None
            owed = self.history.identified(unit) if unit.kind == "dispatcher" else None
            if owed is not None:
                unit.stands_for(owed)
            found = look_up(unit)
            if found.result is None and unit.of_the_past:
                self._lose(unit, found)
                return None
            if found.result is None and not found.is_checked:
                found = self.from_elsewhere(unit, functools.partial(look_up, unit, waited=True), found)
            if found.result is None:
                self.open_frame(unit)
            elif not len(self.frames):
                self.record(unit)
            if found.result is not None and self.elsewhere is not None:
                self.elsewhere.ready(unit)
        except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
            let_pass(raised)
            self.fault("looking up", unit)
            self.open_frame(None, reason=reasons.INTERNAL)
            return None
        return found.with_warnings()

    def _lose(self, unit: Unit, missed: Found) -> None:
        """An overload that a hit promised, and what it was made from is no more: open a frame; better than none."""
        from nbcache.glue.identity.dispatcher_past import lose

        log.info(
            "%s: compiling an overload that a loaded function relied on and that can no longer be loaded", unit.name
        )
        if not missed.is_checked:
            self.counters.miss(missed.reason)
        lose(unit.owner, unit.args)
        # Callers can't be stored either: they would pass for what was built upon the one that is lost.
        self.open_frame(None, reason="what it was made from changed", taint=True)

    def from_elsewhere(self, unit: Unit, look_up: Callable[[], Found], missed: Found) -> Found:
        """What a daemon builds, or another process is building; *look_up* finds it then.

        Only the outermost compilation takes part, so there is no cycle of waiting; or each, where others compile all
        that the program needs (:mod:`nbcache.client.cold_start`).
        """
        nested = len(self.frames) > 0
        if self.elsewhere is None and not nested:
            from nbcache.client.elsewhere import Elsewhere

            self.elsewhere = Elsewhere(self.settings, self.store, self.counters)
        found, is_there = None, missed.is_usable
        if self.elsewhere is not None and not nested:
            self.elsewhere.missed(unit, self.saving.seconds)
        if self.elsewhere is not None and (not nested or self.elsewhere.shares):
            found = self.elsewhere.find(unit, lambda: look_up().there(), self.frames.on_close, is_there=is_there)
        if found is None:  # who was served in the end has a hit, and missed nothing
            self.counters.miss(missed.reason)
        return found or missed

    def open_frame(self, unit: Unit | None, *, reason: str = "", taint: bool = False) -> None:
        """Open a frame for the compilation that follows; of what has no identity, *reason* says why.

        With *taint*, its code may become part of no entry of a caller.

        Where even that fails, for want of descriptors to import what listens, say, that compilation has no frame, and
        whoever uses its result finds that nothing is known of it.
        """
        try:
            from nbcache.glue.capture.compilations import Frame, new_build

            frame = Frame(unit, new_build("0" * 12 if unit is None else unit.key), reason=reason)
            frame.taint = reason if taint else ""
            if unit is not None:
                self.lookup.owners[frame.build] = unit.key
            self.frames.push(frame)
        except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
            let_pass(raised)
            self.fault("looking up", unit)
            outer = self.frames.top()
            if outer is not None:  # what is compiled inside would pass for it
                outer.taint = outer.taint or reasons.INTERNAL

    def load_block(self, lifted: Any, args: tuple[Any, ...]) -> Any | None:
        """The same for an ``objmode`` block; no frame is opened for one that can't be told from others."""

        def identify() -> Unit | None:
            from nbcache.glue.entries.pickling import origin_of
            from nbcache.glue.keys.units import LiftedUnit

            origin = origin_of(lifted, self.frames.top())
            return None if origin is None else LiftedUnit(self.maker, self.frames, lifted, args, origin)

        return self._load_unit(identify, lifted.targetctx)

    def stencil(self, stencil: Any, args: tuple[Any, ...], out: bool, build: Callable[[], Any]) -> Any:
        """A CompileResult for a stencil that is called from Python, loaded or what *build* returns."""

        def identify() -> Unit | None:
            from nbcache.glue.keys.units import StencilUnit

            self.maker.prepare()
            return StencilUnit(self.maker, self.frames, stencil, args, out=out)

        depth = len(self.frames)
        cres = self._load_unit(identify, stencil._targetctx)  # noqa: SLF001  the only name it has
        if cres is not None:
            with self.faults("loading"):
                from nbcache.glue.entries.load import settle_stencil

                settle_stencil(stencil, cres)
                return cres
        cres = build()
        if len(self.frames) > depth:
            self.save(cres)
        return cres

    def _load_unit(self, identify: Callable[[], Unit | None], target_context: Any) -> Any | None:
        """A CompileResult, or None, with a frame opened if there is a unit to publish."""
        if not self.enabled or self.frames.aside:
            return None
        unit = None
        try:
            from nbcache.glue.capture.compilations import Frame, new_build

            try:
                unit = identify()
                if unit is None:
                    return None
                unit.key  # noqa: B018  computed here so that it is known to exist
            except self._unidentifiable as exc:
                self.uncacheable(exc, unit)
                return None
            found = self.lookup.overload(unit, target_context)
            if found.result is None:
                if not found.is_checked:
                    self.counters.miss(found.reason)
                self.frames.push(Frame(unit, new_build(unit.key)))
        except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
            let_pass(raised)
            self.fault("looking up", unit)
            return None
        return found.with_warnings()

    def save(self, cres: Any) -> None:
        """The compilation of the innermost frame succeeded: publish it."""
        frame = self.frames.top()
        if frame is None:
            return
        # Also where the cache was switched off meanwhile: the code refers to it.
        self._marks.hold(cres.library, frame.held)
        if not self.enabled:
            return
        unit = cast("Unit | None", frame.unit)
        try:
            if not frame.portable or (unit is None and frame.taint):
                self._marks.taint(cres.library, frame.taint or frame.reason)
            elif unit is None:
                return
            else:
                stored = self.saving.result(frame, unit, cres)
                if stored and len(self.frames) == 1:
                    self.record(unit)
        except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
            let_pass(raised)
            self._marks.taint(cres.library, reasons.INTERNAL)
            self.fault("publishing", unit)
        if unit is not None:
            unit.forget()

    def literals_requested(self, owner: Any, positions: Iterable[int]) -> None:
        """The compilation of the innermost frame asked for literals instead: publish that."""
        frame = self.frames.top()
        unit = cast("Unit | None", frame.unit) if frame is not None else None
        if not self.enabled or frame is None or unit is None or unit.owner is not owner:
            return
        with self.faults("publishing", unit):
            self.saving.literals_requested(frame, unit, tuple(sorted(positions)))

    def loaded(self, owner: Any, entry_point: Any) -> Any:
        """The outermost compilation for *owner* is over: return what is to be called in the place of *entry_point*."""
        try:
            return self.lookup.loaded(owner, entry_point)
        except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
            let_pass(raised)
            self.fault("trying an entry", None)
            return entry_point

    def wrapper(self, kind: str, cres: Any, signature: Any, shape: object, build: Callable[[], Any]) -> Any:
        """A ufunc wrapper: (library, environment, name), loaded, or built by *build* and published."""
        if not self.enabled:
            return build()
        unit = None

        def build_again() -> Any:
            # The kernel may be a hit, which initialises nothing; building needs Numba's registries.
            cres.target_context.refresh()
            library = build().library
            finish(library)
            return library

        try:
            from nbcache.glue.entries.wrappers import WrapperUnit, finish, wrappable, wrapper_info

            with suppress(self._unidentifiable):
                unit = WrapperUnit(self.maker, kind, cres, signature, shape) if wrappable(cres) else None
            found = self.lookup.library(unit, build_again).result if unit is not None else None
            if unit is not None and found is not None:
                self._marks.keep_wrapper(cres.library, kind, (unit, *found))
                return wrapper_info(cres, *found)
        except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
            let_pass(raised)
            unit = None
            self.fault("looking up", None)
        started = time.perf_counter()
        # The kernel may be a hit, which initialises nothing; building needs Numba's registries.
        cres.target_context.refresh()
        info = build()
        if unit is not None:
            with self.faults("publishing"):
                finish(info.library)
                self._marks.keep_wrapper(cres.library, kind, (unit, info.library, info.name))
                self.saving.library(unit, info.library, info.name, time.perf_counter() - started)
        return info

    def runtime(self, target_context: Any, build: Callable[[], Any]) -> Any:
        """The library of Numba's runtime, loaded, or built by *build* and published."""
        unit = None
        try:
            if self.enabled:
                from nbcache.glue.entries.wrappers import RuntimeUnit

                with suppress(self._unidentifiable):
                    unit = RuntimeUnit(self.maker, target_context)
            if unit is not None:
                found = self.lookup.library(unit, build).result
                if found is not None:
                    return found[0]
        except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
            let_pass(raised)
            self.fault("looking up", unit)
            unit = None
        started = time.perf_counter()
        library = build()
        if unit is not None:
            with self.faults("publishing", unit):
                self.saving.library(unit, library, "", time.perf_counter() - started)
        return library

    def uncacheable(self, why: Exception, unit: Unit | None, what: str = "a function") -> str:
        """Count what has no identity, and of which there may be no unit; return why."""
        reason, name = str(why), what if unit is None else unit.name
        self.counters.uncacheable(reason, name)
        log.debug("%s can't be cached: it depends on %s", name, reason)
        return reason

    def record(self, unit: Unit) -> None:
        """Add what the program itself asked for to the warm list, if there is one."""
        if self.settings.record is not None and unit.key not in self._recorded:
            from nbcache.client import recording

            self._recorded.add(unit.key)
            recording.append(self.settings.record, unit)

    def fault(self, doing: str, unit: Unit | RuntimeUnit | WrapperUnit | str | None) -> None:
        """Count an exception of ours, which is being handled, and say so once; what keeps it from that is no matter."""
        name = getattr(unit, "name", "a function")
        self.counters.error(f"fault while {doing}")
        with suppressed(Exception):  # a handler of the program's may raise what it likes
            once("internal error while %s %s; compiling without the cache", doing, name)
            log.debug("traceback of the internal error", exc_info=True)

    @contextmanager
    def faults(self, doing: str, unit: Unit | RuntimeUnit | None = None) -> Iterator[None]:
        """What goes wrong inside is a fault, and the program goes on."""
        try:
            yield
        except Exception as raised:  # noqa: BLE001  whatever it is
            let_pass(raised)
            self.fault(doing, unit)

    def leave(self) -> None:
        """Before the cache is switched off: see to it that what is loaded goes on as if it had been compiled."""
        if self.has_hits:
            with self.faults("switching off"):
                self.history.keep_promises()
                self.maker.choices.leave()
                self.lookup.load_rest()

    def finish(self) -> None:
        """At the end of the process: complete its usage record, tidy up the store now and then."""
        try:
            self._finish()
        except Exception as raised:  # noqa: BLE001  Python would print it among what the program says
            let_pass(raised)
            log.debug("traceback of the internal error", exc_info=True)

    def _finish(self) -> None:
        self.lookup.finish()
        if "saving" in vars(self):  # else nothing was compiled
            self.saving.finish()
        # A forked child may come here twice: by atexit, and by multiprocessing, which atexit calls too.
        if self.counters.empty or self._told == os.getpid():
            return
        self._told = os.getpid()
        if self._journal is None:
            self.store.write_usage(self.counters.snapshot())
        else:
            self._journal.end()
        # Whoever may: in a fleet that only hits, nobody else would.
        self.store.tidy()
