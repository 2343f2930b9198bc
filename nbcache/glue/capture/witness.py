"""What other people's Python does with the world outside the process's objects while it takes part in a compilation.

Choosers, lowering functions, rewrites and passes are Python that Numba runs. What they reach counts for identity; what
they read from elsewhere nobody could know beforehand: environment variables, files, modules that are imported only
then. Choosers are asked again on a hit. Of all others it is a reason not to cache, whatever it is: to know it again
would take a rule for each, and hardly anybody does it.

Environment variables are watched where every way to them meets, in the methods of their mapping; the working directory
and the status of files at the functions of `os`, and threads where they start, since nothing tells of them; the rest by
an audit hook. It is added when the first frame is opened in which code of others may run, by what is registered and by
all that the unit reaches. Other processes have none: Python tells of hundreds of things while a function is compiled.

Looking at what is read reads as well, and Python tells of that too. `Witness.tell` is the one way from these places to
whatever looks, and it is closed while this thread looks: no hook is entered again from within itself, whoever nbcache's
own code is taken for.

Who reads decides. What Numba and nbcache read for themselves is in the key; Python's library and NumPy read for whoever
called them. A variable of the environment that somebody's code spells its identity covers.

Numba keeps what was typed and lowered for all later callers. So what is compiled later in the process isn't cached
either; but for imports, since identities cover modules once they are loaded.
"""

from __future__ import annotations

import functools
import gc
import importlib
import importlib.util
import linecache
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import _bootstrap
from types import FrameType
from typing import Any

from numba.core import event

import _nbcache
from nbcache.glue.capture.compilations import Frame
from nbcache.glue.identity.ownership import is_toolchain_module
from nbcache.glue.identity.roots import is_standard, package_roots
from nbcache.passing_exceptions import let_pass
from nbcache.process import is_frozen

_Look = Callable[..., str]
"""Returns what somebody's code does, and "" if that is no reason."""
_so_far: list[str] = []
"""The reason why nothing is cached that this process compiles from now on, if there is one."""


class Witness:
    """Taints the frames that are open when others do what can't be known again; one per stack of frames."""

    def __init__(self, taint: Callable[[str], None]) -> None:
        self._taint = taint
        self._thread = 0
        self.paused = 0
        """How many answers are being waited for that will be asked for again, or looks are being taken."""
        self._replaced: list[tuple[Any, str, Any, Any]] = []

    def start(self) -> None:
        """Watch what this thread does, unless that is done already."""
        global _watching
        if _watching is self:
            return
        self._thread, self.paused = threading.get_ident(), 0
        for owner, name, look in _SEAMS:
            original = getattr(owner, name)
            replacement = self._telling(original, look)
            self._replaced.append((owner, name, original, replacement))
            setattr(owner, name, replacement)
        if not _hooked:
            _hooked.append(True)
            sys.addaudithook(_audit)
        _watching = self

    def stop(self) -> None:
        """Watch no longer."""
        global _watching
        _watching = None
        while self._replaced:
            owner, name, original, replacement = self._replaced.pop()
            if getattr(owner, name) is replacement:
                setattr(owner, name, original)

    def _telling(self, original: Any, look: _Look) -> Any:
        """A function that does what *original* does, after *look* has seen it."""

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            self.tell(look, args)
            return original(*args, **kwargs)

        return call

    def listens(self) -> bool:
        """Whether this thread is the one that compiles."""
        return not self.paused and threading.get_ident() == self._thread

    def tell(self, look: _Look, args: Sequence[Any]) -> None:
        """Have *look* see what the caller's caller does with *args*, unless nobody listens or somebody looks already.

        It is called amid others' code: a look that fails is one more reason not to cache, and no exception of theirs.
        """
        if not self.listens():
            return
        self.paused += 1
        try:
            frame = sys._getframe(2)
            if look is _imports:
                frame = _importer(frame)
            reader = others_caller(frame)
            what = "" if reader is None else look(frame, reader, args)
        except Exception as raised:  # noqa: BLE001  the cache must never be the reason that a program fails
            let_pass(raised)
            what = "did something that nbcache failed to look at"
        finally:
            self.paused -= 1
        if what:
            reason = f"while it was compiled, somebody's code {what}"
            if not what.startswith(_IMPORTED):
                _so_far.append(reason)
            self._taint(reason)


_watching: Witness | None = None
_hooked: list[bool] = []


def settle(frame: Frame) -> None:
    """A compilation is over: see that nothing was done before it in this process that can't be known again."""
    frame.taint = frame.taint or next(iter(_so_far), "")


@contextmanager
def looking_away() -> Iterator[None]:
    """While this is entered, nothing is noted of what this thread does: it will be done again on a hit."""
    witness = _watching
    if witness is None or not witness.listens():
        yield
        return
    witness.paused += 1
    try:
        yield
    finally:
        witness.paused -= 1


# -- what is looked at ---------------------------------------------------------------------------


def _always(what: str) -> _Look:
    return lambda _frame, _reader, _args: what


def _unless_of_toolchain(what: str) -> _Look:
    """For those whose first argument is the name of a module."""
    return lambda _frame, _reader, args: "" if is_toolchain_module(args[0]) else what


def _variable(_frame: FrameType, reader: FrameType, args: Sequence[Any]) -> str:
    return "" if args[1] in reader.f_code.co_consts else "read an environment variable whose name it had to compute"


_IMPORTED = "imported"


def _imports_by_name(_frame: FrameType, _reader: FrameType, args: Sequence[Any]) -> str:
    name, package, level = (*args, None, 0)[:3]
    name = name if level == 0 else f"{package}.{name}"
    if name not in sys.modules:
        return _loads(name)
    return "" if is_toolchain_module(name) else "asked for a module by its name"


def _imports(_frame: FrameType, _reader: FrameType, args: Sequence[Any]) -> str:
    # Of an extension module that is loaded, Python tells once more.
    return _loads(args[0]) if args[1] is None else ""


def _importer(frame: FrameType) -> FrameType:
    """Who imports: from Python 3.15 on, it is the import system itself that tells of it."""
    while frame.f_code.co_filename == _BOOTSTRAP and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _loads(name: str) -> str:
    is_known = is_toolchain_module(name) or (_is_compilers(name.partition(".")[0]) and ".tests" not in name)
    return "" if is_known else f"{_IMPORTED} the module {name}"


def _is_compilers(package: str) -> bool:
    """Whether a *package* counts like the compiler or like Python's library."""
    path = getattr(sys.modules.get(package), "__file__", None)
    return path is not None and whose_code(path) is not OTHERS_CODE


def _opens(_frame: FrameType, _reader: FrameType, args: Sequence[Any]) -> str:
    return "" if args[0] == os.devnull else "opened a file"


def _evaluates(frame: FrameType, _reader: FrameType, _args: Sequence[Any]) -> str:
    """Text that was made code reads what nobody spelt, as an annotation does that names a variable."""
    return "" if frame.f_globals.get("__name__") in _MAKERS else "evaluated text"


_MAKERS = frozenset({"collections", "dataclasses"})
"""What of Python's library makes functions out of text of its own."""


_ALL_VARIABLES = _always("read all environment variables")
_FILES = _always("looked at a file")
_DIRECTORY = _always("asked for the working directory")
_SEAMS: tuple[tuple[Any, str, _Look], ...] = (
    (os._Environ, "__getitem__", _variable),
    (os._Environ, "__iter__", _ALL_VARIABLES),
    (os._Environ, "__len__", _ALL_VARIABLES),
    (os._Environ, "__repr__", _ALL_VARIABLES),
    (os, "stat", _FILES),
    (os, "lstat", _FILES),
    (os, "readlink", _FILES),
    (os, "access", _FILES),
    (linecache, "getlines", _FILES),
    (os, "getcwd", _DIRECTORY),
    (os, "getcwdb", _DIRECTORY),
    (threading.Thread, "start", _always("started a thread")),
    (_bootstrap, "_gcd_import", _imports_by_name),
    (importlib.util, "_find_spec", _unless_of_toolchain("looked for a module")),
)
_HANDLERS: dict[str, _Look] = {
    "open": _opens,
    **dict.fromkeys(("os.listdir", "os.scandir"), _always("listed a directory")),
    "import": _imports,
    "exec": _evaluates,
    "pickle.find_class": _unless_of_toolchain("unpickled what a module has"),
    **dict.fromkeys(
        ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty"),
        _always("started another program"),
    ),
    **dict.fromkeys(
        (
            "socket.__new__", "socket.gethostname", "socket.gethostbyname", "socket.gethostbyaddr",
            "socket.getaddrinfo", "socket.getnameinfo", "socket.getservbyname", "socket.getservbyport",
            "urllib.Request",
        ),
        _always("asked the network"),
    ),
    **dict.fromkeys(
        (
            "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.chown",
            "os.truncate", "os.utime", "os.chdir", "os.putenv", "os.unsetenv", "shutil.copyfile", "shutil.rmtree",
            "syslog.syslog",
        ),
        _always("changed files or the environment"),
    ),
    "sqlite3.connect": _always("read a database"),
    "ctypes.dlopen": _always("loaded a native library"),
    "builtins.input": _always("asked the user"),
}  # fmt: skip


def _audit(event: str, args: tuple[Any, ...], handlers: Mapping[str, _Look] = _HANDLERS) -> None:
    # Python tells of tens of thousands of things while sixty functions are compiled: nearly all end at the first word.
    if event in handlers:
        witness = _watching
        if witness is not None:
            witness.tell(handlers[event], args)


# -- whose code does it --------------------------------------------------------------------------

COMPILER, _LIBRARY, _ONLOOKER, OTHERS_CODE = "compiler", "library", "onlooker", "others"
_TALKERS = frozenset({"warnings", "traceback", "logging"})
"""What reads source files to show lines of them."""
_FOLLOWER = _nbcache.spec_of_others.__code__.co_filename
"""Where the code that asks finders for nbcache's own says that it is from: in a frozen app that is no path."""
_ROOTS: list[tuple[str, tuple[str, ...]]] = [
    (COMPILER, package_roots("numba", "nbcache")),
    (_LIBRARY, (*package_roots("numpy"), _FOLLOWER)),
]
_BOOTSTRAP = "<frozen importlib._bootstrap>"
_IMPORT_SYSTEM = frozenset({_BOOTSTRAP, _FOLLOWER})
"""Who asks finders for modules."""
_IMPORTERS = (
    "<frozen importlib", "<frozen zipimport", *(("PyInstaller/loader/", "pyimod") if is_frozen() else ()),
)  # fmt: skip
"""Where the code of the import system says that it is from."""
_PACKAGES = {
    **dict.fromkeys(("importlib_metadata", "lazy_importer", "zipp", "colorama"), _LIBRARY),
    **dict.fromkeys(("coverage", "pydevd", "_pydevd_bundle", "_pydev_bundle", "viztracer"), _ONLOOKER),
}
"""Packages that count like Python's library: they read for whoever calls them. The first takes the place of a module of
it, which numba-cuda asks for wheels, by the next two; the fourth colours Numba's messages, thousands of which nobody
sees. The others look on: tracers ask where a file lies in the middle of whatever is traced."""
_INSTALLED = tuple(os.sep + name + os.sep for name in ("site-packages", "dist-packages"))
_NOT_LIBRARY = (*_INSTALLED, f"{os.sep}tests{os.sep}")


def belongs_to_compiler(*directories: str) -> None:
    """What lies in these *directories* is a compiler's own: numba-cuda and what it is made of, once it is used."""
    _ROOTS.insert(0, (COMPILER, tuple(os.path.join(directory, "") for directory in directories)))
    whose_code.cache_clear()


@functools.lru_cache(maxsize=4096)
def whose_code(filename: str) -> str:
    """Who wrote the code in a file. Tests of Numba and NumPy stand for user code (ownership.py)."""
    package = _PACKAGES.get(_package(os.path.dirname(filename)))
    if filename.startswith(("<frozen ", *_IMPORTERS)) or package is not None:
        return package or _LIBRARY
    for who, roots in _ROOTS:
        for root in roots:
            if filename.startswith(root) and not any(part in filename[len(root) - 1 :] for part in _NOT_LIBRARY):
                return who
    return _LIBRARY if is_standard(filename) else OTHERS_CODE


def _package(folder: str) -> str:
    """The package that a *folder* with code is, or that it lies in, where that is installed."""
    for place in _INSTALLED:
        _before, is_there, inside = folder.rpartition(place)
        if is_there:
            return inside.partition(os.sep)[0]
    return os.path.basename(folder)


def others_caller(frame: FrameType | None) -> FrameType | None:
    """The frame of others' code that *frame* works for, or None if the toolchain works for itself.

    Whatever happens for an import is part of it, and who imports is looked at himself: finders that others have put
    on Python's list, as pytest does, look for each module that Numba imports late. Numba's modules, imported late, call
    others to set themselves up. Who listens to Numba's events takes no part in a compilation, nor does who is told of
    Python's collections: Dask looks at each how much memory there is, in whatever thread that happens to be.
    """
    found = None
    while frame is not None:
        code = frame.f_code
        who = whose_code(code.co_filename)
        if who is COMPILER:
            if code.co_name == "<module>" or code.co_filename == _EVENTS:
                return None
            # What is asked how it is pickled, say, so that it can be identified.
            return None if code.co_filename.startswith(_IDENTITY) else found
        if who is _ONLOOKER:
            return None
        if who is OTHERS_CODE:
            if any(getattr(told, "__code__", None) is code for told in gc.callbacks):
                return None
            found = found or frame
        elif code.co_filename in _IMPORT_SYSTEM or (found is None and frame.f_globals.get("__name__") in _TALKERS):
            return None
        frame = frame.f_back
    return found


_EVENTS = event.register.__code__.co_filename
_IDENTITY = os.path.dirname(is_standard.__code__.co_filename) + os.sep
