"""Warnings that a compilation gives, and that a hit must give again.

A program that was told that its `parallel=True` does nothing is told so in every process, cache or
no cache.  While something is compiled, ``warnings.warn`` and ``warn_explicit`` are watched; an entry
lists what came through, with locations that follow the source (placeholders.py).
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from numba.core.errors import NumbaWarning
from numba.core.ir import Loc

from nbcache.glue import own_attributes
from nbcache.glue.capture import placeholders
from nbcache.glue.capture.compilations import Caveat, Frame, FrameStack
from nbcache.glue.identity.process_state import LISTENED_TO


class Watch:
    """Notes on the open *frames* what is warned of, as far as it leaves them.

    Numba holds some warnings back, under filters of its own, and gives them later, when it knows
    their place: only what comes under a frame's own filters counts for that frame.
    """

    def __init__(self, frames: Callable[[], Iterable[tuple[Frame, str]]]) -> None:
        self._frames = frames
        self._thread = 0
        self._replaced: list[tuple[str, Any, Any]] = []
        self._by_text: dict[str, NumbaWarning] = {}
        self._held_back: defaultdict[tuple[object, ...], list[str | Asking]] = defaultdict(list)
        """Whose that is which Numba holds back for now, by what it is and the frame that it comes to later."""

    def start(self) -> None:
        """Watch what this thread warns of."""
        self._thread = threading.get_ident()
        self._by_text.clear()
        self._held_back.clear()
        for name in LISTENED_TO:
            original = getattr(warnings, name)
            replacement = getattr(self, f"_{name}")(original)
            own_attributes.listen_for(original, replacement)
            self._replaced.append((name, original, replacement))
            setattr(warnings, name, replacement)

    def stop(self) -> None:
        """Watch no longer."""
        while self._replaced:
            name, original, replacement = self._replaced.pop()
            if getattr(warnings, name) is replacement:
                setattr(warnings, name, original)

    def _warn(self, original: Callable[..., None]) -> Callable[..., None]:
        def warn(message: Any, category: Any = None, stacklevel: int = 1, source: Any = None, **kwargs: Any) -> None:
            # The least that `warnings.warn` makes of it, before this function's own frame comes on top.
            stacklevel = max(2 if kwargs.get("skip_file_prefixes") else 1, stacklevel)
            if threading.get_ident() != self._thread:
                original(message, category, stacklevel + 1, source, **kwargs)
                return
            try:
                caller = sys._getframe(stacklevel)
            except ValueError:  # the stack isn't that deep
                caller = sys._getframe(1)
            place = caller.f_code.co_filename, caller.f_lineno
            if not self._is_known(_given(message, category, *place)):
                original(message, category, stacklevel + 1, source, **kwargs)
            self._note(message, category or UserWarning, *place, caller.f_globals.get("__name__"))

        return warn

    def _warn_explicit(self, original: Callable[..., None]) -> Callable[..., None]:
        def warn_explicit(message: Any, category: Any, filename: str, lineno: int, *args: Any, **kwargs: Any) -> None:
            here = threading.get_ident() == self._thread
            if not (here and self._is_known(_given(message, category, filename, lineno))):
                original(message, category, filename, lineno, *args, **kwargs)
            if here:
                self._note(message, category, filename, lineno, None)

        return warn_explicit

    def _is_known(self, given: tuple[object, ...]) -> bool:
        """Whether the program was told of that before, and nobody holds it back for an outer compilation."""
        frames, who = [frame for frame, _by in self._frames()], _who()
        held_back = [each for frame in frames for each in self._held_back.get((*given, frame), ())[:1]]
        is_told = _is_told(who) if isinstance(who, Asking) else any(map(_is_told, held_back))
        return is_told and all(frame.filters is warnings.filters for frame in frames)

    def _note(self, message: Any, category: Any, filename: str, line: int, module: str | None) -> None:
        text, place = str(message), None
        given = _given(message, category, filename, line)
        if isinstance(message, NumbaWarning):
            self._by_text[text] = message
        if isinstance(message, Warning):
            category = type(message)
        if issubclass(category, NumbaWarning):
            numba_warning = self._by_text.get(text)
            if numba_warning is not None:
                text, loc = str(numba_warning.msg), numba_warning.loc
                if isinstance(loc, Loc):
                    place = (loc.filename, loc.line, loc.col, loc.maybe_decorator)
        who = _who()
        if isinstance(who, Asking):
            module = who.module or module
            who.said.append((message, category, filename, line, module))
        is_new = True
        for frame, by in self._frames():
            held_back = self._held_back[(*given, frame)]
            whose = by if who is None else by and who
            if isinstance(whose, Asking) and whose.key in frame.heard:
                whose = _LISTED
            if frame.filters is warnings.filters:
                is_new = is_new and not held_back
                whose = held_back.pop(0) if held_back else whose
                if whose is not _LISTED:
                    key = whose.key if isinstance(whose, Asking) else whose
                    frame.caveats.append(Caveat(category, text, place, filename, line, module, key))
            elif is_new and not (len(given) == 1 and _is_told(whose) in map(_is_told, held_back)):
                held_back.insert(len(held_back) if len(given) > 1 or _is_told(whose) else 0, whose)


def _given(message: Any, category: Any, filename: str, line: int) -> tuple[object, ...]:
    """What a warning is known by while it is held back: where one of Numba's was given, and how often, is forgotten."""
    cls = type(message) if isinstance(message, Warning) else category or UserWarning
    return (str(message),) if issubclass(cls, NumbaWarning) else (str(message), filename, line)


def pack(frame: Frame) -> list[tuple[Any, ...]]:
    """What *frame* was warned of, for an entry's metadata; places in it are tokens.

    What warns again on a hit itself, as somebody's chooser does that is asked again, needn't be repeated. The last item
    is the key of the callee whose compilation it was, "" if it was the frame's own.
    """
    return [
        (
            caveat.category,
            caveat.text,
            caveat.place and (placeholders.live_location(frame, ("", *caveat.place[:2])), *caveat.place[2:]),
            placeholders.live_location(frame, ("", caveat.filename, caveat.line)),
            caveat.module,
            "" if frame.unit is not None and caveat.by == frame.unit.key else caveat.by,
        )
        for caveat in frame.caveats
        if caveat.by
    ]


def _numba_warning(category: type[NumbaWarning], text: str, loc: Loc | None) -> NumbaWarning:
    """Return a warning as it was given.

    Some categories take other arguments than their base, or add to the text, and have done so already: only the base
    is asked to initialise it.
    """
    warning: NumbaWarning = Warning.__new__(category)
    NumbaWarning.__init__(warning, text, loc)
    return warning


class Asking:
    """Whatever warns for as long as this is entered does so once in a process, and many may depend on it.

    A chooser of Numba's own is asked, whose answer Numba keeps, or an overload is used. *question* says what that is in
    all processes; *is_kept*: it is there, so the program was told of it before.
    """

    __slots__ = ("_before", "_depth", "_frames", "_is_kept", "_question", "_was_told", "module", "said")

    def __init__(self, question: Callable[[], str] | str, frames: FrameStack, *, is_kept: bool = False) -> None:
        self._question, self._frames, self._is_kept = question, frames, is_kept
        self._was_told: bool | None = None
        self.module: str | None = None
        self.said: list[tuple[Any, Any, str, int, str | None]] = []

    @property
    def key(self) -> str:
        """What a caveat is listed under; only who warns has to find it out."""
        if not isinstance(self._question, str):
            self._question = self._question()
        return self._question

    @property
    def is_known(self) -> bool:
        """Whether the program had been told of it when it was first asked."""
        if self._was_told is None:
            self._was_told = self._is_kept or self.key in _told
        return self._was_told

    @property
    def is_asked(self) -> bool:
        """Whether that goes on: Numba compiles what was chosen as well, which is a compilation of its own."""
        return len(self._frames) == self._depth

    def __enter__(self) -> None:
        global _repeated
        self._before, _repeated = _repeated, self
        self._depth = len(self._frames)

    def __exit__(self, kind: object, *_: object) -> None:
        global _repeated
        _repeated = self._before
        if self.said and kind is None:
            self._frames.hear(self.key)
            if self.key.startswith(ASKED):
                _told.add(self.key)

    def again(self) -> None:
        """Somebody uses the answer: what is being compiled lists what was said, at the place of this use."""
        _list(self.key, self.said, self._frames)


def listen_again(caveats: Sequence[Caveat], frames: FrameStack, given: Collection[str] = ()) -> None:
    """What is being compiled uses what gave these when it was compiled; those by *given* keys are given in a moment."""
    for by in dict.fromkeys(caveat.by for caveat in caveats if frames.is_concerned):
        if by and by not in given:
            _list(by, [_as_it_was(caveat) for caveat in caveats if caveat.by == by], frames)
        frames.hear(by)


def _list(key: str, said: Iterable[tuple[Any, Any, str, int, str | None]], frames: FrameStack) -> None:
    frame = frames.top()
    if frame is not None and frames.is_concerned and key not in frame.heard:
        asking = Asking(key, frames, is_kept=True)
        with asking:
            for message, category, filename, line, asking.module in [*said]:
                warnings.warn_explicit(message, category, filename, line)


def _as_it_was(caveat: Caveat) -> tuple[Any, Any, str, int, str | None]:
    message: Any = caveat.text
    if issubclass(caveat.category, NumbaWarning):
        message = _numba_warning(caveat.category, caveat.text, caveat.place and Loc(*caveat.place))
    return message, caveat.category, caveat.filename, caveat.line, caveat.module


_LISTED: Any = object()
"""In the place of who warns: what is being compiled lists it already."""
_told: set[str] = set()
"""Under what the program was told of what choosers of Numba's own warn of."""
_repeated: str | Asking | None = None
"""While a hit warns, under the compiler's lock: the key of what did so when it was compiled, "" if each hit does. While
a chooser of Numba's own is asked, or what is there is used: that."""


def _is_told(whose: object) -> bool:
    """Whether what is warned of isn't new to the program, but listed once more."""
    return whose is _LISTED or (isinstance(whose, Asking) and whose.is_known)


def _who() -> str | Asking | None:
    """On whose behalf something is warned of now; None: of what is being compiled."""
    return _repeated if not isinstance(_repeated, Asking) or _repeated.is_asked else None


def untold(
    due: list[tuple[Any, ...]], listed: Sequence[tuple[Any, ...]], asked_before: Callable[[], Iterable[str]]
) -> list[tuple[Any, ...]]:
    """Those warnings that a hit is *due* to give that no chooser has given; it gives all that it *listed*."""
    asked = {caveat[-1] for caveat in listed if caveat[-1].startswith(ASKED)}
    if not asked <= _told:
        _told.update(asked_before())
    left = [caveat for caveat in due if caveat[-1] not in _told]
    _told.update(asked)
    return left


ASKED = "asked:"
"""What a key of a question begins with."""


def caveats_of(packed: Sequence[tuple[Any, ...]]) -> list[Caveat]:
    """What an entry lists, as its compilation would have noted it here."""
    return [
        Caveat(
            category,
            text,
            place and (*placeholders.located(place[0])[1:], *place[1:]),
            *placeholders.located(where)[1:],
            module,
            by,
        )
        for category, text, place, where, module, by in packed
    ]


def repeat(packed: Sequence[tuple[Any, ...]]) -> None:
    """Warn of what an entry lists.  Raises what the warnings' filters say has to be raised."""
    global _repeated
    before = _repeated
    try:
        for category, text, place, where, module, _repeated in packed:
            message: Any = text
            _name, filename, line = placeholders.located(where)
            if issubclass(category, NumbaWarning):
                loc = place and Loc(*placeholders.located(place[0])[1:], *place[1:])
                warning = _numba_warning(category, text, loc)
                message = warning if module is not None else str(warning)
            known = sys.modules.get(module) if module is not None else None
            if known is None:
                warnings.warn_explicit(message, category, filename, line)
            else:
                registry = vars(known).setdefault("__warningregistry__", {})
                warnings.warn_explicit(message, category, filename, line, module, registry)
    finally:
        _repeated = before
