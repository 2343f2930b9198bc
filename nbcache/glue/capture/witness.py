"""What other people's Python reads from outside the process's objects while it takes part in a compilation.

Choosers, lowering functions, rewrites and passes are Python that Numba runs. What they reach counts for identity; what
they read from elsewhere nobody could know beforehand: environment variables, files, modules that are imported only
then. While a frame is open such reads are *noted* on it, as uses are (compilations.py), and an entry lists them. A hit
compares them with what is there now. What can't be compared (a socket, a child process, a file that is written) makes
the function uncacheable.

Environment variables are watched where every way to them meets, in the methods of their mapping; the working directory
and the status of files at the functions of `os`, and threads where they start, since nothing tells of them; the rest by
an audit hook. It is added when the first frame is opened, so a process that only hits has none, and looks at one
variable while none is open.

Looking at what is read reads as well, and Python tells of that too. `Witness.tell` is the one way from these places to
whatever looks, and it is closed while this thread looks: no hook is entered again from within itself, whoever nbcache's
own code is taken for.

Who reads decides. What Numba and nbcache read for themselves is in the key; Python's library and NumPy read for whoever
called them. The import system's own reads are imports: a module that a compilation was the first to load counts by its
file, and a hit loads it as well, since later code may look at it.

Numba keeps what was chosen, typed and lowered for all later callers. So what was noted in a process goes into its later
entries too, whatever they use of it.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import linecache
import os
import sys
import threading
from contextlib import contextmanager
from importlib import _bootstrap
from typing import TYPE_CHECKING, Any

from nbcache.glue.capture.readings import (
    BESIDE,
    COMPILER,
    CURRENT,
    EXISTENCE,
    FILE,
    LINES,
    LINES_BESIDE,
    MODULE,
    OTHERS_CODE,
    SOUGHT,
    STATUS,
    Reading,
    current_directory,
    digest_of_variable,
    directory_of,
    effect_of,
    is_import,
    others_caller,
    refused,
    so_far,
    whose_code,
)
from nbcache.passing import let_pass, suppressed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import FrameType

    from nbcache.glue.capture.compilations import Effect

    _Handler = Callable[["Witness", FrameType, tuple[Any, ...]], None]
    _Look = Callable[..., None]

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Witness:
    """Notes what is read by others while frames are open; one per stack of frames."""

    def __init__(self, note: Callable[[Effect], None]) -> None:
        self._note = note
        self._thread = 0
        self.paused = 0
        """How many answers are being waited for that will be asked for again, or looks are being taken."""
        self._replaced: list[tuple[Any, str, Any, Any]] = []
        self._made: dict[tuple[Any, str], tuple[Any, Any]] = {}
        """What took the place of what, last time."""

    def start(self) -> None:
        """Watch what this thread reads."""
        global _watching
        self._thread, self.paused = threading.get_ident(), 0
        for owner, name, make in _SEAMS:
            original = getattr(owner, name)
            known, replacement = self._made.get((owner, name), (None, None))
            if known is not original:
                replacement = make(self, original)
                self._made[owner, name] = original, replacement
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

    def tell(self, look: _Look, *args: Any) -> None:
        """Have *look* see what the caller's caller does with *args*, unless nobody listens or somebody looks already.

        It is called amid others' code: a look that fails is one more reason not to cache, and no exception of theirs.
        """
        if not self.listens():
            return
        self.paused += 1
        try:
            look(self, sys._getframe(2), *args)
        except Exception as raised:  # noqa: BLE001  the cache must never be the reason that a program fails
            let_pass(raised)
            self.note(refused("did something that nbcache failed to look at"))
        finally:
            self.paused -= 1

    def note(self, *readings: Reading) -> None:
        """Note what was read."""
        for reading in readings:
            so_far.setdefault(reading)
            self._note(effect_of(reading))


_watching: Witness | None = None
_hooked: list[bool] = []


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


# -- the places that are watched ---------------------------------------------------------------


def _names_one(witness: Witness, original: Any) -> Any:
    @functools.wraps(original)
    def __getitem__(self: Any, key: Any) -> Any:  # noqa: N807  stands in for the method
        value = None
        try:
            value = original(self, key)
        finally:
            witness.tell(_variable, key, value)
        return value

    return __getitem__


def _variable(witness: Witness, frame: FrameType, key: Any, value: Any) -> None:
    if others_caller(frame) is not None and isinstance(key, str | bytes):
        witness.note(Reading("the environment variable", os.fsdecode(key), digest_of_variable(value)))


def _reads_all(witness: Witness, original: Any) -> Any:
    @functools.wraps(original)
    def read(self: Any) -> Any:
        witness.tell(_noted(refused("read all environment variables")))
        return original(self)

    return read


def _noted(reading: Reading) -> _Look:
    """Notes *reading* whenever somebody's code does this."""

    def look(witness: Witness, frame: FrameType) -> None:
        if others_caller(frame) is not None:
            witness.note(reading)

    return look


def _with_path(look: _Look) -> Callable[[Witness, Any], Any]:
    """A function of one path, which *look* sees before."""

    def make(witness: Witness, original: Any) -> Any:
        @functools.wraps(original)
        def call(path: Any, *args: Any, **kwargs: Any) -> Any:
            witness.tell(look, path)
            return original(path, *args, **kwargs)

        return call

    return make


def _stat(witness: Witness, frame: FrameType, path: Any) -> None:
    if (reader := others_caller(frame)) is not None:
        _note_path(witness, EXISTENCE if _only_asks(frame, reader) else STATUS, path)


def _only_asks(frame: FrameType, reader: FrameType) -> bool:
    """Whether the library asks, for *reader*, no more than what sort of file there is."""
    while frame.f_back is not None and frame is not reader:
        if frame.f_back is reader:
            return frame.f_code.co_name in {"exists", "lexists", "isfile", "isdir", "is_file", "is_dir"}
        frame = frame.f_back
    return False


def _path_of(kind: str) -> _Look:
    """What looks at a path and is told one thing of it, of this *kind*."""

    def look(witness: Witness, frame: FrameType, path: Any) -> None:
        if others_caller(frame) is not None:
            _note_path(witness, kind, path)

    return look


def _where(witness: Witness, original: Any) -> Any:
    @functools.wraps(original)
    def getcwd() -> Any:
        witness.tell(_directory)
        return original()

    return getcwd


def _directory(witness: Witness, frame: FrameType) -> None:
    if others_caller(frame) is not None:
        witness.note(Reading("the working directory", "", current_directory("")))


def _starting(witness: Witness, original: Any) -> Any:
    @functools.wraps(original)
    def start(self: Any) -> None:
        witness.tell(_noted(refused("started a thread")))
        original(self)

    return start


def _importing(witness: Witness, original: Any) -> Any:
    @functools.wraps(original)
    def _gcd_import(name: Any, package: Any = None, level: int = 0) -> Any:
        witness.tell(_imported, name if level == 0 else f"{package}.{name}")
        return original(name, package, level)

    return _gcd_import


def _imported(witness: Witness, frame: FrameType, name: str) -> None:
    if (reader := others_caller(frame)) is None:
        return
    if name not in sys.modules:
        witness.note(Reading(MODULE, name, None))
    elif not _spells(reader, name) and _is_somebodys(name):
        witness.note(refused("imported a module whose name it had to compute"))


def _spells(frame: FrameType, name: str) -> bool:
    """Whether the running code has the end of the module's *name* as text; then identity covers what it imports."""
    last = name.rpartition(".")[2]
    values = (*(frame.f_globals.get(each) for each in frame.f_code.co_names), *frame.f_code.co_consts)
    return any(isinstance(value, str) and value.rpartition(".")[2] == last for value in values)


def _is_somebodys(name: str) -> bool:
    path = getattr(sys.modules.get(name), "__file__", None)
    return path is not None and whose_code(path) is OTHERS_CODE


def _seeking(witness: Witness, original: Any) -> Any:
    @functools.wraps(original)
    def _find_spec(name: Any, path: Any, target: Any = None) -> Any:
        witness.tell(_sought, name)
        return original(name, path, target)

    return _find_spec


def _sought(witness: Witness, frame: FrameType, name: Any) -> None:
    if others_caller(frame) is not None:
        witness.note(Reading(SOUGHT, name, None))


_SEAMS: tuple[tuple[Any, str, Callable[[Witness, Any], Any]], ...] = (
    (os._Environ, "__getitem__", _names_one),
    (os._Environ, "__iter__", _reads_all),
    (os._Environ, "__len__", _reads_all),
    (os._Environ, "__repr__", _reads_all),
    (os, "stat", _with_path(_stat)),
    (os, "lstat", _with_path(_stat)),
    (os, "readlink", _with_path(_path_of("the link"))),
    (os, "access", _with_path(_path_of("the permissions of"))),
    (linecache, "getlines", _with_path(_path_of(LINES))),
    (os, "getcwd", _where),
    (os, "getcwdb", _where),
    (threading.Thread, "start", _starting),
    (_bootstrap, "_gcd_import", _importing),
    (importlib.util, "_find_spec", _seeking),
)


def _note_path(witness: Witness, kind: str, path: Any) -> None:
    try:
        name = os.fsdecode(os.fspath(path))
    except TypeError:
        witness.note(refused("read a file by its descriptor"))
        return
    witness.note(Reading(kind, name, CURRENT[kind](name)))
    if kind in _BESIDE and os.path.isabs(name):
        # It may have been found by where its module lies, which other checkouts have elsewhere.
        home = max(_homes_of(name), default=None)
        if home is not None:
            beside = f"{home[1]}:{name[home[0] :]}"
            witness.note(Reading(_BESIDE[kind], beside, CURRENT[_BESIDE[kind]](beside)))


_BESIDE = {FILE: BESIDE, LINES: LINES_BESIDE}


def _homes_of(path: str) -> Iterator[tuple[int, str]]:
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and path.startswith(directory_of(file)):
            yield len(directory_of(file)), name


def _opened(witness: Witness, frame: FrameType, args: tuple[Any, ...]) -> None:
    path, _mode, flags = args
    if is_import(frame) or others_caller(frame) is None:
        return
    if isinstance(flags, int) and flags & _WRITING:
        if path != os.devnull:
            witness.note(refused("wrote to a file"))
    else:
        _note_path(witness, FILE, path)


def _listed(witness: Witness, frame: FrameType, args: tuple[Any, ...]) -> None:
    if not is_import(frame) and others_caller(frame) is not None:
        _note_path(witness, "the directory", "." if args[0] is None else args[0])


def _scanned(witness: Witness, frame: FrameType, args: tuple[Any, ...]) -> None:
    """Whoever goes through a directory's entries is told what each is; and each one's status, if he asks himself."""
    _listed(witness, frame, args)
    if is_import(frame) or others_caller(frame) is None or isinstance(args[0], int):
        return
    path = os.fsdecode("." if args[0] is None else args[0])
    kind = STATUS if whose_code(frame.f_code.co_filename) is OTHERS_CODE else EXISTENCE
    with suppressed(OSError):  # then there is nothing to go through
        for name in os.listdir(path):
            _note_path(witness, kind, os.path.join(path, name))


def _first_imported(witness: Witness, frame: FrameType, args: tuple[Any, ...]) -> None:
    # Of an extension module that is loaded, this tells once more.
    if others_caller(frame) is not None and args[1] is None:
        witness.note(Reading(MODULE, args[0], None))


def _evaluated(witness: Witness, frame: FrameType, _args: tuple[Any, ...]) -> None:
    """Text that was made code reads what nobody spelt, as an annotation does that names a variable."""
    if frame.f_globals.get("__name__") in _MAKERS or _is_within_import(frame) or others_caller(frame) is None:
        return
    witness.note(refused("evaluated text"))


_MAKERS = frozenset({"collections", "dataclasses"})
"""What of Python's library makes functions out of text of its own."""


def _is_within_import(frame: FrameType | None) -> bool:
    """Whether it is a module's own code that runs, or code that this calls: modules are compared by their files."""
    while frame is not None and not is_import(frame):
        if whose_code(frame.f_code.co_filename) is COMPILER:
            return False
        frame = frame.f_back
    return frame is not None


def _refusing(what: str) -> Callable[[Witness, FrameType, tuple[Any, ...]], None]:
    def handle(witness: Witness, frame: FrameType, _args: tuple[Any, ...]) -> None:
        if not is_import(frame) and others_caller(frame) is not None:
            witness.note(refused(what))

    return handle


_HANDLERS: dict[str, _Handler] = {
    "open": _opened,
    "os.listdir": _listed,
    "os.scandir": _scanned,
    "import": _first_imported,
    "exec": _evaluated,
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
        if witness is not None:
            witness.tell(handlers[event], args)
