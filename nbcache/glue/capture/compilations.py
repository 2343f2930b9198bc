"""What is being compiled right now, and the names its symbols get.

Numba mangles a process-wide counter into symbol names, so two processes give one name to two
bodies, and whoever links objects of both gets the wrong one, silently (numba#10486).  While a
frame is open the counter yields huge numbers instead: the frame's *build id*, which starts with the
key and goes on with random bytes, and an ordinal.  The random part is deliberate: nested subroutines
are cached by Numba across compilations, so what an ordinal stands for depends on the history of
the process; a name that no other build can have needs no such argument.
"""

from __future__ import annotations

import itertools
import re
import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nbcache.passing_exceptions import let_pass
from nbcache.process import os, time
from nbcache.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nbcache.glue.capture.code_that_ran import Running
    from nbcache.glue.capture.roles import Listener, OpenUnit, PausedListener, Registrar
    from nbcache.glue.identity.asked_names import Consulted, Names
    from nbcache.glue.identity.counterparts import Reach
    from nbcache.glue.identity.dispatcher_past import Given


class Effect(Record):
    """What a compilation used, and so made: an overload or a loop.

    ``kind``: "dispatcher" or "ufunc"; ``obj``: who has it.  Or
    "implementation": then ``obj`` is the function that chose it for an ``@overload``.  Or "stencil":
    then ``return_type`` is the neighborhood that was found.
    """

    kind: str
    obj: Any
    args: tuple[Any, ...]
    return_type: Any
    given: Given
    fresh: bool


class Caveat(Record):
    """One warning.

    ``text``: the message, or that of a Numba warning without the place; ``place``: (filename, line,
    column, at a decorator) of a Numba warning; ``module``: whose registry says what was shown
    before, None for one that is shown each time; ``by``: the key of the unit that was compiled, the innermost
    one, "" if a hit runs again what gave it.
    """

    category: type[Warning]
    text: str
    place: tuple[str, int, int | None, bool] | None
    filename: str
    line: int
    module: str | None
    by: str


class Frame:
    """One compilation.

    ``unit`` is None for a function without an identity of its own.  Inside an identified caller
    (``outer``) it still is a consequence of the caller's key, like the subroutines that Numba
    compiles without a dispatcher, and its code may become part of the caller's entry.
    """

    def __init__(self, unit: OpenUnit | None, build: str, reason: str = "", *, aside: bool = False) -> None:
        self.unit = unit
        self.aside = aside
        """Whether it is compiled for somebody else's cache, whatever uses it: then so is all that it uses."""
        self.build = build
        self.reason = reason
        self.consulted: Consulted = None  # type: ignore[assignment]
        """What was asked for so far; from when the frame is opened."""
        self.outer: Frame | None = None
        self.started = time.perf_counter()
        self.nested = 0.0
        """What the compilations inside this one took [s]."""
        self.blocks: Iterator[int] = itertools.count()
        """Numbers for the blocks that are lifted out of the function."""
        self.ordinals: Iterator[int] = itertools.count()
        self.taint = ""
        self.release: Callable[[], None] | None = None
        self.held: list[object] = []
        """What the code compiled here refers to and must not outlive."""
        self.closures: list[Any] = []
        """Dispatchers that Numba made of closures in this function."""
        self.addresses: dict[int, str] = {}
        self.locations: dict[tuple[str, str, int], object] = {}
        self.references: dict[int, tuple[tuple[str, str], object]] = {}
        """Token and name of an object, by its id."""
        self.effects: dict[tuple[str, Any, tuple[Any, ...]], Effect] = {}
        """The first use counts: later ones are its consequences."""
        self.caveats: list[Caveat] = []
        self.heard: set[str] = set()
        """The keys of units whose warnings are among these, or will be."""
        self.filters: object = warnings.filters
        """The filters of warnings when the frame was opened."""
        self.generators = b""
        """The states of generators of random numbers when the frame was opened, where somebody may draw some."""
        self.others_may_run = True
        """Whether code of others may run while it is compiled, by what is registered and by what its unit reaches."""
        self.away = 0
        """Whether nobody watched what is read when the frame was opened (witness.py)."""

    @property
    def reach(self) -> Reach | None:
        """What the unit reaches, walked when first asked for."""
        return self.reaching(self.consulted.names)

    def reaching(self, names: set[bytes]) -> Reach | None:
        """The same with what others have registered for *names*."""
        if self.unit is not None:
            try:
                self.unit.answered(self.consulted.asks)  # what was chosen so far is nearer than all that is registered
                return self.unit.reaching(names)
            except Exception as raised:  # noqa: BLE001  what has changed into something that nobody can identify
                let_pass(raised)
                from nbcache.glue.identity.differences import CHANGED

                self.taint = self.taint or f"{CHANGED} ({raised})"
                return None
        return None if self.outer is None else self.outer.reaching(names | self.outer.consulted.names)

    @property
    def refusal(self) -> str:
        """Why it can't become an entry, as far as that is known by now; "" if nothing is."""
        return self.taint or self.consulted.conflict

    @property
    def portable(self) -> bool:
        """Whether code compiled here may end up in an entry."""
        return self.unit is not None or (not self.aside and self.outer is not None and self.outer.portable)


def new_build(key: str) -> str:
    """A build id for *key*: 24 hex digits, 48 random bits."""
    return key[:12] + os.urandom(6).hex()


class FrameStack(threading.local):
    """The frames that the thread which asks has open, outermost first.

    What is open belongs to the thread that opened it: another thread that pickles, warns or makes a
    name meanwhile finds nothing open, and a forked child that is another thread's has no frames of
    it.  *listeners* makes, once for each thread, what notes warnings while a frame is open, and what notes reasons not
    to cache. *maker* knows what is registered.
    """

    def __init__(self, listeners: Callable[[FrameStack], tuple[Listener, PausedListener]], maker: Registrar) -> None:
        self._maker = maker
        self._frames: list[Frame] = []
        self._floor = 0
        self._pending: Callable[[], None] | None = None
        self._anonymous = _anonymous_names()
        self._new_listeners = listeners
        self._watch: Listener | None = None
        self._witness: PausedListener | None = None
        self._running: Running | None = None

    def __len__(self) -> int:
        return len(self._frames)

    def top(self) -> Frame | None:
        """The innermost open frame."""
        frames = self._frames  # of a thread: to look it up costs as much as all else here
        return frames[-1] if frames else None

    @property
    def aside(self) -> bool:
        """Whether what is being compiled is for somebody else's cache."""
        frames = self._frames
        return bool(frames) and frames[-1].aside

    def asked(self, generation: int) -> Names | None:
        """What the innermost open frame asked for at *generation*, to add to (`Consulted`); None if none is open."""
        frames = self._frames
        return frames[-1].consulted.asked_at[generation] if frames else None

    def listening(self) -> Iterator[tuple[Frame, str]]:
        """The open frames, innermost first, each with the key of what is compiled, "" if its hits do that again."""
        away = 0 if self._witness is None else self._witness.paused
        units = self.units()
        by = units[-1].key if units else ""
        for frame in reversed(self._frames):
            yield frame, "" if away else by
            # A hit compiles the loops that its ufuncs lack.
            away = away or frame.away or (frame.unit is not None and frame.unit.kind == "ufunc")

    def key_of(self, owner: object, args: tuple[Any, ...]) -> str:
        """The key of what is being compiled for *owner*, "" if nothing is: the other half of a recursion."""
        return next((unit.key for unit in self.units() if unit.args == args and unit.owner is owner), "")

    def units(self) -> list[Any]:
        """The units that are being compiled, outermost first."""
        return [frame.unit for frame in self._frames if frame.unit is not None]

    def push(self, frame: Frame) -> None:
        """Open *frame*."""
        frame.outer = self.top()
        if frame.outer is None:
            from nbcache.glue.capture.code_that_ran import running

            self._running = running
            running.set_out()
        frame.consulted = self._maker.new_consulted(frame)
        if not frame.portable:  # nor can what finds it compiled later, so what it asks for is no matter
            frame.consulted.conflict = frame.reason or "nobody knows what it was made of"
        if frame.outer is None:
            if self._watch is None or self._witness is None:
                self._watch, self._witness = self._new_listeners(self)
            self._watch.start()
            _watching[threading.get_ident()] = (self._watch, self._witness)
        if frame.others_may_run:  # else there is nobody to look at, and Python tells of a lot
            self._witness.start()  # type: ignore[union-attr]
        # What is compiled while somebody looks away is an entry of its own, and what it reads counts.
        frame.away, self._witness.paused = self._witness.paused, 0  # type: ignore[union-attr]
        if frame.unit is not None:
            for outer in self._frames:
                outer.heard.add(frame.unit.key)
        self._frames.append(frame)
        frame.release, self._pending = self._pending, None

    def on_close(self, release: Callable[[], None]) -> None:
        """Call *release* when the frame that is opened next has closed, or if it is never opened."""
        self._pending = release

    def pop_to(self, depth: int) -> Consulted | None:
        """Close whatever was opened above *depth*; a compilation that raised leaves frames behind.

        Returns what the outermost of these asked for, None if there was nothing to close.
        """
        consulted = None
        while len(self._frames) > depth:
            frame = self._frames.pop()
            release, consulted = frame.release, frame.consulted
            consulted.caveats = frame.caveats
            if self._witness is not None:
                self._witness.paused = frame.away
            if not consulted.packed:
                self._maker.close(frame)
            if len(self._frames) > self._floor:
                self._frames[-1].consulted.include(consulted)
            if not self._frames:
                for each in _watching.pop(threading.get_ident(), ()):
                    each.stop()
                self._running.stop()  # type: ignore[union-attr]
            if release is not None:
                release()
        if self._pending is not None:  # an exception of somebody else's came before the frame was opened
            release, self._pending = self._pending, None
            release()
        return consulted

    def include(self, consulted: Consulted | None) -> None:
        """What is being compiled uses code for which all this was asked."""
        if consulted is not None and len(self._frames) > self._floor:
            self._frames[-1].consulted.include(consulted)

    @property
    def is_concerned(self) -> bool:
        """Whether something is being compiled that what happens now is a concern of."""
        return len(self._frames) > self._floor

    def hear(self, key: str) -> None:
        """What is being compiled lists what is warned of under *key*, or will."""
        for frame in self._frames[self._floor :]:
            frame.heard.add(key)

    def note(self, *effects: Effect) -> None:
        """Remember for every open frame what is happening to somebody's dispatcher or ufunc."""
        for frame in self._frames[self._floor :]:
            for effect in effects:
                frame.effects.setdefault(effect[:3], effect)

    def taint(self, reason: str) -> None:
        """Nothing that is being compiled can become an entry."""
        for frame in self._frames[self._floor :]:
            frame.taint = frame.taint or reason

    @contextmanager
    def apart(self) -> Iterator[None]:
        """While this is entered, what is compiled is no concern of the frames that are open."""
        floor, self._floor = self._floor, len(self._frames)
        try:
            yield
        finally:
            self._floor = floor

    def settle(self) -> None:
        """Walk what the open frames reach, before something they reach changes."""
        for frame in self._frames:
            if not frame.consulted.conflict:
                frame.reach  # noqa: B018  computed and kept

    def finished(self) -> tuple[float, float]:
        """How long the innermost frame took so far [s]: all in all, and without what it called for."""
        frame = self._frames[-1]
        seconds = time.perf_counter() - frame.started
        if len(self._frames) > 1:
            self._frames[-2].nested += seconds
        return seconds, max(0.0, seconds - frame.nested)

    def next_unique_id(self) -> int:
        """What takes the place of Numba's counter."""
        frame = self.top()
        if frame is None:
            return next(self._anonymous)
        return int(f"1{int(frame.build, 16):0{_BUILD_DIGITS}d}{next(frame.ordinals):06d}")

    def restart(self) -> None:
        """In a forked child, which goes on with the thread that forked: have its own names and nobody else's watch."""
        self._anonymous = _anonymous_names()
        for thread in [each for each in _watching if each != threading.get_ident()]:
            for each in _watching.pop(thread):
                each.stop()


_watching: dict[int, tuple[Listener, ...]] = {}
"""By thread: what notes things while its frames are open, in the place of functions of the standard library."""


_BUILD_DIGITS = 29
"""Decimal digits of a build id."""
_BUILD_IN_NAME = rf"v1([0-9]{{{_BUILD_DIGITS}}})[0-9]{{6,}}"


def build_in(symbol: str) -> str | None:
    """The build that a symbol belongs to, if its name says so."""
    match = re.search(_BUILD_IN_NAME, symbol)
    return None if match is None else f"{int(match[1]):024x}"


def _anonymous_names() -> Iterator[int]:
    process = int.from_bytes(os.urandom(8), "little")
    # No generator: an exception that a signal raises inside one ends it for good.
    return itertools.count(int(f"2{process:020d}{0:09d}"))
