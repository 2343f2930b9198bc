"""The process that nbcache is a guest in: its system calls and clocks, whether its environment counts, its collector.

Every client imports this while Numba is imported, and a node before anything else, so it imports next to nothing.

`os`, `time` and `opened` are Python's own, whatever a program has put in their places. A test puts a mock in the place
of ``os.open`` or ``os.urandom``, stops ``time.monotonic``, or counts who calls ``os.unlink``, and calls a function that
Numba compiles. What it put there is meant for the code that it tests. For nbcache, a mock would pass for descriptor 1
(a ``MagicMock`` is 1 as a number), which is then closed, names would cease to be unique, and a wait for another process
would never end.
"""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Any, Final

__all__ = [
    "closing", "collected_later", "collected_seldom", "has_rights_of_its_own", "heeds_environment", "is_frozen",
    "is_profiled", "is_wanted", "nothing_collected", "only_young_collected", "opened", "os", "out_of_the_way", "time",
]  # fmt: skip

if TYPE_CHECKING:
    import os
    import time
    from builtins import open as opened
    from collections.abc import Callable, Mapping
    from types import ModuleType
else:
    import os as _os
    import time as _time
    from _io import open as opened

    class _Genuine:
        """A module, but with its own functions, whatever is in their places; all else is what it has at that moment.

        Each is looked for when it is first asked for: a process calls a dozen of three hundred.
        """

        def __init__(self, module: ModuleType, own: Callable[[str], Any]) -> None:
            """Take the module; ``own`` returns its function of that name, or None for what isn't one."""
            self._module = module
            self._own = own

        def __getattr__(self, name: str) -> Any:
            found = self._own(name)
            if found is None:
                return getattr(self._module, name)
            setattr(self, name, found)
            return found

    # What `os` defines itself is written in Python, and made of these. As they are now, and looked at when asked for.
    _calls = dict(vars(__import__(_os.name)))

    def _call(name: str) -> Any:
        found = _calls.get(name)
        return found if type(found) is type(len) and hasattr(_os, name) else None

    def _clock(name: str) -> Any:
        """Return what tells the time, out of a new copy of the module: somebody may have stopped this one already."""
        return getattr(_clocks(), name) if name in _CLOCKS else None

    _CLOCKS = {"time", "time_ns", "monotonic", "perf_counter", "process_time", "thread_time", "sleep"}
    _genuine_time: list[ModuleType] = []

    def _clocks() -> ModuleType:
        if not _genuine_time:
            genuine = _time
            if "time" in sys.builtin_module_names:
                # Not `importlib.util`, which offers them as well, and which a node that needs no Numba hasn't imported.
                from _frozen_importlib import BuiltinImporter, module_from_spec

                genuine = module_from_spec(BuiltinImporter.find_spec("time"))
                BuiltinImporter.exec_module(genuine)
            _genuine_time.append(genuine)
        return _genuine_time[0]

    os = _Genuine(_os, _call)
    time = _Genuine(_time, _clock)

_HIGH: Final = 48
"""From where on descriptors of ours are kept. The table of a process has room for 64 to begin with; to enlarge it in a
process that has threads, as NumPy's has, waits 8 ms or more for all processors."""
_AT_SECURE: Final = 23  # getauxval(3), <linux/auxvec.h>


def is_wanted(environ: Mapping[str, str]) -> bool:
    """Whether the environment asks for nbcache, and may."""
    return any(map(environ.get, ("NBCACHE_DIR", "NBCACHE_COUNT", "NBCACHE_DISABLE_ALL"))) and heeds_environment()


def heeds_environment() -> bool:
    """Whether ``NBCACHE_*`` in the environment counts for this process.

    Not where Python was told to ignore its own variables (``-I``, ``-E``), and not where the process has rights that
    whoever started it, and wrote the environment, may not have. In a frozen program, Python ignores them whoever runs
    it, and who froze nbcache into it wants these.
    """
    told_not_to = (sys.flags.isolated or sys.flags.ignore_environment) and not is_frozen()
    return not (told_not_to or has_rights_of_its_own())


def is_frozen() -> bool:
    """Whether Python is part of a program, as PyInstaller makes it: ``sys.executable`` is that, and no interpreter."""
    return bool(getattr(sys, "frozen", False))


def is_profiled() -> bool:
    """Whether a profiler of the program's is on in this thread.

    `sys.getprofile` returns what it was set with, and one in C may have been set with nothing (yappi). Such a one asks
    for each new thread to be told of, which this one knows.
    """
    threads = sys.modules.get("threading")
    return sys.getprofile() is not None or getattr(threads, "_profile_hook", None) is not None


def has_rights_of_its_own() -> bool:
    """Whether this process has rights that whoever started it may not have."""
    global _secure  # noqa: PLW0603  it stays what it was when the program was executed
    if sys.platform == "win32":  # where no program has others than its user
        return False
    if os.getuid() != os.geteuid() or os.getgid() != os.getegid():
        return True
    if _secure is None:
        _secure = _is_secure()
    return _secure


_secure: bool | None = None


def _is_secure() -> bool:
    """Whether the kernel gave rights to this process when its program was executed, capabilities among them."""
    try:
        with opened("/proc/self/auxv", "rb") as file:
            vector = file.read()
    except OSError:
        # No /proc; or it is closed to this process, as after setuid(2) by a server that gave up root.
        try:
            import ctypes  # takes milliseconds, which is why it isn't the first way

            return bool(ctypes.CDLL(None).getauxval(_AT_SECURE))
        except (ImportError, OSError, AttributeError):  # it can't be known; other systems have nothing of the kind
            return sys.platform == "linux"
    word = 8 if sys.maxsize > 1 << 32 else 4
    at = 0
    while (entry := vector[at : at + 2 * word]) and not entry.startswith(_AT_SECURE.to_bytes(word, sys.byteorder)):
        at += 2 * word
    return any(entry[word:])


class closing:  # noqa: N801  named as what it is like
    """As `contextlib.closing`, for a descriptor."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __enter__(self) -> int:
        """Return it."""
        return self._fd

    def __exit__(self, *_: object) -> None:
        """Close it, whatever was raised."""
        os.close(self._fd)


def out_of_the_way(fd: int) -> int:
    """Return a copy of a descriptor under a number that a program won't have soon: it expects its own from 3 on.

    A child that executes another program doesn't inherit it. Raises OSError if none is free.
    """
    import fcntl

    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    except OSError:  # a limit below that, or none free above it
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


class collected_later:  # noqa: N801  named as what it is like
    """Around what makes thousands of objects that all stay.

    A full collection amid them, which looks at all that Numba is made of, takes as long as making them.
    """

    def __enter__(self) -> None:
        """Begin."""
        self.ours = _is_ours_to_tell()
        if self.ours:
            gc.disable()

    def __exit__(self, *_raised: object) -> None:
        """End."""
        if self.ours:
            gc.enable()


def _is_ours_to_tell() -> bool:
    """Whether the collector runs, and no other thread may have it do otherwise meanwhile."""
    # Another one may have Python collect nothing, for good; nobody could tell our doing from its.
    threading = sys.modules.get("threading")
    return gc.isenabled() and (threading is None or threading.active_count() == 1)


class nothing_collected(collected_later):  # noqa: N801  likewise
    """The same around importing, of which all stays as long as the process.

    Nor does a collection fall right behind: what was made counts as old, without being looked at, and Python looks at
    everything when the program itself has made enough for that.
    """

    def __exit__(self, *_raised: object) -> None:
        """End."""
        if self.ours:
            if gc.get_count()[0] > gc.get_threshold()[0] > 0 and not _counts_as_old():  # due as soon as it may be
                gc.collect(0)
            gc.enable()


class only_young_collected:  # noqa: N801  likewise
    """Around an import that makes a hundred thousand objects, all of which stay.

    What was just made is looked at, a few hundred objects at a time, and nothing else: the rest counts as old. If
    nothing were looked at, the first full collections, which have to look at all of it, would take longer than what
    that saves.
    """

    def __enter__(self) -> None:
        """Begin."""
        self._ours = _is_ours_to_tell()
        if self._ours:
            self._usual = gc.get_threshold()
            gc.set_threshold(self._usual[0], _NEVER, *self._usual[2:])
            self._meanwhile = gc.get_threshold()

    def __exit__(self, *_raised: object) -> None:
        """End."""
        if self._ours and gc.get_threshold() == self._meanwhile:  # what is imported may have set its own
            gc.set_threshold(*self._usual)
            if gc.get_count()[1] > self._usual[1]:
                _counts_as_old()


class collected_seldom:  # noqa: N801  likewise
    """Around a compilation, which makes thousands of objects that refer to each other, nearly all of them garbage soon.

    What is young is looked at after ten thousand new objects, and not after some hundred, so less of it has become old
    by then. Nothing changes within another of these, nor where the program chose how often Python looks.
    """

    def __enter__(self) -> None:
        """Begin."""
        self._usual = gc.get_threshold()
        self._ours = self._usual[0] in _PYTHONS_OWN and _is_ours_to_tell()
        if self._ours:
            gc.set_threshold(_SELDOM, *self._usual[1:])

    def __exit__(self, *_raised: object) -> None:
        """End."""
        if self._ours and gc.get_threshold() == (_SELDOM, *self._usual[1:]):  # what ran meanwhile may have set its own
            gc.set_threshold(*self._usual)


_PYTHONS_OWN: Final = frozenset({700, 2000})
"""After how many new objects Python itself looks at what is young: before 3.13, and since then."""

_SELDOM: Final = 10_000
"""With 50,000, collecting takes no less time, and a program that compiles 60 functions 5 MB more."""

_NEVER: Final = 2**31 - 1
"""A threshold that nothing reaches."""


def _counts_as_old() -> bool:
    """Have the collector take all that there is for old, without looking at it; False where that can't be."""
    # What the program has frozen stays so; what Python itself began with, the switch has counted.
    if gc.get_freeze_count() > getattr(sys.modules.get("_nbcache"), "FROZEN", 0):
        return False
    gc.freeze()
    gc.unfreeze()
    return True
