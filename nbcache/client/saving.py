"""Saving what this process compiled: into the store, for everybody."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from nbcache import __version__, config
from nbcache.client.logs import log, once
from nbcache.passing_exceptions import let_pass
from nbcache.process import os, time
from nbcache.store import first_askers, reasons
from nbcache.store.entry import BESIDE, Header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nbcache.client.lookup import Lookup
    from nbcache.client.profiling import Profiler
    from nbcache.counting import Counters
    from nbcache.glue.capture.compilations import Frame, FrameStack
    from nbcache.glue.cuda.units import CudaUnit
    from nbcache.glue.entries.meta import Packed
    from nbcache.glue.entries.wrappers import RuntimeUnit, WrapperUnit
    from nbcache.glue.keys.key_maker import KeyMaker
    from nbcache.glue.keys.units import Unit
    from nbcache.glue.overloads.history import History
    from nbcache.glue.overloads.uses import Uses
    from nbcache.protocol.requests import Request
    from nbcache.store.directory import Store


class Saving:
    """What one process adds to one store."""

    def __init__(
        self,
        store: Store,
        maker: KeyMaker,
        history: History,
        frames: FrameStack,
        *,
        counters: Counters,
        lookup: Lookup,
        writes_profile: bool,
    ) -> None:
        self._store = store
        self._maker = maker
        self._history = history
        self._frames = frames
        self._counters = counters
        self._lookup = lookup
        self._unstored: dict[str, Callable[[], None]] = {}
        """By key, what stores what was compiled to check a hit."""
        self._writes_profile = writes_profile
        self._profiler: Profiler | None = None

    def result(self, frame: Frame, unit: Unit, cres: Any) -> bool:
        """The compilation of *frame*, the innermost one, succeeded; return whether that can be an entry."""
        from nbcache.glue import own_attributes
        from nbcache.glue.entries import pack

        seconds, own = self._finished(frame)
        owners = self._lookup.owners
        library = cres.library
        packed = self._pack(
            unit, library, own, lambda: pack.pack(unit, frame, cres, owners, *self._built_upon(frame, unit, library))
        )
        if packed is not None:
            self._lookup.libraries.setdefault(unit.key, cres.library)
            own_attributes.belongs_to(cres.library, unit)
            try:
                self._note(frame, unit, packed, own)
            except Exception as raised:  # noqa: BLE001  what is noted is of use to others; the entry is of use without it
                let_pass(raised)
                self._counters.error("profile")
                log.debug("%s can't be noted in a profile", unit.name, exc_info=True)
            self._publish(unit, frame.build, seconds, packed)
        return packed is not None

    def kernel(self, frame: Frame, unit: CudaUnit, pack: Callable[[], Packed]) -> bool:
        """The compilation of *frame*, for a GPU, succeeded; return whether what *pack* gives can be an entry."""
        seconds, own = self._finished(frame)
        packed = self._pack(unit, None, own, pack)
        if packed is not None:
            if len(self._frames) == 1 and self._store.writable:
                from nbcache.client import recording

                _keep_request(packed, recording.noted(unit, None))
            self._publish(unit, frame.build, seconds, packed)
        return packed is not None

    def literals_requested(self, frame: Frame, unit: Unit, positions: tuple[int, ...]) -> None:
        """The compilation of *frame* asked for the arguments at *positions* as literals instead."""
        from nbcache.glue.entries import meta, pack

        seconds, own = self._finished(frame)
        request = meta.LiteralsRequested(positions)
        packed = self._pack(
            unit, None, own, lambda: pack.pack_request(unit, frame, request, *self._built_upon(frame, unit))
        )
        if packed is not None:
            self._publish(unit, frame.build, seconds, packed)

    def library(self, unit: RuntimeUnit | WrapperUnit, library: Any, name: str, seconds: float) -> None:
        """A library was built in *seconds*; *name* is the function in it that is wanted."""
        from nbcache.glue.entries import pack

        packed = self._pack(unit, library, seconds, lambda: pack.pack_library(unit, library, name))
        if packed is not None:
            self._publish(unit, "", seconds, packed)

    def remembered(self, key: str) -> Iterator[bytes]:
        """What `remember` kept under a key; where nothing was, what other hosts kept."""
        is_told = False
        for content in self.remembered_here(key):
            is_told = True
            yield content
        remote = None if is_told else self._lookup.remote()
        asked = remote.fetch(key, nested=False) if remote is not None else None
        while remote is not None and asked is not None and asked.state == reasons.CAME:
            remote.saved(max((entry.header.compile_seconds for entry in self._store.find(key)), default=0.0), asked)
            yield from self.remembered_here(key)
            asked = remote.fetch(key, nested=False, slot=asked.slot + 1)

    def remembered_here(self, key: str) -> Iterator[bytes]:
        """What `remember` kept under a key in this store."""
        for entry in self._store.find(key):
            # Another user who shares the daemon may have written down what he liked: all keys follow from it.
            if not first_askers.is_ones_own(entry.header, self._store.path):
                continue
            content = self._lookup.noted(entry).section("meta")
            if content is not None:
                yield content

    def remember(
        self, key: str, variant: str, content: bytes, seconds: float, *, here: bool, what: str = "numba_extensions"
    ) -> None:
        """Keep for other processes what isn't code: what packages register that extend Numba, what files contain.

        It took so long to find out [s], and is of use only *here*, or on other hosts as well.
        """
        header = Header(
            key=key,
            kind="extensions",
            function=what,
            signature="",
            toolchain=self._maker.conditions.summary(),
            compile_seconds=seconds,
            created=time.time(),
            build="",
            guard=variant,
            extra={**self._origin(), **({"here": True} if here else {})},
        )
        if self._store.writable and self._store.publish(header, {"meta": content}, durable=False).ok and not here:
            self._offer(key)

    def _finished(self, frame: Frame) -> tuple[float, float]:
        """Seconds in all and on its own, of a compilation that ends."""
        from nbcache.glue.capture import witness

        seconds = self._frames.finished()
        witness.settle(frame)
        return seconds

    def _built_upon(self, frame: Frame, unit: Unit, library: Any = None) -> tuple[Uses, str]:
        """The uses of a compilation that ends, and the past that they need.  Raises Unidentifiable."""
        from nbcache.glue.capture.placeholders import tokens_in
        from nbcache.glue.entries.pack import note_other_halves
        from nbcache.glue.entries.pickling import can_be_named
        from nbcache.glue.overloads import effects
        from nbcache.glue.overloads.uses import uses_of

        bound: set[str] = set()
        if library is not None:
            library._ensure_finalized()  # noqa: SLF001  the only name it has
            bound = tokens_in(library._get_compiled_object())  # noqa: SLF001
            if len(self._frames) > 1:
                note_other_halves(self._frames, library, self._lookup.owners)
        self._maker.close(frame)
        unit.meets(self._maker.extensions.relevant(frame.consulted.packed))
        unit.answered(frame.consulted.asks)
        done = [effect for effect in frame.effects.values() if (effect.obj, effect.args) != (unit.owner, unit.args)]
        effects.remember(unit.owner, unit.args, lambda: done)
        uses = uses_of(unit, done, lambda args: can_be_named(args, frame), bound)
        self._history.built(unit, uses)
        return uses, self._history.guard(uses)

    def _pack(
        self, unit: Unit | RuntimeUnit | WrapperUnit, library: Any, seconds: float, pack: Callable[[], Packed]
    ) -> Packed | None:
        from nbcache.glue.entries.verdicts import Unstorable
        from nbcache.glue.identity.differences import CHANGED
        from nbcache.glue.identity.node import Unidentifiable
        from nbcache.glue.own_attributes import taint

        self._counters.built(unit.key, f"{unit.name} {unit.signature_text}", seconds)
        reason, linkable, packed = "", False, None
        try:
            with self._maker.engine.aside():
                packed = pack()
        except Unstorable as exc:
            reason, linkable = str(exc), exc.linkable
        except Unidentifiable as exc:  # it could be identified when its key was made
            reason = f"{CHANGED} ({exc})"
        self._maker.marked.account(unit, reason)
        if packed is not None:
            return packed
        if library is not None and not linkable:
            taint(library, reason)
        self._lookup.stays_open(unit)
        self._counters.uncacheable(reason, unit.name)
        # Of all reasons this one is found nowhere in the source of the function.
        say = log.info if reason.startswith(CHANGED) else log.debug
        say("%s can't be cached: %s", unit.name, reason)
        return None

    @property
    def seconds(self) -> float:
        """How long this process has compiled so far, as its profile has it [s]."""
        return 0.0 if self._profiler is None else self._profiler.seconds

    def finish(self) -> None:
        """At the end of the process: leave what was compiled to others who will run its program."""
        if self._profiler is not None:
            self._profiler.write(at_end=True)

    def _note(self, frame: Frame, unit: Unit, packed: Packed, seconds: float) -> None:
        """Keep how to ask for what took so long to compile by itself [s]: in its entry, and for the program's
        profile.
        """
        from nbcache.client import profiling, recording
        from nbcache.glue.capture.witness import looking_away

        is_outermost = len(self._frames) == 1
        is_kept = is_outermost and self._store.writable
        if not (is_kept or self._writes_profile):
            return
        is_worth = self._writes_profile and is_outermost and seconds >= profiling.BY_VALUE_SECONDS
        request = recording.noted(unit, self._counters if is_worth else None)
        if is_kept:
            _keep_request(packed, request)
        if not self._writes_profile:
            return
        if self._profiler is None:
            self._profiler = profiling.Profiler(self._store, self._maker, self._counters)
        self._profiler.compiled(frame, unit, request, seconds)
        if is_outermost:
            # What is read for that is no part of what is compiled.
            with looking_away():
                self._profiler.write(at_end=False)

    def store_checked(self, key: str) -> None:
        """Store what was compiled to check a hit, in the place of the entry: somebody refers to this build."""
        unstored = self._unstored.pop(key, None)
        if unstored is not None:
            unstored()

    def _publish(self, unit: Unit | RuntimeUnit | WrapperUnit, build: str, seconds: float, packed: Packed) -> None:
        if self._lookup.settles(unit, packed):
            self._unstored[unit.key] = functools.partial(self._put, unit, build, seconds, packed, again=True)
        else:
            self._put(unit, build, seconds, packed, again=True if unit.key in self._lookup.condemned else None)

    def _put(
        self,
        unit: Unit | RuntimeUnit | WrapperUnit,
        build: str,
        seconds: float,
        packed: Packed,
        *,
        again: bool | None,
    ) -> None:
        """Store an entry; *again*, also where there is one, None if the settings say that."""
        if not self._store.writable:
            return
        from nbcache.glue.capture.witness import looking_away
        from nbcache.glue.keys import targets

        twins, space = self._lookup.twins, config.namespace()
        made_for = packed.extra
        if made_for is None:
            made_for = {"cpu": targets.name(), **({} if packed.strict is None else {"strict": packed.strict})}
        header = Header(
            key=unit.key,
            kind=unit.kind,
            function=unit.name,
            signature=unit.signature_text,
            toolchain=self._maker.conditions.summary() if packed.extra is None else unit.summary(),  # type: ignore[union-attr]
            compile_seconds=seconds,
            created=time.time(),
            build=build,
            # A twin gets a variant of its own, so that the next process can load both.
            guard=packed.guard + (f"#{twins[unit.key]}" if unit.key in twins else ""),
            extra={**self._origin(), **made_for, **({"namespace": space} if space else {})},
        )
        # Not waiting for the disk: what a power failure tears fails its checksums and is a miss.
        # Nobody else's code takes part, and looking who does takes as long as the system calls.
        with looking_away():
            published = self._store.publish(header, packed.sections, recache=again, durable=False)
        if published.ok:
            self._counters.published()
            self._offer(unit.key)
        else:
            self._counters.error("publish")
            once("%s could not be stored: %s", unit.name, published.reason)

    def _offer(self, key: str) -> None:
        remote = self._lookup.remote()
        if remote is not None:
            remote.offer(key)

    def _origin(self) -> dict[str, object]:
        """Who made an entry, where, and with what. What jobs say of that, a daemon replaces by what it knows."""
        uid = os.geteuid()
        origin: dict[str, object] = {"nbcache": __version__, "asked": uid, "built": uid, "host": os.uname().nodename}
        if self._lookup.beside:
            origin[BESIDE] = [[list(each) for each in group] for group in sorted(self._lookup.beside)]
        return origin


def _keep_request(packed: Packed, request: Request | None) -> None:
    """Say in an entry how to ask for it, so that it can be built again for another toolchain."""
    if request is not None and request.value is None:
        packed.sections["request"] = request.line()
