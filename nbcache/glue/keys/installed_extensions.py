"""Packages that extend Numba (``numba_extensions``), and doing without them until they are needed.

Numba loads every such package before the first compilation: a second for some, in a process that may use none of them.
A hit needs to know under which names they would register something (asked_names.py), and nothing more; so whoever loads
them writes the names down, and where an entry's names are none of these, they stay unloaded. What the program has
registered itself makes no difference: it is compared as ever.

What was written down holds for an environment in which the same distributions are installed, and as long as those
that were imported consist of the same (distributions.py); where a file is no distribution's, as in an editable
installation, its content is compared. How a package reads its environment is its own
affair. But who changes Numba itself takes part in all that is compiled, and who changes the process or what somebody
else's module holds (`_Around`), who says something or fails (`_listening`), does what a program may notice. That is
written down as well, and such packages are loaded at once.

Installed distributions count by what they consist of. So where they had no answer to anything that an entry asked, they
aren't asked again while they are the same (`InstalledExtensions.edition`), and stay unloaded as well.

As soon as one of the packages is imported by somebody, or something is to be compiled, all are loaded, as by Numba:
without the lock of its compiler. Who imports may have to wait for another thread that imports, and that one for the
lock, since modules compile while they are imported. Who has it already begins anew (`LoadFirst`).
"""

from __future__ import annotations

import abc
import dis
import hashlib
import inspect
import json
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType, FunctionType, ModuleType
from typing import Any

from numba.core import config, entrypoints
from numba.core.cpu import CPUContext
from numba.core.dispatcher import Dispatcher
from numba.core.typing.typeof import typeof_impl

from nbcache.glue.identity import process_state, unregistered
from nbcache.glue.identity.distributions import UNREADABLE, Distributions, file_digest
from nbcache.glue.identity.entry_points import declarations, metadata_in
from nbcache.glue.identity.ownership import is_toolchain_definition, is_toolchain_file, is_toolchain_module
from nbcache.glue.identity.registrations import ExtensionIndex
from nbcache.glue.identity.watched import are_same
from nbcache.glue.keys.conditions import SettingsOfThen
from nbcache.passing_exceptions import let_pass, suppressed
from nbcache.process import os, time

VERSION = 10
MOST_BYTES = 4 << 20
"""Where more than this is no distribution's, the packages are loaded each time: to read it would take as long."""


class LoadFirst(BaseException):
    """They are needed now, and this thread has the lock. None of nbcache's business to whoever catches broadly."""


class _Unlocked:
    """Around what takes Numba's lock: ends that, and loads them, where they turn out to be needed."""

    def __init__(self, load: Callable[[], None], threads: set[int]) -> None:
        self._load = load
        self._threads = threads

    def __enter__(self) -> None:
        self._threads.add(threading.get_ident())

    def __exit__(self, kind: object, *_raised: object) -> bool:
        self._threads.discard(threading.get_ident())
        if kind is LoadFirst:
            self._load()
        return kind is LoadFirst


_NOTHING: AbstractContextManager[None] = nullcontext()


class InstalledExtensions:
    """Those of this process's environment.

    ``recall(key)`` yields what was remembered under a key, here or on other hosts; ``remember(key, variant, content,
    seconds)`` keeps what took so long to find out [s]. ``patched()`` returns what others have put into Numba.
    """

    def __init__(
        self, index: ExtensionIndex, distributions: Distributions, patched: Callable[[], dict[str, Any]]
    ) -> None:
        self._index = index
        self._distributions = distributions
        self._patched = patched
        self.recall: Callable[[str], Iterable[bytes]] = lambda _key: ()
        self.remember: Callable[..., None] = lambda *_what, **_how: None
        self._key = ""
        self._declared: set[str] = set()
        self._known: frozenset[bytes] | None = None
        self._roots: frozenset[str] = frozenset()
        self._registering: frozenset[str] = frozenset()
        self._looked = self._found = False
        self._then: AbstractContextManager[None] = _NOTHING
        """Numba's settings when they began to wait."""
        self._threads: set[int] = set()
        """Those that begin anew where the packages are needed."""
        self.edition = b""
        """Identifies them by their distributions while they wait, and where they were loaded to compile; b"" if these
        don't."""

    @property
    def waiting(self) -> bool:
        """Whether there are any that may stay unloaded for now."""
        if entrypoints._already_initialized:
            return False
        if not self._looked:
            self._looked = True
            self._look()
        return self._known is not None and sys.modules.keys().isdisjoint(self._roots)

    @property
    def ahead(self) -> frozenset[str]:
        """The modules that would have registered something by now, as long as they are put off."""
        return frozenset() if entrypoints._already_initialized else self._registering

    def prepare(self) -> None:
        """Load them unless they may wait; if looking at what surrounds them fails, as Numba does, and here as well.

        Numba would do it amid a compilation, which files that are read then make opaque, and all that come after it.
        """
        if not (entrypoints._already_initialized or self.waiting):
            self._load_anyway()

    def first(self, *, is_nested: bool) -> AbstractContextManager[Any]:
        """Around what takes Numba's lock, unless that *is_nested* in a compilation; it ends early if it has to be done
        once more, since they had to be loaded first.
        """
        if entrypoints._already_initialized or is_nested or threading.get_ident() in self._threads:
            return _NOTHING
        return _Unlocked(self._load_anyway, self._threads)

    def needed(self) -> None:
        """Something is to be compiled, before which they are loaded."""
        if threading.get_ident() in self._threads and self.waiting:
            raise LoadFirst

    def load_for_children(self) -> None:
        """Load them, wait or not, where others will be forked; what is found out is nobody's but this process's."""
        self.remember = lambda *_what, **_how: None
        self.prepare_all()

    def prepare_all(self) -> None:
        """Load them, wait or not."""
        if self.waiting or not entrypoints._already_initialized:  # to know whether they wait, it looks at them
            self._load_anyway()

    def _load_anyway(self) -> None:
        try:
            self.load()
        except Exception as raised:  # noqa: BLE001  somebody's class, at which it looked, may raise what it likes
            let_pass(raised)
            entrypoints.init_all()

    def concern(self, names: Iterable[bytes]) -> bool:
        """Whether any that wait would register something for one of these names."""
        return self.waiting and self._known is not None and not self._known.isdisjoint(names)

    def load(self) -> None:
        """Load them, as Numba does before it compiles for the first time."""
        if entrypoints._already_initialized:
            return
        if threading.get_ident() in self._threads:
            raise LoadFirst
        if self._found or not self._key or not sys.modules.keys().isdisjoint(self._declared):
            with self._then:
                entrypoints.init_all()
            return
        self._index.refresh()
        filed, modules, typed = self._index.sizes(), frozenset(sys.modules), set(typeof_impl.registry)
        changes, around = (dict(self._patched()), len(unregistered.told)), _Around()
        began = time.perf_counter()
        with _listening() as heard:
            entrypoints.init_all()
        seconds = time.perf_counter() - began
        self._index.refresh()
        classes = typeof_impl.registry.keys() - typed
        alone = changes == (self._patched(), len(unregistered.told)) and not any(map(is_toolchain_definition, classes))
        alone = alone and not heard and around.is_as_it_was()
        names, registering = self._index.since_then(filed)
        # Classes made by calling ABCMeta say that they are from there; who has one has imported the package.
        matter = {name.partition(".")[0] for name in (*registering, *(cls.__module__ for cls in classes))}
        roots = (matter | self._declared) - {abc.__name__}
        sources = self._sources(sys.modules.keys() - modules)
        if roots.isdisjoint(modules) and sources is not None:
            spelt = sorted(name.hex() for name in names) if alone else None
            states = [*map(self._state_of, sorted(roots))]
            edition = _digest([spelt, sorted(registering), states]) if all(states) else ""
            known = {
                "names": spelt,
                "registering": sorted(registering),
                "roots": sorted(roots),
                "edition": edition,
                **sources,
            }
            self.edition = bytes.fromhex(edition)
            self.remember(self._key, _digest(known), json.dumps({"version": VERSION, **known}).encode(), seconds)

    def _look(self) -> None:
        declared = declarations()
        if declared is None:  # only `importlib.metadata` can tell
            return
        if not declared:
            entrypoints._already_initialized = True
            return
        self._declared = {root for _path, entries in declared for root in _roots_in(entries)}
        installed = [sorted(metadata_in(folder)) for folder in sys.path if folder]
        self._key = _digest([VERSION, sys.prefix, sys.version, declared, installed])
        if not sys.modules.keys().isdisjoint(self._declared):
            return
        for content in self.recall(self._key):
            remembered = _read(content)
            if remembered is not None and self._holds(remembered):
                self._found = True
                self._roots = frozenset(remembered["roots"])
                self._registering = frozenset(remembered["registering"])
                self.edition = bytes.fromhex(remembered["edition"])
                if remembered["names"] is not None:
                    self._then = SettingsOfThen()
                    self._known = frozenset(map(bytes.fromhex, remembered["names"]))
                return

    def _state_of(self, root: str) -> str | None:
        """That of the distribution from which a loaded package is; None where it is from none."""
        metadata = self._distributions.metadata_of(getattr(sys.modules.get(root), "__file__", None) or "")
        return None if metadata is None else self._distributions.state_of(metadata)

    def _sources(self, modules: Collection[str]) -> dict[str, dict[str, str]] | None:
        """What *modules* that were loaded came from; None if that can't be compared in another process."""
        distributions: dict[str, str] = {}
        files: dict[str, str] = {}
        size = 0
        for name in sorted(modules):
            path = getattr(sys.modules.get(name), "__file__", None)
            if not isinstance(path, str) or is_toolchain_file(path):
                continue
            metadata = self._distributions.metadata_of(path)
            if metadata is not None:
                distributions[metadata] = self._distributions.state_of(metadata) or ""
            else:
                files[path] = file_digest(path).hex()
                size += os.path.getsize(path) if os.path.exists(path) else MOST_BYTES
            if size > MOST_BYTES:
                return None
        return {"distributions": distributions, "files": files}

    def _holds(self, remembered: dict[str, Any]) -> bool:
        """Whether what they came from is what it was."""
        known, files = remembered["distributions"], remembered["files"]
        if any(self._distributions.state_of(metadata) != state for metadata, state in known.items()):
            return False
        return all(file_digest(path).hex() == content != UNREADABLE.hex() for path, content in files.items())


@contextmanager
def warning_as_numba(tell: Callable[[str], object] | None = None) -> Iterator[None]:
    """What Numba warns of packages that fail is given where plain Numba gives it, and *tell* is told.

    Numba counts the callers on Python's stack, some of which are nbcache's here.
    """
    before = entrypoints.warnings

    class Warner:
        @staticmethod
        def warn(message: str, stacklevel: int) -> None:
            if tell is not None:
                tell(message)
            if before is not warnings:  # further out is another of these
                before.warn(message, stacklevel=stacklevel)
                return
            scope, path, line = _numbas_caller(sys._getframe(), stacklevel)
            registry = scope.setdefault("__warningregistry__", {})
            warnings.warn_explicit(message, UserWarning, path, line, scope.get("__name__", "<string>"), registry, scope)

    entrypoints.warnings = Warner
    try:
        yield
    finally:
        entrypoints.warnings = before


def _numbas_caller(frame: FrameType, level: int) -> tuple[dict[str, Any], str, int]:
    """Globals, file and line of who stands at this *level* above nbcache, if nobody of nbcache's were in between."""
    on_its_own = False
    while level > 0 and frame.f_back is not None:
        frame = frame.f_back
        on_its_own |= frame.f_code is InstalledExtensions.load.__code__
        level -= not str(frame.f_globals.get("__name__")).startswith("nbcache.")
    hook = inspect.unwrap(Dispatcher._compilation_chain_init_hook)
    if frame.f_code.co_filename == hook.__code__.co_filename:
        return _where_it_loads(hook)
    if on_its_own:  # for a signature that comes with the function, Numba has its context load them
        return _where_it_loads(inspect.unwrap(CPUContext.load_additional_registries))
    return frame.f_globals, frame.f_code.co_filename, frame.f_lineno


def _where_it_loads(function: Any) -> tuple[dict[str, Any], str, int]:
    """Globals, file and line where a function of Numba's has extensions loaded."""
    code = function.__code__
    at = next(each.offset for each in dis.get_instructions(code) if each.argval == entrypoints.init_all.__name__)
    line = next(line for start, end, line in code.co_lines() if start <= at < end)
    return function.__globals__, code.co_filename, line


@contextmanager
def _listening() -> Iterator[list[str]]:
    """Note what this thread writes to the standard streams meanwhile, and what Numba warns of."""
    heard: list[str] = []
    thread, before = threading.get_ident(), []

    def noting(write: Callable[[str], object]) -> Callable[[str], object]:
        def noted(text: str) -> object:
            if threading.get_ident() == thread:
                heard.append(text)
            return write(text)

        return noted

    stream: Any
    for stream in {id(each): each for each in (sys.stdout, sys.stderr)}.values():
        # In the stream itself, which anybody may keep or compare; some can't be changed.
        with suppressed(AttributeError, TypeError):
            held = vars(stream).get("write")
            stream.write = noting(stream.write)
            before.append((stream, held))
    try:
        with warning_as_numba(heard.append):
            yield heard
    finally:
        for stream, held in before:
            if held is None:
                del stream.write
            else:
                stream.write = held


class _Around:
    """What surrounds the packages that are loaded: the settings of the process and of Numba, and what is in others'
    modules, with what their classes, objects and containers hold.
    """

    def __init__(self) -> None:
        self._settings = process_state.settings()
        modules = [vars(module) for name, module in [*sys.modules.items()] if _is_others(name, module)]
        inside = [_inside(value) for members in modules for value in [*members.values()]]
        # A logger that is made meanwhile is the packages' own.
        logs = [getattr(each, "handlers", []) for each in (logging.root, *logging.root.manager.loggerDict.values())]
        self._holders = [vars(config), *modules, *logs, *(each for each in inside if each is not None)]
        self._held = [*map(_copied, self._holders)]

    def is_as_it_was(self) -> bool:
        """Whether all of it is the same as when this was made."""
        return self._settings == process_state.settings() and all(map(_holds_the_same, self._holders, self._held))


def _is_others(name: str, module: object) -> bool:
    return type(module) is ModuleType and not is_toolchain_module(name) and name.partition(".")[0] != "nbcache"


def _inside(value: Any) -> Any:
    """What holds the parts of a value, asked without running anybody's code; None for what has none."""
    from nbcache.glue.identity.instances import dictionary_of  # a process that only hits asks no objects

    kind = type(value)
    if kind in {dict, list, set}:
        return value
    return None if kind is FunctionType or issubclass(kind, ModuleType) else dictionary_of(value)


def _copied(holder: Any) -> Any:
    return [*holder] if type(holder) in {list, set} else dict(holder)


def _holds_the_same(holder: Any, before: Any) -> bool:
    now = _copied(holder)
    if type(now) is list:
        return are_same(now, before)
    if are_same([*now, *now.values()], [*before, *before.values()]):  # as nearly all do
        return True
    return are_same(_counted(now, holder), _counted(before, holder))


def _counted(members: dict[Any, Any], holder: Any) -> list[Any]:
    """What counts of the members that a holder has or had."""
    # What nothing loaded is a name under which C code that is loaded finds the classes it shares: Cython's runtime.
    uncounted = (ModuleType, type) if holder.get("__loader__", holder) is None else ModuleType
    return [part for item in members.items() if _counts(*item, uncounted) for part in item]


def _counts(name: object, value: object, uncounted: Any) -> bool:
    """Whether that is no module, which becomes a member of its package, and nothing that Python keeps there."""
    return not issubclass(type(value), uncounted) and not (type(name) is str and name.startswith("__"))


def _roots_in(entries: str) -> list[str]:
    """The packages of the modules that the entry points of a distribution name."""
    values = (line.partition("=")[2].strip() for line in entries.splitlines() if "=" in line)
    return [value.partition(":")[0].partition(".")[0].strip() for value in values]


def _digest(what: object) -> str:
    text = json.dumps(what, sort_keys=True)
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=32).hexdigest()


def _read(content: bytes) -> dict[str, Any] | None:
    """What was written down, or None for anything else."""
    with suppressed(ValueError, TypeError, KeyError, AttributeError):
        found: dict[str, Any] = json.loads(content)
        wanted = {"names", "registering", "roots", "edition", "distributions", "files"}
        return found if found.pop("version") == VERSION and wanted <= found.keys() else None
    return None
