"""Numba's own C extensions, which compiled code calls, loaded by file and without Numba.

They are loaded under their real names. Where Numba is installed in the version that the code was built with, its own
files are taken, so that an ``import numba`` later, or before, has the very same ones with their state. Elsewhere they
come out of the store, where they were put with the publication, and are loaded from memory: a store may be mounted
``noexec``, and a file that is truncated while it is mapped ends the process.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec, PathFinder
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType

    from nbcache.protocol.manifests import Extension

POOLS: Final = ("numba.np.ufunc.tbbpool", "numba.np.ufunc.omppool", "numba.np.ufunc.workqueue")
"""The threading layers, as Numba prefers them."""

_loaded: dict[str, ModuleType] = {}
_memory: list[int] = []
"""Descriptors of files in memory: the C library knows a library by its path, so none is used twice."""


class Extensions:
    """Those that publications brought along, by name; the newest counts, until one is loaded."""

    def __init__(self) -> None:
        """Know none."""
        self._known: dict[str, tuple[Extension, str, Callable[[str], bytes]]] = {}

    def offer(self, extensions: Iterable[Extension], version: str, read: Callable[[str], bytes]) -> None:
        """Note what a publication of this version of Numba has; ``read(digest)`` returns a file's content."""
        for each in extensions:
            self._known[each.module] = each, version, read

    def load(self, name: str) -> ModuleType:
        """Return the extension of this name. Raises ImportError, and what ``read`` raises."""
        module = _loaded.get(name) or sys.modules.get(name)
        if module is None:
            known = self._known.get(name)
            path = _installed(name, known)
            if path is None:
                if known is None:
                    msg = f"{name} is not installed, and was not published"
                    raise ImportError(msg)
                path = _in_memory(name, known[2](known[0].digest))
            module = _load(name, path)
        _loaded[name] = module
        return module


def _installed(name: str, known: tuple[Extension, str, Any] | None) -> str | None:
    """Where Numba has it, if that is the one that was published, or none was."""
    path = file_of(name)
    if path is None or known is None or "numba" in sys.modules:
        return path
    extension, version, _read = known
    # The size and the version's folder: reading megabytes to compare them would take longer than everything else.
    site = path[: -len(os.path.join(*name.split("."))) - len(EXTENSION_SUFFIXES[0])]
    same = os.path.isdir(f"{site}numba-{version}.dist-info") and os.stat(path).st_size == extension.size
    return path if same else None


def file_of(name: str) -> str | None:
    """The file of one of Numba's extensions, without importing Numba; None if it isn't there."""
    package = sys.modules.get("numba")
    if package is not None:
        roots = list(package.__path__)
    else:
        spec = PathFinder.find_spec("numba")
        roots = list(spec.submodule_search_locations or ()) if spec is not None else []
    for root in roots:
        for suffix in EXTENSION_SUFFIXES:
            path = os.path.join(root, *name.split(".")[1:]) + suffix
            if os.path.exists(path):
                return path
    return None


def _in_memory(name: str, data: bytes) -> str:
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    _memory.append(descriptor)
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    return f"/proc/self/fd/{descriptor}"


def _load(name: str, path: str) -> ModuleType:
    loader = ExtensionFileLoader(name, path)
    module = loader.create_module(ModuleSpec(name, loader, origin=path))
    loader.exec_module(module)
    return module
