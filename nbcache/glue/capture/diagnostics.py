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
from typing import TYPE_CHECKING, Any

from numba.core.errors import NumbaWarning
from numba.core.ir import Loc

from nbcache.glue import own_attributes
from nbcache.glue.capture import placeholders
from nbcache.glue.capture.compilations import Caveat, Frame
from nbcache.glue.identity.process_state import LISTENED_TO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


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
        self._held_back: defaultdict[tuple[object, ...], list[str]] = defaultdict(list)
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
            original(message, category, stacklevel + 1, source, **kwargs)
            if threading.get_ident() == self._thread:
                try:
                    caller = sys._getframe(stacklevel)
                except ValueError:  # the stack isn't that deep
                    caller = sys._getframe(1)
                name = caller.f_globals.get("__name__")
                self._note(message, category or UserWarning, caller.f_code.co_filename, caller.f_lineno, name)

        return warn

    def _warn_explicit(self, original: Callable[..., None]) -> Callable[..., None]:
        def warn_explicit(message: Any, category: Any, filename: str, lineno: int, *args: Any, **kwargs: Any) -> None:
            original(message, category, filename, lineno, *args, **kwargs)
            if threading.get_ident() == self._thread:
                self._note(message, category, filename, lineno, None)

        return warn_explicit

    def _note(self, message: Any, category: Any, filename: str, line: int, module: str | None) -> None:
        text, place = str(message), None
        given: tuple[object, ...] = (text, filename, line)
        if isinstance(message, NumbaWarning):
            self._by_text[text] = message
        if isinstance(message, Warning):
            category = type(message)
        if issubclass(category, NumbaWarning):
            given = (text,)  # where it was given, and how often, is forgotten while it is held back
            numba_warning = self._by_text.get(text)
            if numba_warning is not None:
                text, loc = str(numba_warning.msg), numba_warning.loc
                if isinstance(loc, Loc):
                    place = (loc.filename, loc.line, loc.col, loc.maybe_decorator)
        is_new = True
        for frame, by in self._frames():
            held_back = self._held_back[(*given, frame)]
            whose = by if _repeated is None else by and _repeated
            if frame.filters is warnings.filters:
                is_new = is_new and not held_back
                whose = held_back.pop(0) if held_back else whose
                frame.caveats.append(Caveat(category, text, place, filename, line, module, whose))
            elif is_new and not (held_back and len(given) == 1):
                held_back.append(whose)


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


_repeated: str | None = None
"""While a hit warns, under the compiler's lock: the key of what did so when it was compiled, "" if each hit does."""


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
    if packed:
        # Compiling changes filters on its way, and whenever these change, Python forgets what it has shown.
        with warnings.catch_warnings():
            pass
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
        _repeated = None
