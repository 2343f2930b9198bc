"""Notes which functions of installed packages run while something compiles
(:mod:`nbcache.glue.identity.marked_packages`).

From Python 3.12 on the interpreter tells of each code object once, until it is asked to begin anew (`sys.monitoring`).
Before that, its own profiler counts calls (`_lsprof`); Python's code takes half as long again meanwhile, so it is on
only from when somebody's code is about to run that a hit doesn't ask again. Where the program has a profiler of its own
on, or others have all places for such tools, nobody notes anything, and what could depend on it isn't stored.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, cast

from nbcache.glue.identity.asked_names import Names
from nbcache.glue.identity.marked_packages import any_marked, any_new, is_installed, note_plain, runners
from nbcache.process import is_profiled

_IS_CHEAP = hasattr(sys, "monitoring")


class Running(threading.local):
    """What runs in the thread that asks, from `begin` to `stop`."""

    def __init__(self) -> None:
        self._tool: Any = None
        self._callers = 0
        """How many calls there were already when the outermost compilation began."""
        self._missed = self._is_aside = False
        self._given_back: set[CodeType] = set()
        self._names: set[bytes] = set()
        """What was asked for so far, where it is dear to note what runs."""

    def set_out(self) -> None:
        """The outermost compilation begins: who has called it doesn't run while it goes on."""
        self._callers = 0 if _IS_CHEAP else len(_calls())

    def begin(self, names: Collection[bytes] = ()) -> None:
        """Code is about to run that may be a marked package's: note it from now on, until `stop`.

        Where that is dear, nobody has to pay for it unless a package is marked, or one is asked for something by
        these *names* of which nobody knows yet. Later it couldn't be made up for: the next process would compile
        again all that was compiled so far.
        """
        if not _IS_CHEAP:
            self._names.update(names)
        self._go_on()
        if self._tool is None and (_IS_CHEAP or not self._missed):
            self._tool = _new_tool() if _IS_CHEAP or any_marked() or any_new(names) else None
            self._missed |= self._tool is None

    @property
    def missed(self) -> bool:
        """Whether something may have run that wasn't noted."""
        return self._missed or (self._tool is not None and not self._is_aside and not self._tool.works)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """While this is entered nbcache's own code runs, which takes half as long again where that is dear to note.

        Should code of the program compile something from there, it is noted as usual: see `begin`.
        """
        if self._is_aside or not isinstance(self._tool, _Profiler) or not self._tool.works:
            yield
            return
        self._is_aside = True
        self._tool.stop()
        try:
            yield
        finally:
            self._go_on()

    def _go_on(self) -> None:
        """Note again what runs, where that was put aside and nobody else's profiler is on meanwhile."""
        if self._is_aside:
            self._is_aside = False
            self._tool.start()

    def miss(self) -> None:
        """Something that matters ran when nobody noted it."""
        self._missed = True

    def take(self) -> set[CodeType]:
        """The code that ran since this was last called."""
        if self._tool is None:
            return set()
        found, self._given_back = self._given_back | self._tool.take(self._callers), set()
        return found

    def give_back(self, codes: set[CodeType]) -> None:
        """Let the next who takes have these as well."""
        self._given_back = self._given_back | codes

    def stop(self) -> None:
        """End it: the outermost compilation is over."""
        if not self.missed and self._names:
            note_plain(self._names)
        tool, self._tool, self._missed, self._is_aside = self._tool, None, False, False
        self._given_back, self._names = set(), set()
        if tool is not None:
            tool.stop()


running = Running()


class Heard(Names):
    """The names that a compilation asks for: with the first one for which others' code runs, that is noted."""

    def add(self, name: bytes) -> None:
        if name in runners:
            running.begin((name,))
        super().add(name)

    def update(self, *names: Iterable[bytes]) -> None:
        for each in names:
            found = set(each)
            if run := runners.keys() & found:
                running.begin(run)
            super().update(found)


class _Profiler:
    """By the interpreter's profiler, for the thread that makes it."""

    def __init__(self) -> None:
        from _lsprof import Profiler

        class SetAgain(Profiler):
            """Who asks for the profiler may set it again, and then it is called."""

            called = False

            def __call__(self, *_what: object) -> None:
                self.called = True

        self._profiler = SetAgain(subcalls=False, builtins=False)
        self.start()

    def start(self) -> None:
        if sys.getprofile() is None:
            self._profiler.enable(subcalls=False, builtins=False)

    @property
    def works(self) -> bool:
        return cast("object", sys.getprofile()) is self._profiler and not self._profiler.called

    def take(self, callers: int) -> set[CodeType]:
        codes = {each.code for each in self._profiler.getstats()}
        # It counts calls that have returned, and forgets the others here.
        codes.update(_calls()[callers:])
        self._profiler.clear()
        return {code for code in codes if type(code) is CodeType and is_installed(code.co_filename)}

    def stop(self) -> None:
        if self.works:  # another one's stays
            self._profiler.disable()


class _Monitor:
    """By a tool of `sys.monitoring`, which hears of all threads: what others run counts as well."""

    def __init__(self, monitoring: Any, tool: int) -> None:
        self._monitoring = monitoring
        self._tool = tool
        self._found: list[CodeType] = []
        monitoring.use_tool_id(tool, "nbcache")
        start, resume = monitoring.events.PY_START, monitoring.events.PY_RESUME
        note = _noting(self._found, monitoring.DISABLE)
        for event in (start, resume):
            monitoring.register_callback(tool, event, note)
        monitoring.set_events(tool, start | resume)

    @property
    def works(self) -> bool:
        return self._monitoring.get_tool(self._tool) == "nbcache"

    def take(self, _callers: int) -> set[CodeType]:
        found = [*self._found]
        del self._found[: len(found)]  # and nothing that another thread adds meanwhile
        self._monitoring.restart_events()
        return {*found}

    def stop(self) -> None:
        if self.works:
            self._monitoring.set_events(self._tool, 0)
            self._monitoring.free_tool_id(self._tool)


def _noting(found: list[CodeType], answer: object) -> Callable[[CodeType, int], object]:
    """A function that adds code of installed packages to *found* and returns *answer*.

    It is called for thousands of functions each time that something compiles, and again for the next: so the code goes
    into a list. To look it up in a set, Python hashes all that it consists of.
    """

    def note(code: CodeType, _offset: int) -> object:
        if is_installed(code.co_filename):
            found.append(code)
        return answer

    return note


def _calls() -> list[CodeType]:
    """What is being called in this thread, the outermost first."""
    codes = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        codes.append(frame.f_code)
        frame = frame.f_back
    return codes[::-1]


def _new_tool() -> _Profiler | _Monitor | None:
    """Who notes from now on; None if nobody can."""
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        return None if is_profiled() else _Profiler()
    for tool in (4, 3):  # the others are spoken for
        if monitoring.get_tool(tool) is None:
            return _Monitor(monitoring, tool)
    return None
