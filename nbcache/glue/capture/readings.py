"""What was read from outside the process's objects: what it was, and whether it is so still."""

from __future__ import annotations

import functools
import gc
import hashlib
import importlib
import importlib.util
import linecache
import os
import stat
import sys
from typing import TYPE_CHECKING, Any

from numba.core import event

from nbcache.glue.identity.roots import is_standard, package_roots
from nbcache.passing import let_pass
from nbcache.process import is_frozen
from nbcache.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType

    from nbcache.glue.capture.compilations import Effect, Frame

LARGEST_FILE = 4 << 20
"""What is larger [bytes] isn't read again for each hit."""
READING = "reading"
FILE, BESIDE, EXISTENCE = "the file", "the file beside", "the existence of"
STATUS = "the status of"
LINES, LINES_BESIDE = "the lines of", "the lines beside"
MODULE, SOUGHT = "the module", "the place of the module"
"""One that was imported, and one that was only looked for."""
_UNREADABLE = "unreadable"


class Reading(Record):
    """One thing that was read.

    ``kind``: one of those in `CURRENT`, or "refused": then ``name`` is the reason. ``value``: a digest, "" for what
    isn't there; None until the compilation is over, for modules.
    """

    kind: str
    name: str
    value: str | None = ""


def effect_of(reading: Reading) -> Effect:
    """As callers of what was compiled come to know of it."""
    from nbcache.glue.capture.compilations import Effect

    return Effect(READING, reading, (), None, (), True)


so_far: dict[Reading, None] = {}
"""Everything noted in this process, in order."""


# -- whose code reads --------------------------------------------------------------------------

COMPILER, _LIBRARY, OTHERS_CODE = "compiler", "library", "others"
_TALKERS = frozenset({"warnings", "traceback", "logging"})
"""What reads source files to show lines of them."""


def directory_of(path: str) -> str:
    """Return what the names of all files in the same directory begin with."""
    return os.path.dirname(path) + os.sep


_ROOTS: list[tuple[str, tuple[str, ...]]] = [
    (COMPILER, package_roots("numba", "nbcache")),
    (_LIBRARY, package_roots("numpy")),
]
_IMPORTERS = (
    "<frozen importlib", "<frozen zipimport", *(("PyInstaller/loader/", "pyimod") if is_frozen() else ()),
)  # fmt: skip
"""Where the code of the import system says that it is from."""
_LIKE_LIBRARY = frozenset({"importlib_metadata", "colorama"})
"""Packages that count like Python's library: they read for whoever calls them. The first takes the place of a module of
it, which numba-cuda asks for wheels; the second colours Numba's messages, thousands of which nobody sees."""
_NOT_LIBRARY = tuple(os.sep + name + os.sep for name in ("site-packages", "dist-packages", "tests"))


def belongs_to_compiler(*directories: str) -> None:
    """What lies in these *directories* is a compiler's own: numba-cuda and what it is made of, once it is used."""
    _ROOTS.insert(0, (COMPILER, tuple(os.path.join(directory, "") for directory in directories)))
    whose_code.cache_clear()


@functools.lru_cache(maxsize=4096)
def whose_code(filename: str) -> str:
    """Who wrote the code in a file. Tests of Numba and NumPy stand for user code (ownership.py)."""
    if filename.startswith(("<frozen ", *_IMPORTERS)) or os.path.basename(os.path.dirname(filename)) in _LIKE_LIBRARY:
        return _LIBRARY
    for who, roots in _ROOTS:
        for root in roots:
            if filename.startswith(root) and not any(part in filename[len(root) - 1 :] for part in _NOT_LIBRARY):
                return who
    return _LIBRARY if is_standard(filename) else OTHERS_CODE


def others_caller(frame: FrameType | None) -> FrameType | None:
    """The frame of others' code that *frame* works for, or None if the toolchain works for itself.

    A module's own code works for whoever imports it; Numba's modules, imported late, call others to set themselves up.
    Who listens to Numba's events takes no part in a compilation, nor does who is told of Python's collections: Dask
    looks at each how much memory there is, in whatever thread that happens to be.
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
        if who is OTHERS_CODE:
            if any(getattr(told, "__code__", None) is code for told in gc.callbacks):
                return None
            found = found or frame
        elif code.co_name == "exec_module":
            found = None
        elif found is None and frame.f_globals.get("__name__") in _TALKERS:
            return None
        frame = frame.f_back
    return found


_EVENTS = event.register.__code__.co_filename
_IDENTITY = directory_of(is_standard.__code__.co_filename)


def environment_variable(name: str) -> str:
    """What an environment variable holds, in a form that tells nobody; "" if there is none."""
    return digest_of_variable(os.environ.get(name))


def digest_of_variable(value: str | bytes | None) -> str:
    """Return the same of the *value* that somebody was given."""
    return "" if value is None else content_digest(os.fsencode(value))


def is_import(frame: FrameType) -> bool:
    """Whether the import system reads for itself: it also hands data to others (``get_data``)."""
    found: FrameType | None = frame
    while found is not None and found.f_code.co_filename.startswith(_IMPORTERS):
        if found.f_code.co_name == "get_data":
            return found.f_back is not None and found.f_back.f_code.co_name == "get_code"
        found = found.f_back
    return found is not frame


# -- what is compared --------------------------------------------------------------------------


def content_digest(content: bytes) -> str:
    """Return what is noted for a content."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _as_far_as_readable(look: Callable[[str], str]) -> Callable[[str], str]:
    """Of what isn't there "", and of what can't be read that."""

    @functools.wraps(look)
    def looked(path: str) -> str:
        try:
            return look(path)
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except (OSError, ValueError) as raised:
            let_pass(raised)
            return _UNREADABLE

    return looked


@_as_far_as_readable
def _content(path: str) -> str:
    """Of a file; nothing else can be told by looking at it again."""
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST_FILE:
            return content_digest(file.read())
        return _UNREADABLE


@_as_far_as_readable
def _listing(path: str) -> str:
    return content_digest("\0".join(sorted(os.listdir(path))).encode("utf-8", "surrogateescape"))


def _status(path: str) -> str:
    """Of a file, and of a directory what is in it: when that changed is asked to know whether it did."""
    try:
        status = os.stat(path)
    except (OSError, ValueError) as raised:
        let_pass(raised)
        return ""
    size, modified = (status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else (0, 0)
    inside = _listing(path) if stat.S_ISDIR(status.st_mode) else ""
    return content_digest(repr((status.st_mode, size, modified, inside)).encode())


def _sort_of_file(path: str) -> str:
    try:
        return str(stat.S_IFMT(os.stat(path).st_mode))
    except (OSError, ValueError) as raised:
        let_pass(raised)
        return ""


def current_directory(_name: str) -> str:
    """Return what is noted for where the process is."""
    try:
        return content_digest(os.fsencode(os.getcwd()))
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
    from nbcache.glue.identity.files import UNREADABLE, code_digest, is_bytecode  # few hits compare modules

    source = "" if is_bytecode(spec.origin) else _content(spec.origin)
    if source:
        return source
    digest = code_digest(spec)
    return "" if digest == UNREADABLE else digest.hex()


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


def _beside(look: Callable[[str], str]) -> Callable[[str], str]:
    """*look* for a file that is known by where it lies from a module's own."""

    def look_beside(name: str) -> str:
        module, _, path = name.partition(":")
        home = getattr(sys.modules.get(module), "__file__", None)
        return _UNREADABLE if home is None else look(os.path.join(os.path.dirname(home), path))

    return look_beside


def _lines(path: str) -> str:
    """Of a source file, as Python's library keeps them: what it has read before, it may not read again."""
    return content_digest("".join(linecache.getlines(path)).encode("utf-8", "surrogatepass"))


def _link(path: str) -> str:
    try:
        return content_digest(os.fsencode(os.readlink(path)))
    except (OSError, ValueError) as raised:
        let_pass(raised)
        return ""


def _permissions(path: str) -> str:
    return "".join(str(int(os.access(path, mode))) for mode in (os.F_OK, os.R_OK, os.W_OK, os.X_OK))


CURRENT: dict[str, Callable[[str], str]] = {
    "the environment variable": environment_variable,
    FILE: _content,
    BESIDE: _beside(_content),
    LINES: _lines,
    LINES_BESIDE: _beside(_lines),
    "the link": _link,
    "the permissions of": _permissions,
    "the directory": _listing,
    STATUS: _status,
    EXISTENCE: _sort_of_file,
    "the working directory": current_directory,
    MODULE: _module,
    SOUGHT: _module,
}


def objection(readings: Iterable[tuple[str, str, str]]) -> str | None:
    """Why something compiled under these *readings* isn't what would be compiled now, or None."""
    for kind, name, value in readings:
        look = CURRENT.get(kind)
        if look is None:
            return name  # refused, after the compilation was taken for finished
        if look(name) != value:
            return f"compiling it read {_in_words(kind, name)}, which is another now"
    return None


def _in_words(kind: str, name: str) -> str:
    words = os.path.basename(name) if kind not in {"the environment variable", MODULE, SOUGHT} else name
    return f"{kind} {words}".rstrip()


def load_modules(readings: Iterable[tuple[str, str, str]]) -> None:
    """Import what compiling would have imported: what is identified later may look at it."""
    for kind, name, value in readings:
        if kind == MODULE and value and name not in sys.modules:
            try:
                importlib.import_module(name)
            except SystemExit as raised:  # whoever imported it may have caught that
                msg = f"{name} ends the process"
                raise ImportError(msg) from raised
            so_far[Reading(MODULE, name, None)] = None  # nobody will notice that compiling would have imported it


def settle(frame: Frame) -> None:
    """Complete what was noted on *frame*, whose compilation is over; what can't be compared taints it."""
    noted = [effect.obj for effect in frame.effects.values() if effect.kind == READING]
    for reading in noted:
        del frame.effects[READING, reading, ()]
    for reading in dict.fromkeys([*noted, *so_far]):
        settled = _settled(reading)
        if settled.kind == "refused":
            frame.taint = frame.taint or settled.name
        if settled.kind:
            frame.effects[READING, settled, ()] = effect_of(settled)


def _is_the_toolchains(name: str) -> bool:
    try:
        origin = getattr(_find(name), "origin", None)
    except Exception as raised:  # noqa: BLE001  finders are others' code
        let_pass(raised)
        return False
    return origin is not None and whose_code(origin) is not OTHERS_CODE


@functools.cache
def _settled(reading: Reading) -> Reading:
    """*reading* with what was read; of no kind if the toolchain answers for it."""
    if reading.value is None:
        loaded = reading.name in sys.modules
        spec = getattr(sys.modules.get(reading.name), "__spec__", None)
        origin = getattr(spec, "origin", None)
        if origin in {"built-in", "frozen"} or (origin is not None and whose_code(origin) is not OTHERS_CODE):
            return Reading("", "", "")
        reading = reading._replace(value=_module(reading.name))
        if reading.kind == MODULE and reading.value and not loaded:
            # Importing it raised, or it is gone again: loading it on a hit would do something else.
            if _is_the_toolchains(reading.name):
                return reading._replace(kind=SOUGHT)
            return refused("imported a module that isn't there afterwards")
    if reading.value == _UNREADABLE:
        return refused(f"read {_in_words(*reading[:2])}")
    return reading


def refused(what: str) -> Reading:
    """Return what is noted for something that can't be compared later, and so makes a function uncacheable."""
    return Reading("refused", f"while it was compiled, somebody's code {what}")
