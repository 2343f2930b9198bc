"""Packages that extend Numba (``numba_extensions``), and doing without them until they are needed.

Numba loads every such package before the first compilation: a second for some, in a process that may use
none of them.  A hit needs to know what they would register, and nothing more; so whoever loads them first
writes down the names (consulted.py), and where an entry's names are none of these, they stay unloaded.

What was written down holds as long as the packages are what they were: the same declarations, and each file
that loading them imported with the same size, time stamps and inode, and the environment variables that they
read.  On another host, or where they were installed anew, what the files contain is compared instead, once: then
it is written down again, with the stamps that they have there.  It is only written down where loading them did
nothing else that a program could see: no line was printed, no module that was there before has another value in
it, nor is in what it holds another value (two levels deep), and what can be set of Python and its library
(warnings' filters, handlers of logs and signals, seeds...) is as it was.  As soon as one of the packages is
imported by somebody, or something is to be compiled, they are loaded, as Numba would have.
"""

from __future__ import annotations

import abc
import hashlib
import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numba.core import entrypoints
from numba.core.typing.typeof import typeof_impl

from nbcache.glue.identity.declared import declarations
from nbcache.glue.identity.ownership import is_toolchain_definition
from nbcache.glue.keys.distributions import stamp
from nbcache.process import os, time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nbcache.glue.identity.registrations import ExtensionIndex
    from nbcache.glue.keys.scene import Scene

VERSION = 4
MOST_FILES = 20_000
"""What imports more than this is loaded each time: looking at its files would take as long."""
MOST_BYTES = 64 << 20
"""Of larger files together nobody compares the contents: reading them would take as long."""


class InstalledExtensions:
    """Those of this process's environment.

    ``recall(key)`` yields what was remembered under a key, here or on other hosts; ``remember(key, variant, content,
    seconds)`` keeps what took so long to find out [s], and tells other hosts unless ``here`` says that it is of no use
    to them.
    """

    def __init__(self, index: ExtensionIndex) -> None:
        self._index = index
        self.recall: Callable[[str], Iterable[bytes]] = lambda _key: ()
        self.remember: Callable[..., None] = lambda *_what, **_how: None
        self._key = ""
        self._declared: list[str] = []
        self._known: frozenset[bytes] | None = None
        self._roots: tuple[str, ...] = ()
        self._looked = False
        self._is_told = False
        """Whether anything is remembered of them, be it of no use."""

    @property
    def waiting(self) -> bool:
        """Whether there are any that may stay unloaded for now."""
        if entrypoints._already_initialized:
            return False
        if not self._looked:
            self._looked = True
            self._look()
        return self._known is not None and sys.modules.keys().isdisjoint(self._roots)

    def prepare(self) -> None:
        """Load them unless they may wait."""
        if not self.waiting:
            self.load()

    def concern(self, names: Iterable[bytes]) -> bool:
        """Whether any that wait would register something for one of these names."""
        return self.waiting and self._known is not None and not self._known.isdisjoint(names)

    def load(self) -> None:
        """Load them, as Numba does before it compiles for the first time."""
        if entrypoints._already_initialized:
            return
        if self._known is not None or not self._key or not self._index.empty:
            entrypoints.init_all()
            return
        from nbcache.glue.keys.scene import Scene

        before, quiet, began = Scene(), False, time.perf_counter()
        try:
            entrypoints.init_all()
        finally:
            quiet = before.quiet()
        seconds = time.perf_counter() - began
        self._index.refresh()
        known = self._description(before) if quiet else None
        if known is not None:
            files = known.pop("files")
            # As every host would call it that has the same files.
            variant = _digest(known) if "digests" in known else f"{_digest(known)}#{_digest(files)}"
            self.remember(self._key, variant, _written(known, files), seconds, here="digests" not in known)
        elif not self._is_told:
            # So that nobody asks other hosts each time.
            self.remember(self._key, "", _written({}, {}), seconds, here=True)

    def _look(self) -> None:
        declared = declarations()
        if declared is None:  # only `importlib.metadata` can tell
            return
        if not declared:
            entrypoints._already_initialized = True
            return
        text = json.dumps([VERSION, sys.prefix, sys.version, declared])
        self._declared = [module for _path, entries in declared for module in _modules_in(entries)]
        self._key = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=32).hexdigest()
        self._index.refresh()
        if not self._index.empty:  # what these register might have been registered by loading one that waits
            return
        for content in self.recall(self._key):
            self._is_told = True
            remembered = _read(content)
            if remembered is None or not _holds(remembered):
                continue
            files = remembered.pop("files")
            stamps = {path: stamp(path) for path in files}
            if stamps != files:
                digests = remembered.get("digests", {})
                if any(path not in digests or _content_of(path) != digests[path] for path in files):
                    continue
                variant = f"{_digest(remembered)}#{_digest(stamps)}"
                self.remember(self._key, variant, _written(remembered, stamps), 0.0, here=True)
            self._known = frozenset(map(bytes.fromhex, remembered["names"]))
            self._roots = tuple(remembered["roots"])
            return

    def _description(self, before: Scene) -> dict[str, Any] | None:
        """What they register and for which modules they matter; None if that can't be told."""
        files: dict[str, list[int]] = {}
        loaded = [module for name, module in sorted(sys.modules.items()) if name not in before.modules]
        for module in loaded:
            path = getattr(module, "__file__", None)
            if path is None:
                continue
            found = stamp(path)
            if found is None:
                return None
            files[path] = found
        classes = typeof_impl.registry.keys() - before.typed
        if any(map(is_toolchain_definition, classes)):
            return None
        matter = [*self._index.modules(), *(cls.__module__ for cls in classes), *self._declared]
        # Classes made by calling ABCMeta say that they are from there; who has one has imported the package.
        roots = {name.partition(".")[0] for name in matter} - {abc.__name__}
        if len(files) > MOST_FILES or not roots.isdisjoint(before.modules):
            return None
        names = sorted(name.hex() for name in self._index.names())
        content: dict[str, Any] = {"names": names, "roots": sorted(roots), "files": files}
        # Where the store is, nbcache itself has read, which is declared as well; and hosts have it elsewhere.
        read = {name: value for name, value in before.read.items() if not name.startswith("NBCACHE_")}
        content["environment"] = {} if before.read_everything else read
        content["everything"] = _environment() if before.read_everything else ""
        if sum(each[0] for each in files.values()) <= MOST_BYTES:
            digests = {path: _content_of(path) for path in files}
            if None not in digests.values():
                content["digests"] = digests
        return content


def _holds(remembered: Mapping[str, Any]) -> bool:
    """Whether the environment is what it was, as far as they read it."""
    from nbcache.glue.capture.readings import environment_variable

    if any(environment_variable(name) != value for name, value in remembered["environment"].items()):
        return False
    return remembered["everything"] in {"", _environment()}


def _environment() -> str:
    """All of the environment, but for what shells change on the way and what is nbcache's own."""
    passing = ("_", "PWD", "OLDPWD", "SHLVL")
    told = sorted(item for item in os.environ.items() if item[0] not in passing and not item[0].startswith("NBCACHE_"))
    return hashlib.blake2b(repr(told).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def _modules_in(entries: str) -> list[str]:
    """The modules that the entry points of a distribution name."""
    values = (line.partition("=")[2].strip() for line in entries.splitlines() if "=" in line)
    return [value.partition(":")[0].strip() for value in values]


def _content_of(path: str) -> str | None:
    """Tell what a file contains; None if it can't be read."""
    from nbcache.glue.identity.files import UNREADABLE, file_digest

    digest = file_digest(path)
    return None if digest == UNREADABLE else digest.hex()


def _digest(what: object) -> str:
    text = json.dumps(what, sort_keys=True)
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def _written(known: Mapping[str, Any], files: Mapping[str, Any]) -> bytes:
    return json.dumps({"version": VERSION, **known, "files": files}).encode("utf-8", "surrogateescape")


def _read(content: bytes) -> dict[str, Any] | None:
    """What `_description` told, or None for anything else."""
    try:
        found = json.loads(content)
        return found if found.pop("version") == VERSION and "names" in found else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
