"""Numba's own C extensions, which compiled code calls, loaded by file and without Numba.

They are loaded under their real names. Where Numba is installed in the version that the code was built with, its own
files are taken, so that an ``import numba`` later, or before, has the very same ones with their state. Elsewhere, and
beside a Numba of another version, which then has its own, they come out of the store, where they were put with the
publication, and are loaded from memory: a store may be mounted ``noexec``, and a file that is truncated while it is
mapped ends the process.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec, PathFinder
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType

    from nbcache.protocol.manifests import Extension

POOLS: Final = ("numba.np.ufunc.tbbpool", "numba.np.ufunc.omppool", "numba.np.ufunc.workqueue")
"""The threading layers, as Numba prefers them."""


class Extensions:
    """Those of one build of Numba, by name: what publications made with it brought along."""

    def __init__(self, version: str) -> None:
        """Know none of this version of Numba yet."""
        self._version = version
        self._known: dict[str, tuple[Extension, Callable[[str], bytes]]] = {}
        self._loaded: dict[str, ModuleType] = {}

    def offer(self, extensions: Iterable[Extension], read: Callable[[str], bytes]) -> None:
        """Note what a publication has; ``read(digest)`` returns a file's content."""
        for each in extensions:
            self._known.setdefault(each.module, (each, read))

    def load(self, name: str) -> ModuleType:
        """Return the extension of this name. Raises ImportError, and what ``read`` raises."""
        module = self._loaded.get(name)
        if module is None:
            module = self._loaded[name] = self._installed(name) or self._published(name)
        return module

    def _installed(self, name: str) -> ModuleType | None:
        """Numba's own, if that is of the version that was published."""
        path = file_of(name)
        if path is None or not _is_of(self._version, name, path):
            return None
        known = self._known.get(name)
        # Reading megabytes to compare them would take longer than everything else.
        if known is not None and os.stat(path).st_size != known[0].size:
            return None
        return sys.modules.get(name) or _load(name, path)

    def _published(self, name: str) -> ModuleType:
        if name not in self._known:
            msg = f"{name} of Numba {self._version} is not installed, and was not published"
            raise ImportError(msg)
        from nbcache.published import images  # most have Numba's own, or an image that needs none

        extension, read = self._known[name]
        theirs = sys.modules.get(name)
        with images.library(name, read(extension.digest)) as path:
            module = _load(name, path)
        # Whoever imports another Numba in this process has to get that one's.
        if theirs is not None:
            sys.modules[name] = theirs
        else:
            sys.modules.pop(name, None)
        return module


_found: Final[dict[str, tuple[list[str], list[str]]]] = {}
"""By package: the path that it was looked for on, and its folders there."""


def folders_of(package: str) -> list[str]:
    """Where the modules of an installed package lie, without importing it; nowhere if it isn't installed."""
    loaded = sys.modules.get(package)
    if loaded is not None:
        return list(loaded.__path__)
    path, folders = _found.get(package, ((), []))
    if path != sys.path:
        spec = PathFinder.find_spec(package)
        folders = list(spec.submodule_search_locations or ()) if spec is not None else []
        if folders:  # what isn't there may come
            _found[package] = list(sys.path), folders
    return folders


def _is_of(version: str, name: str, path: str) -> bool:
    """Whether a file belongs to this version of Numba, without importing it."""
    package = sys.modules.get("numba")
    if package is not None:
        return getattr(package, "__version__", None) == version
    site = path[: -len(os.path.join(*name.split("."))) - len(EXTENSION_SUFFIXES[0])]
    return os.path.isdir(f"{site}numba-{version}.dist-info")


def file_of(name: str) -> str | None:
    """The file of one of Numba's extensions, without importing Numba; None if it isn't there."""
    for folder in folders_of("numba"):
        for suffix in EXTENSION_SUFFIXES:
            path = os.path.join(folder, *name.split(".")[1:]) + suffix
            if os.path.exists(path):
                return path
    return None


def _load(name: str, path: str) -> ModuleType:
    loader = ExtensionFileLoader(name, path)
    module = loader.create_module(ModuleSpec(name, loader, origin=path))
    loader.exec_module(module)
    return module
