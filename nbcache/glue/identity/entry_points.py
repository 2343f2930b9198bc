"""What installed packages declare: that they extend Numba, or that they bring a layer (:mod:`nbcache.store.layers`).

Both are read out of their metadata in one go, without the time that `importlib.metadata` takes to put it in order.
Gives the same answer as that, or leaves it to that.
"""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import stat
import sys
from typing import Any, Final

from nbcache.passing_exceptions import let_pass, suppressed
from nbcache.process import os

GROUP: Final = b"numba_extensions"
LAYERS: Final = b"nbcache.layers"
_CHUNK: Final = 1 << 16
OURS: Final = (b"init", b"=", b"_nbcache:extend")


def declares_extensions() -> bool:
    """Whether any installed distribution, but for this one, may extend Numba."""
    return declarations() != []


def declarations() -> list[tuple[str, str]] | None:
    """Path and text of what declares an extension of Numba, None if that can't be told.

    Looks where `importlib.metadata` does. A hundred distributions are read in 2 ms; `importlib.metadata` takes ten
    times as long to put them in order.
    """
    found = _read()
    return None if found is None else found[0]


def layers() -> list[tuple[str, str]]:
    """Package and directory of each layer that an installed distribution declares, in the order of ``sys.path``.

    An entry point of the group ``nbcache.layers`` names the directory as a module of that name would be found beside
    the distribution's metadata. Nothing is imported, and whether it is there isn't looked at.
    """
    for path, noted in _noted:
        if path == sys.path:
            return noted
    found = _read()
    return _layers_of_metadata() if found is None else found[1]


_noted: list[tuple[list[str], list[tuple[str, str]]]] = []
"""The layers that were read along when extensions were looked for, behind the ``sys.path`` of then."""


def _read() -> tuple[list[tuple[str, str]], list[tuple[str, str]]] | None:
    """What declares extensions, and the layers; None if that can't be told."""
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_distributions")]
    if len(finders) != 1 or not _looks_at_paths(finders[0]) or not _is_original(importlib.metadata.entry_points):
        return None
    extensions: list[tuple[str, str]] = []
    found: list[tuple[str, str]] = []
    for folder in sys.path:
        texts = _declared_in(folder)
        if texts is None:
            return None
        for path, text in texts:
            if _extends(text):
                extensions.append((path, text.decode("utf-8", "surrogateescape")))
            if LAYERS in text:
                found += _layers_in(path, text.decode("utf-8", "replace"))
    _noted[:] = [(list(sys.path), found)]
    return extensions, found


def _looks_at_paths(finder: object) -> bool:
    """Whether a finder is Python's, or that of importlib_metadata, which takes its place where somebody imports it."""
    if finder is importlib.machinery.PathFinder:
        return True
    backport = getattr(sys.modules.get("importlib_metadata"), "MetadataPathFinder", None)
    return backport is not None and type(finder) is backport


def _is_original(function: Any) -> bool:
    return getattr(function, "__module__", "") == importlib.metadata.__name__


def _declared_in(folder: str) -> list[tuple[str, bytes]] | None:
    """Path and content of what says something of either; None if something can't be read."""
    try:
        names = _metadata_among(os.listdir(folder or "."))
    except NotADirectoryError:
        return None  # an archive
    except OSError as raised:
        let_pass(raised)
        names = []
    _metadata[folder] = names
    found = []
    for name in names:
        path = f"{folder or '.'}/{name}/entry_points.txt"
        text = _content(path)
        if text is None:
            return None
        if GROUP in text or LAYERS in text:
            found.append((path, text))
    return found


def metadata_in(folder: str) -> list[str]:
    """The names of the directories in which installers wrote down what they installed there."""
    if folder not in _metadata:
        try:
            _metadata[folder] = _metadata_among(os.listdir(folder))
        except OSError as raised:
            let_pass(raised)
            _metadata[folder] = []
    return _metadata[folder]


_metadata: dict[str, list[str]] = {}


def _metadata_among(names: list[str]) -> list[str]:
    return [it for it in names if (low := it.lower()).endswith((".dist-info", ".egg-info")) or low == "egg-info"]


def _content(path: str) -> bytes | None:
    """What a distribution declares, b"" if nothing, None if it can't be read."""
    try:
        # A file object takes as long again; and in a directory like /tmp, somebody else may have put a FIFO there.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                return b""
            # Mostly once: each call counts, in an environment of a hundred distributions.
            text = os.read(fd, status.st_size + 1)
            return text if len(text) == status.st_size else text + b"".join(iter(lambda: os.read(fd, _CHUNK), b""))
        finally:
            os.close(fd)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as raised:
        let_pass(raised)
        return None


def _extends(text: bytes) -> bool:
    """Whether a distribution extends Numba, other than this one does."""
    if GROUP not in text:
        return False
    entries = text.partition(b"[" + GROUP + b"]")[2].partition(b"[")[0]
    return text.count(GROUP) > 1 or tuple(entries.split()) != OURS


def _layers_in(path: str, text: str) -> list[tuple[str, str]]:
    """The layers that a distribution's entry points name."""
    metadata = os.path.dirname(path)
    name = os.path.basename(metadata).partition("-")[0]
    return [(name, _folder(os.path.dirname(metadata), value)) for value in _layers_named_in(text)]


def _layers_of_metadata() -> list[tuple[str, str]]:
    """The same as `importlib.metadata` tells it."""
    return [
        (_name_of(each, value), _folder(str(each.locate_file("")), value))
        for each in importlib.metadata.distributions()
        # Not its entry points: from Python 3.15 on, one that is no reference is an exception for all of them.
        for value in _layers_named_in(each.read_text("entry_points.txt") or "")
    ]


def _layers_named_in(text: str) -> list[str]:
    """The modules as whose directories entry points name layers."""
    entries = text.partition(f"[{LAYERS.decode()}]")[2].partition("[")[0]
    values = (line.partition("=")[2].strip() for line in entries.splitlines())
    return [value for value in values if all(map(str.isidentifier, value.split(".")))]


def _name_of(distribution: Any, value: str) -> str:
    """The name of a package that declares *value*; that of the module where its metadata isn't there."""
    with suppressed(OSError):  # since Python 3.15
        return distribution.metadata["Name"] or value
    return value


def _folder(root: str, module: str) -> str:
    return os.path.join(os.path.abspath(root), *module.split("."))
