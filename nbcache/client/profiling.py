"""What this process compiles and loads, for its program's profile (:mod:`nbcache.protocol.profiles`).

A process that compiles nothing never imports this. What is noted is noted after a compilation, which takes a hundred
times as long; the profile is written when the seconds that were compiled have doubled, and at the end. So of a process
that is killed, at most the later half is missing.
"""

from __future__ import annotations

import hashlib
import re
import sys
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final

from nbcache.client.logs import log
from nbcache.counting import Counters
from nbcache.glue.capture.compilations import Frame
from nbcache.glue.keys.key_maker import KeyMaker
from nbcache.glue.keys.units import Unit as KeyedUnit
from nbcache.passing_exceptions import suppressed
from nbcache.process import os, time
from nbcache.protocol import profiles, requests, sources
from nbcache.protocol.profiles import Head, Profile, Unit
from nbcache.protocol.requests import Request
from nbcache.store.directory import Store
from nbcache.store.usage import SELF_TEST

LEAST_SECONDS: Final = 1.0
"""From how much compiling on a profile is written [s]."""
BY_VALUE_SECONDS: Final = 0.5
"""From how long a function takes on, it is noted by value if no module has it [s]: pickling runs code of the
program's."""
_INSTALLED: Final = re.compile("/(?:site|dist)-packages/")
"""Directories of packages that are installed, and that nobody edits."""
MOST_LOOKED_UP: Final = 300
LOOKING_SECONDS: Final = 0.1
"""How many entries that were loaded are looked into for how they are asked for, and for how long [s]."""


def program() -> tuple[str, str]:
    """Return the name of this process's program's profile, and what the program is, for people."""
    main = sys.modules.get("__main__")
    # A program may put there what it likes.
    module, file = getattr(getattr(main, "__spec__", None), "name", None), _real(getattr(main, "__file__", None))
    what = f"-m {module}" if isinstance(module, str) else file or "interactive"
    if what != file or file.startswith((f"{_real(sys.prefix)}/", f"{_real(sys.base_prefix)}/bin/")):
        # Of what many programs are started with, the directory says which one it is.
        what = f"{what} in {_directory()}"
    digest = hashlib.blake2b(what.encode("utf-8", "surrogatepass"), digest_size=profiles.NAME_SIZE // 2)
    return digest.hexdigest(), what.encode("utf-8", "backslashreplace").decode()


def _real(path: object) -> str:
    """The path without links; "" for what is none."""
    with suppressed(OSError, ValueError):
        return os.path.realpath(path) if isinstance(path, str) else ""
    return ""


def _directory() -> str:
    with suppressed(OSError):
        return os.getcwd()
    return "a directory that is gone"


class Profiler:
    """Of one process. Nothing raises what a filesystem does; a forked child notes what it compiles itself."""

    def __init__(self, store: Store, maker: KeyMaker, counters: Counters) -> None:
        """Write to *store*; *maker* makes this process's keys, and *counters* know what is loaded."""
        self._store = store
        self._maker = maker
        self._counters = counters
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        # Another thread of the parent may have held it when this process was forked.
        self._lock = threading.RLock()
        self._units: list[Unit] = []
        self._reached: list[set[int]] = []
        """For each unit, all that it was built upon, directly or not."""
        self._places: dict[tuple[int, Any], int] = {}
        self._seconds = 0.0
        self._next = LEAST_SECONDS
        # At the end, Python has taken away what says where the program is.
        self._program = program()

    @property
    def seconds(self) -> float:
        """How long this process has compiled so far [s]."""
        return self._seconds

    def compiled(self, frame: Frame, unit: KeyedUnit, request: Request | None, seconds: float) -> None:
        """The compilation of *frame* succeeded, and took so long by itself [s]; *request* asks for it."""
        if self._pid != os.getpid():
            self._begin()
        with self._lock:
            self._seconds += seconds
            if request is None or request.kind not in requests.KINDS or request.function == SELF_TEST:
                return
            value = request.value
            if len(self._units) >= profiles.MAX_UNITS or len(value or b"") > profiles.MAX_VALUE:
                return
            used = {
                self._places[id(effect.obj), effect.args]
                for effect in frame.effects.values()
                if effect.kind == "dispatcher" and (id(effect.obj), effect.args) in self._places
            }
            beyond = set[int]().union(*(self._reached[at] for at in used))
            self._places[id(unit.owner), unit.args] = len(self._units)
            self._reached.append(used | beyond)
            self._units.append(_unit(request, seconds, tuple(sorted(used - beyond))[: profiles.MAX_INSIDE]))

    def write(self, *, at_end: bool) -> None:
        """Write the profile, if there is enough to tell: at the end, or when it is time again."""
        if self._pid != os.getpid():
            self._begin()
        with self._lock:
            due = self._seconds >= (LEAST_SECONDS if at_end else self._next)
            if not due or not self._units:
                return
            self._next = 2 * self._seconds
            name, what = self._program
            old = profiles.read(self._store.path, name, self._store.trust, os.geteuid())
            known = {unit.key for unit in (*self._units, *(old.units if old is not None else ()))}
            units = [*self._units, *self._loaded(known)]
            head = Head(what, {}, self._maker.conditions.summary(), time.time(), name, os.geteuid())
            merged = profiles.merged(old, head, units, list(self._counters.hits))
            if not profiles.write(self._store.path, name, merged, self._sources(merged)):
                log.debug("the profile of %s can't be written", what)

    def _sources(self, profile: Profile) -> bytes:
        """How this process would ask for its profile, and which files it has imported: for who builds it unasked."""
        from nbcache.client import recording
        from nbcache.glue.requests.requested import UnaskableError

        try:
            request = recording.lane_of(self._maker, profile.head, "", 0)
        except UnaskableError:
            return profiles.NO_SOURCES
        files = _files({unit.package for unit in profile.units})
        return sources.line(request, files, profile.lanes(), self._counters.snapshot()["start"])

    def _loaded(self, known: set[str]) -> Iterator[Unit]:
        """What was loaded that no profile has: entries say how they can be asked for."""
        deadline = time.monotonic() + LOOKING_SECONDS
        unknown = [key for key in list(self._counters.hits) if key not in known][:MOST_LOOKED_UP]
        for key in unknown:
            if time.monotonic() > deadline:
                return
            entry = next(iter(self._store.find(key)), None)
            request = None if entry is None else requests.of_entry(entry)
            if entry is not None and request is not None and request.kind in requests.KINDS:
                yield _unit(request, entry.header.compile_seconds)


def _files(packages: set[str]) -> list[str]:
    """The source files of the modules that this process has imported, but for the toolchain's.

    Of what is installed, these *packages* alone. Not the program itself, whose functions others have from its profile.
    """
    from nbcache.glue.identity.ownership import is_toolchain_file

    own, installed = [], []
    for name, module in list(sys.modules.items()):
        if name == "__main__" or not issubclass(type(module), ModuleType):
            continue
        # Some modules run code when they are asked for an attribute.
        file = object.__getattribute__(module, "__dict__").get("__file__")
        if type(file) is not str or not file.startswith("/") or not file.endswith(".py"):
            continue
        if _INSTALLED.search(file) is None:
            own.append(file)
        elif name.partition(".")[0] in packages:
            installed.append(file)
    return [file for file in dict.fromkeys(own + installed) if not is_toolchain_file(file)]


def _unit(request: Request, seconds: float, inside: tuple[int, ...] = ()) -> Unit:
    return Unit(
        request.kind, request.function, request.signature, request.types, request.modules, request.value,
        request.key, seconds, inside, time.time(),
    )  # fmt: skip
