"""What other people's Python reads from outside the process's objects while it takes part in a compilation.

Choosers, lowering functions, rewrites and passes are Python that Numba runs. What they reach counts for identity; what
they read from elsewhere nobody could know beforehand: environment variables, files, modules that are imported only
then. While a frame is open such reads are *noted* on it, as uses are (frames.py), and an entry lists them. A hit
compares them with what is there now. What can't be compared (a socket, a child process, a file that is written) makes
the function uncacheable.

Environment variables are watched where every way to them meets, in the methods of their mapping; the working directory
and the status of files at the functions of `os`, since nothing tells of them; the rest by an audit hook. It is added
when the first frame is opened, so a process that only hits has none, and looks at one variable while none is open.

Who reads decides. What Numba and nbcache read for themselves is in the key; Python's library and NumPy read for whoever
called them. The import system's own reads are imports: a module that a compilation was the first to load counts by its
file, and a hit loads it as well, since later code may look at it.

Numba keeps what was chosen, typed and lowered for all later callers. So what was noted in a process goes into its later
entries too, whatever they use of it.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import os
import stat
import sys
import threading
from contextlib import contextmanager
from importlib import _bootstrap
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np
from numba.core import event

from nbcache.passing import let_pass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import FrameType

    from nbcache.glue.frames import Effect, Frame

    _Handler = Callable[["Witness", FrameType, tuple[Any, ...]], None]

LARGEST_FILE = 4 << 20
"""What is larger [bytes] isn't read again for each hit."""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
READING = "reading"
_FILE, _BESIDE, _EXISTENCE = "the file", "the file beside", "the existence of"
_UNREADABLE = "unreadable"


class Reading(NamedTuple):
    """One thing that was read.

    ``kind``: one of those in `_CURRENT`, or "refused": then ``name`` is the reason. ``value``: a digest, "" for what
    isn't there; None until the compilation is over, for modules.
    """

    kind: str
    name: str
    value: str | None = ""


def effect_of(reading: Reading) -> Effect:
    """As callers of what was compiled come to know of it."""
    from nbcache.glue.frames import Effect

    return Effect(READING, reading, (), None, (), True)


class Witness:
    """Notes what is read by others while frames are open; one per stack of frames."""

    def __init__(self, note: Callable[[Effect], None]) -> None:
        self._note = note
        self._thread = 0
        self.paused = 0
        """How many answers are being waited for that will be asked for again."""
        self._replaced: list[tuple[Any, str, Any, Any]] = []

    def start(self) -> None:
        """Watch what this thread reads."""
        global _watching
        self._thread, self.paused = threading.get_ident(), 0
        for owner, name, make in _SEAMS:
            original = getattr(owner, name)
            replacement = make(self, original)
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

    def listens(self) -> bool:
        """Whether this thread is the one that compiles."""
        return not self.paused and threading.get_ident() == self._thread

    def note(self, *readings: Reading) -> None:
        """Note what was read."""
        for reading in readings:
            _so_far.setdefault(reading)
            self._note(effect_of(reading))


_watching: Witness | None = None
_hooked: list[bool] = []
_so_far: dict[Reading, None] = {}
"""Everything noted in this process, in order."""


@contextmanager
def looking_away() -> Iterator[None]:
    """While this is entered, nothing is noted of what this thread reads: it will be read again on a hit."""
    witness = _watching
    if witness is None or not witness.listens():
        yield
        return
    witness.paused += 1
    try:
        yield
    finally:
        witness.paused -= 1


# -- whose code reads --------------------------------------------------------------------------

_COMPILER, _LIBRARY, _OTHERS = "compiler", "library", "others"
_TALKERS = frozenset({"warnings", "traceback", "logging"})
"""What reads source files to show lines of them."""


def _directory(path: str) -> str:
    return os.path.dirname(path) + os.sep


_ROOTS = (
    (_COMPILER, (_directory(numba.__file__), _directory(os.path.dirname(__file__)))),
    (_LIBRARY, (_directory(np.__file__), _directory(os.__file__))),
)
_NOT_LIBRARY = tuple(os.sep + name + os.sep for name in ("site-packages", "dist-packages", "tests"))


@functools.lru_cache(maxsize=4096)
def _whose(filename: str) -> str:
    """Who wrote the code in a file. Tests of Numba and NumPy stand for user code (ownership.py)."""
    if filename.startswith("<frozen "):
        return _LIBRARY
    for who, roots in _ROOTS:
        for root in roots:
            if filename.startswith(root) and not any(part in filename[len(root) - 1 :] for part in _NOT_LIBRARY):
                return who
    return _OTHERS


def _others(frame: FrameType | None) -> FrameType | None:
    """The frame of others' code that *frame* works for, or None if the toolchain works for itself.

    A module's own code works for whoever imports it; Numba's modules, imported late, call others to set themselves up.
    Who listens to Numba's events takes no part in a compilation.
    """
    found = None
    while frame is not None:
        code = frame.f_code
        who = _whose(code.co_filename)
        if who is _COMPILER:
            return None if code.co_name == "<module>" or code.co_filename == _EVENTS else found
        if who is _OTHERS:
            found = found or frame
        elif code.co_name == "exec_module":
            found = None
        elif found is None and frame.f_globals.get("__name__") in _TALKERS:
            return None
        frame = frame.f_back
    return found


_EVENTS = event.__file__


def reads_for_others(frame: FrameType | None) -> bool:
    """Whether *frame* works for somebody's code: the nearest that isn't Python's library or NumPy decides."""
    while frame is not None:
        who = _whose(frame.f_code.co_filename)
        if who is not _LIBRARY:
            return who is _OTHERS
        frame = frame.f_back
    return False


def environment_variable(name: str) -> str:
    """What an environment variable holds, in a form that tells nobody; "" if there is none."""
    return _environment_variable(name)


def _is_import(frame: FrameType) -> bool:
    """Whether the import system reads for itself: it also hands data to others (``get_data``)."""
    code = frame.f_code
    if not code.co_filename.startswith("<frozen importlib"):
        return False
    caller = frame.f_back
    return code.co_name != "get_data" or (caller is not None and caller.f_code.co_name == "get_code")


# -- what is compared --------------------------------------------------------------------------


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _environment_variable(name: str) -> str:
    value = os.environ.get(name)
    return "" if value is None else _digest(os.fsencode(value))


def _content(path: str) -> str:
    """Of a file; nothing else can be told by looking at it again."""
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST_FILE:
                return _digest(file.read())
            return _UNREADABLE
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, ValueError) as raised:
        let_pass(raised)
        return _UNREADABLE


def _listing(path: str) -> str:
    try:
        return _digest("\0".join(sorted(os.listdir(path))).encode("utf-8", "surrogateescape"))
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, ValueError) as raised:
        let_pass(raised)
        return _UNREADABLE


def _status(path: str) -> str:
    try:
        status = os.stat(path)
    except (OSError, ValueError) as raised:
        let_pass(raised)
        return ""
    size, modified = (status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else (0, 0)
    return _digest(repr((status.st_mode, size, modified)).encode())


def _sort_of_file(path: str) -> str:
    try:
        return str(stat.S_IFMT(os.stat(path).st_mode))
    except (OSError, ValueError) as raised:
        let_pass(raised)
        return ""


def _working_directory(_name: str) -> str:
    try:
        return _digest(os.fsencode(os.getcwd()))
    except OSError as raised:
        let_pass(raised)
        return ""


def _module(name: str) -> str:
    """A module by its file, loaded or not; "" if there is none."""
    try:
        spec = getattr(sys.modules.get(name), "__spec__", None) or _find(name)
    except Exception as raised:  # noqa: BLE001  finders are others' code; what they raise an import would raise too
        let_pass(raised)
        return _UNREADABLE
    if spec is None:
        return ""
    if spec.origin is None or not spec.has_location:
        return "namespace" if spec.submodule_search_locations is not None else str(spec.origin)
    return _content(spec.origin)


def _find(name: str) -> Any:
    """The spec of a module, without importing the packages around it."""
    parent = name.rpartition(".")[0]
    path = None
    if parent:
        around = getattr(sys.modules.get(parent), "__spec__", None) or _find(parent)
        path = None if around is None else around.submodule_search_locations
        if path is None:
            return None
    return importlib.util._find_spec(name, path)  # type: ignore[attr-defined]


def _beside(name: str) -> str:
    """The content of a file that is known by where it lies from a module's own."""
    module, _, path = name.partition(":")
    home = getattr(sys.modules.get(module), "__file__", None)
    return _UNREADABLE if home is None else _content(os.path.join(os.path.dirname(home), path))


_CURRENT: dict[str, Callable[[str], str]] = {
    "the environment variable": _environment_variable,
    _FILE: _content,
    _BESIDE: _beside,
    "the directory": _listing,
    "the status of": _status,
    _EXISTENCE: _sort_of_file,
    "the working directory": _working_directory,
    "the module": _module,
}


def objection(readings: Iterable[tuple[str, str, str]]) -> str | None:
    """Why something compiled under these *readings* isn't what would be compiled now, or None."""
    for kind, name, value in readings:
        if _CURRENT[kind](name) != value:
            return f"compiling it read {_in_words(kind, name)}, which is another now"
    return None


def _in_words(kind: str, name: str) -> str:
    words = os.path.basename(name) if kind not in {"the environment variable", "the module"} else name
    return f"{kind} {words}".rstrip()


def load_modules(readings: Iterable[tuple[str, str, str]]) -> None:
    """Import what compiling would have imported: what is identified later may look at it."""
    for kind, name, value in readings:
        if kind == "the module" and value and name not in sys.modules:
            importlib.import_module(name)


def settle(frame: Frame) -> None:
    """Complete what was noted on *frame*, whose compilation is over; what can't be compared taints it."""
    noted = [effect.obj for effect in frame.effects.values() if effect.kind == READING]
    for reading in noted:
        del frame.effects[READING, reading, ()]
    for reading in dict.fromkeys([*noted, *_so_far]):
        settled = _settled(reading)
        if settled.kind == "refused":
            frame.taint = frame.taint or settled.name
        if settled.kind:
            frame.effects[READING, settled, ()] = effect_of(settled)


@functools.cache
def _settled(reading: Reading) -> Reading:
    """*reading* with what was read; of no kind if the toolchain answers for it."""
    if reading.value is None:
        spec = getattr(sys.modules.get(reading.name), "__spec__", None)
        origin = getattr(spec, "origin", None)
        if origin in {"built-in", "frozen"} or (origin is not None and _whose(origin) is not _OTHERS):
            return Reading("", "", "")
        reading = reading._replace(value=_module(reading.name))
    if reading.value == _UNREADABLE:
        return _refusal(f"read {_in_words(*reading[:2])}")
    return reading


def _refusal(what: str) -> Reading:
    return Reading("refused", f"while it was compiled, somebody's code {what}")


# -- the places that are watched ---------------------------------------------------------------


def _names_one(witness: Witness, original: Any) -> Any:
    @functools.wraps(original)
    def __getitem__(self: Any, key: Any) -> Any:  # noqa: N807  stands in for the method
        value = None
        try:
            value = original(self, key)
        finally:
            if witness.listens() and _others(sys._getframe(1)) is not None and isinstance(key, str | bytes):
                content = "" if value is None else _digest(os.fsencode(value))
                witness.note(Reading("the environment variable", os.fsdecode(key), content))
        return value

    return __getitem__


def _reads_all(witness: Witness, original: Any) -> Any:
    @functools.wraps(original)
    def read(self: Any) -> Any:
        if witness.listens() and _others(sys._getframe(1)) is not None:
            witness.note(_refusal("read all environment variables"))
        return original(self)

    return read


def _stat(witness: Witness, original: Any) -> Any:
    @functools.wraps(original)
    def status(path: Any, *args: Any, **kwargs: Any) -> Any:
        frame = sys._getframe(1)
        if witness.listens() and (reader := _others(frame)) is not None:
            _note_path(witness, _EXISTENCE if _only_asks(frame, reader) else "the status of", path)
        return original(path, *args, **kwargs)

    return status


def _only_asks(frame: FrameType, reader: FrameType) -> bool:
    """Whether the library asks, for *reader*, no more than what sort of file there is."""
    while frame.f_back is not None and frame is not reader:
        if frame.f_back is reader:
            return frame.f_code.co_name in {"exists", "lexists", "isfile", "isdir", "is_file", "is_dir"}
        frame = frame.f_back
    return False


def _where(witness: Witness, original: Any) -> Any:
    @functools.wraps(original)
    def getcwd() -> Any:
        if witness.listens() and _others(sys._getframe(1)) is not None:
            witness.note(Reading("the working directory", "", _working_directory("")))
        return original()

    return getcwd


def _importing(witness: Witness, original: Any) -> Any:
    @functools.wraps(original)
    def _gcd_import(name: Any, package: Any = None, level: int = 0) -> Any:
        if witness.listens() and (reader := _others(sys._getframe(1))) is not None:
            full = name if level == 0 else f"{package}.{name}"
            if full not in sys.modules:
                witness.note(Reading("the module", full, None))
            elif not _spells(reader, full) and _is_somebodys(full):
                witness.note(_refusal("imported a module whose name it had to compute"))
        return original(name, package, level)

    return _gcd_import


def _spells(frame: FrameType, name: str) -> bool:
    """Whether the running code has the end of the module's *name* as text; then identity covers what it imports."""
    last = name.rpartition(".")[2]
    values = (*(frame.f_globals.get(each) for each in frame.f_code.co_names), *frame.f_code.co_consts)
    return any(isinstance(value, str) and value.rpartition(".")[2] == last for value in values)


def _is_somebodys(name: str) -> bool:
    path = getattr(sys.modules.get(name), "__file__", None)
    return path is not None and _whose(path) is _OTHERS


def _seeking(witness: Witness, original: Any) -> Any:
    @functools.wraps(original)
    def _find_spec(name: Any, path: Any, target: Any = None) -> Any:
        if witness.listens() and _others(sys._getframe(1)) is not None:
            witness.note(Reading("the module", name, None))
        return original(name, path, target)

    return _find_spec


_SEAMS: tuple[tuple[Any, str, Callable[[Witness, Any], Any]], ...] = (
    (os._Environ, "__getitem__", _names_one),
    (os._Environ, "__iter__", _reads_all),
    (os._Environ, "__len__", _reads_all),
    (os._Environ, "__repr__", _reads_all),
    (os, "stat", _stat),
    (os, "lstat", _stat),
    (os, "getcwd", _where),
    (os, "getcwdb", _where),
    (_bootstrap, "_gcd_import", _importing),
    (importlib.util, "_find_spec", _seeking),
)


def _note_path(witness: Witness, kind: str, path: Any) -> None:
    try:
        name = os.fsdecode(os.fspath(path))
    except TypeError:
        witness.note(_refusal("read a file by its descriptor"))
        return
    witness.note(Reading(kind, name, _CURRENT[kind](name)))
    if kind == _FILE and os.path.isabs(name):
        # It may have been found by where its module lies, which other checkouts have elsewhere.
        home = max(_homes_of(name), default=None)
        if home is not None:
            beside = f"{home[1]}:{name[home[0] :]}"
            witness.note(Reading(_BESIDE, beside, _beside(beside)))


def _homes_of(path: str) -> Iterator[tuple[int, str]]:
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and path.startswith(_directory(file)):
            yield len(_directory(file)), name


def _opened(witness: Witness, frame: FrameType, args: tuple[Any, ...]) -> None:
    path, _mode, flags = args
    if _is_import(frame) or _others(frame) is None:
        return
    if isinstance(flags, int) and flags & _WRITING:
        if path != os.devnull:
            witness.note(_refusal("wrote to a file"))
    else:
        _note_path(witness, _FILE, path)


def _listed(witness: Witness, frame: FrameType, args: tuple[Any, ...]) -> None:
    if not _is_import(frame) and _others(frame) is not None:
        _note_path(witness, "the directory", "." if args[0] is None else args[0])


def _first_imported(witness: Witness, frame: FrameType, args: tuple[Any, ...]) -> None:
    # Of an extension module that is loaded, this tells once more.
    if _others(frame) is not None and args[1] is None:
        witness.note(Reading("the module", args[0], None))


def _refusing(what: str) -> Callable[[Witness, FrameType, tuple[Any, ...]], None]:
    def handle(witness: Witness, frame: FrameType, _args: tuple[Any, ...]) -> None:
        if not _is_import(frame) and _others(frame) is not None:
            witness.note(_refusal(what))

    return handle


_HANDLERS: dict[str, _Handler] = {
    "open": _opened,
    "os.listdir": _listed,
    "os.scandir": _listed,
    "import": _first_imported,
    **dict.fromkeys(
        ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty"),
        _refusing("started another program"),
    ),
    **dict.fromkeys(
        (
            "socket.__new__", "socket.gethostname", "socket.gethostbyname", "socket.gethostbyaddr",
            "socket.getaddrinfo", "socket.getnameinfo", "socket.getservbyname", "socket.getservbyport",
            "urllib.Request",
        ),
        _refusing("asked the network"),
    ),
    **dict.fromkeys(
        (
            "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.chown",
            "os.truncate", "os.utime", "os.chdir", "os.putenv", "os.unsetenv", "shutil.copyfile", "shutil.rmtree",
            "syslog.syslog",
        ),
        _refusing("changed files or the environment"),
    ),
    "sqlite3.connect": _refusing("read a database"),
    "ctypes.dlopen": _refusing("loaded a native library"),
    "builtins.input": _refusing("asked the user"),
}  # fmt: skip


def _audit(event: str, args: tuple[Any, ...], handlers: Mapping[str, _Handler] = _HANDLERS) -> None:
    # Python tells of tens of thousands of things while sixty functions are compiled: nearly all end at the first word.
    if event in handlers:
        witness = _watching
        if witness is not None and witness.listens():
            handlers[event](witness, sys._getframe(1), args)
